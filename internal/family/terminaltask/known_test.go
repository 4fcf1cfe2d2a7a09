package terminaltask

import (
	"context"
	"testing"

	"securebench/internal/family"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// TestCommandKnown: what was found out about a command for one row does not decide for
// another, whose candidate may bring that command.
func TestCommandKnown(t *testing.T) {
	t.Parallel()
	b := system(t, newBench(t, nil))
	env := task.Environment{Workdir: "/app"}
	command := object{"command": []string{"/srv/tool/check"}}
	brings := object{"checker": command, "capture": object{"roots": []string{"/srv/tool"}}}
	for name, rows := range map[string][]struct {
		eval object
		want verdict.Outcome
	}{
		"the image's first":     {{object{"checker": command}, verdict.Pending}, {brings, verdict.Failed}},
		"the candidate's first": {{brings, verdict.Failed}, {object{"checker": command}, verdict.Pending}},
	} {
		v := newVerifier(family.Resources{Engine: b.engine, RunID: b.run, Files: b.files, Image: b.named, Commands: b.by})
		for i, row := range rows {
			c := makeCase(t, row.eval, env)
			c.Image = b.image
			s := v.Open(t.Context(), c)
			got, err := s.Verify(t.Context(), tree(t, nil))
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Outcome != row.want {
				t.Errorf("%s, row %d: %s, want %s", name, i+1, describe(got), row.want)
			}
		}
	}
}
