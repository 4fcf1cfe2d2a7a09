package scoring_test

import (
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/config"
	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/scoring"
	"securebench/internal/task"
)

// TestCheckProgram: a program runs in the agent's sandbox and needs what the
// row asks for; another solution runs nothing.
func TestCheckProgram(t *testing.T) {
	program := func(task.EvaluatorView) (family.Solution, bool) {
		return family.Solution{Command: []string{"solve"}}, true
	}
	text := func(task.EvaluatorView) (family.Solution, bool) {
		return family.Solution{Candidate: candidate.New(task.Text, candidate.Given, nil)}, true
	}
	none := func(task.EvaluatorView) (family.Solution, bool) { return family.Solution{}, false }
	asks, err := task.New(task.Config{ID: "a", Family: "f", Pack: task.Pack{ID: "p"},
		Environment: task.Environment{Capabilities: []string{"CHOWN", "KILL"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		reference func(task.EvaluatorView) (family.Solution, bool)
		granted   []sandbox.Capability
		ok        bool
	}{
		"a program":                        {program, nil, false},
		"a program, one of two is granted": {program, []sandbox.Capability{sandbox.Kill}, false},
		"a program, both are granted":      {program, []sandbox.Capability{sandbox.Chown, sandbox.Kill}, true},
		"a text":                           {text, nil, true},
		"no solution":                      {none, nil, true},
		"a family without solutions":       {nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := scoring.CheckProgram(config.Sandbox{Capabilities: c.granted}, family.Family{Reference: c.reference}, asks)
			if (err == nil) != c.ok {
				t.Errorf("got %v, want ok: %t", err, c.ok)
			}
		})
	}
}
