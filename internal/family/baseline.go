package family

import "securebench/internal/task"

// A Baseline answers rows without understanding them, from the public lane
// alone. A pack that one of them does well at measures something else than it
// says.
type Baseline struct {
	Name string // "always B"
	// Answer returns what it answers a row with, false where it has no answer.
	Answer func(task.AgentView) (string, bool)
}

// Constants are the baselines that give the same answer to every row.
func Constants(texts ...string) []Baseline {
	var out []Baseline
	for _, text := range texts {
		out = append(out, Baseline{"always " + text, func(task.AgentView) (string, bool) { return text, true }})
	}
	return out
}

// Echo is the baseline that repeats a public text of the row.
func Echo(name string) Baseline {
	return Baseline{"the " + name + " itself", func(v task.AgentView) (string, bool) {
		r, ok := v.Get(name)
		if !ok {
			return "", false
		}
		return r.Text()
	}}
}
