package family

import "securebench/internal/task"

// A Baseline answers rows without solving them, from the public lane only. If
// one scores well, the pack does not measure what it claims to measure.
type Baseline struct {
	Name string // "always B"
	// Answer returns the answer to a row, or false if there is none.
	Answer func(task.AgentView) (string, bool)
	// Shown says that its rate is of interest even where another's is better.
	Shown bool
	// Chance returns the probability that such a guess passes a row; nil is that of the
	// family.
	Chance func(Case) float64
}

// Constants returns baselines that give the same answer to every row, one for
// each text.
func Constants(texts ...string) []Baseline {
	var out []Baseline
	for _, text := range texts {
		out = append(out, Baseline{Name: "always " + text, Answer: func(task.AgentView) (string, bool) { return text, true }})
	}
	return out
}

// Echo returns the baseline that repeats a public text of the row.
func Echo(name string) Baseline {
	return Baseline{Name: "the " + name + " itself", Answer: func(v task.AgentView) (string, bool) {
		r, ok := v.Get(name)
		if !ok {
			return "", false
		}
		return r.Text()
	}}
}
