package agent_test

import (
	"testing"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/task"
)

// TestGivenPatches: a row's patch, and the empty one, are scored byte for byte
// as candidates that need no sandbox.
func TestGivenPatches(t *testing.T) {
	solution := &agent.Solution{Kind: task.Patch, Data: []byte(patch)}
	for name, tt := range map[string]struct {
		agent agent.Agent
		want  string
	}{"oracle": {&agent.Oracle{}, patch}, "null": {agent.Null{}, ""}} {
		tk, err := task.New(task.Config{ID: "q", Family: "f", Pack: task.Pack{ID: "p"},
			Environment: task.Environment{Image: "i", Checkout: task.Checkout{Dir: "/testbed", Commit: "c"}},
			Extraction:  task.Extraction{Mode: task.FromGitDiff, Kind: task.Patch}})
		if err != nil {
			t.Fatal(err)
		}
		store, err := candidate.OpenStore(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		p, err := tt.agent.Prepare(t.Context(), agent.Request{View: tk.Agent(), Attempt: 1, Solution: solution}, agent.Output{Sink: store})
		if err != nil {
			t.Fatal(err)
		}
		ran, err := p.Run(t.Context())
		if err != nil || agent.Blank(p) != (tt.want == "") {
			t.Errorf("%s: %v", name, err)
		}
		res, err := p.Capture(t.Context(), ran)
		if err != nil || res.Candidate == nil {
			t.Fatalf("%s: %+v, %v", name, res, err)
		}
		data, err := res.Candidate.Bytes()
		if err != nil || string(data) != tt.want || res.Candidate.Kind != task.Patch || res.Candidate.Origin != candidate.Given {
			t.Errorf("%s: %q as %+v, %v", name, data, res.Candidate, err)
		}
	}
}
