package pipeline_test

import (
	"os"
	"strings"
	"testing"

	"securebench/internal/agent"
	"securebench/internal/pipeline/produce"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// TestOracleRunsPrograms: a solution program of a row runs in place of the
// agent, is captured like an agent's work and is labelled as the oracle's.
func TestOracleRunsPrograms(t *testing.T) {
	for name, tt := range map[string]struct {
		runner bool
		image  bool
		want   string
	}{
		"as it should be": {true, true, ""},
		"no engine":       {false, true, "no sandbox engine is available to run it"},
		"no image":        {true, false, "asks for no image"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, worker)
			b.cfg.Families["tree_family"], b.cfg.Verifiers, b.cfg.Retries = treeFamily(), stageVerifiers(), 0
			oracle := &agent.Oracle{}
			if tt.runner {
				oracle.Runner = &agent.Runner{RunID: "test", Producer: &produce.Producer{Engine: b.engine, Env: os.LookupEnv}}
			}
			b.cfg.Agent = oracle
			if !tt.image {
				b.cfg.Images = nil
			}
			if _, err := b.run(t.Context(), treeTask(t, "q", "5")); err != nil {
				t.Fatal(err)
			}
			l := b.entries()[0].Line
			if tt.want != "" {
				if l.Outcome != verdict.Infrastructure || !strings.Contains(l.FailureMessage, tt.want) {
					t.Errorf("%s: %s, want %q", l.Outcome, l.FailureMessage, tt.want)
				}
				return
			}
			if l.Outcome != verdict.Passed || l.Agent != "oracle" || l.ProducerMetadata.Text("harness") != "oracle" || l.Candidate.Kind != task.Workspace {
				t.Errorf("record %+v", l)
			}
			if specs := b.engine.Specs(); len(specs) != 1 || specs[0].Labels.Role != "agent" || specs[0].Image.Ref != "img" || b.engine.Left() != 0 {
				t.Errorf("sandboxes %+v, %d left", specs, b.engine.Left())
			}
		})
	}
}
