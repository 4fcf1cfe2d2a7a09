package terminaltask

import (
	"context"
	"reflect"
	"testing"

	"securebench/internal/family"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// TestCommandKnown: what was found out about a command for one row does not decide for
// another, whose candidate may bring that command, or that has folders of its own where it
// would be, whichever row comes first.
func TestCommandKnown(t *testing.T) {
	t.Parallel()
	b := system(t, newBench(t, nil))
	type row struct {
		eval    object
		workdir string
	}
	checker := func(name string) object { return object{"command": []string{name}} }
	for name, tt := range map[string]struct{ brings, lacks row }{
		"a captured folder": {row{object{"checker": checker("/srv/tool/check"), "capture": object{"roots": []string{"/srv/tool"}}}, "/app"}, row{object{"checker": checker("/srv/tool/check")}, "/app"}},
		"the workspace":     {row{object{"checker": checker("/app/check")}, "/app"}, row{object{"checker": checker("/app/check")}, "/work"}},
		"the reward's folder": {row{object{"checker": object{"command": []string{"/logs/verifier/check"}, "reward_file": "/logs/verifier/reward.txt"}}, "/app"},
			row{object{"checker": checker("/logs/verifier/check")}, "/app"}},
	} {
		for _, rows := range [][]row{{tt.brings, tt.lacks}, {tt.lacks, tt.brings}} {
			v := newVerifier(family.Resources{Engine: b.engine, RunID: b.run, Files: b.files, Image: b.named, Commands: b.by})
			for i, r := range rows {
				want := verdict.Failed
				if reflect.DeepEqual(r, tt.lacks) {
					want = verdict.Pending
				}
				c := makeCase(t, r.eval, task.Environment{Workdir: r.workdir})
				c.Image = b.image
				s := v.Open(t.Context(), c)
				got, err := s.Verify(t.Context(), tree(t, nil))
				if err := s.Close(context.Background()); err != nil {
					t.Error(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				if got.Outcome != want {
					t.Errorf("%s, row %d: %s, want %s", name, i+1, describe(got), want)
				}
			}
		}
	}
}
