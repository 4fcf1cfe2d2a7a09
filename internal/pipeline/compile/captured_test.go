package compile_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/family"
	"securebench/internal/pipeline/compile"
	"securebench/internal/task"
)

// TestCaptured: a task has the files that its family takes from the agent's
// sandbox, and the root is writable if some lie outside of the workspace. The
// agent's view says that, but not which files they are.
func TestCaptured(t *testing.T) {
	reg := family.NewRegistry(family.Family{Name: "tree", Extraction: task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace},
		Lanes: map[string]task.Lane{"capture": task.EvaluationInputs},
		Captured: func(r family.Row) (c task.Captured) {
			_ = json.Unmarshal(r.Eval["capture"], &c)
			return c
		}})
	for name, tt := range map[string]struct {
		capture, workdir string
		want             task.Captured
		writable         bool
	}{
		"nothing said":              {`{}`, "", task.Captured{}, false},
		"the default workspace":     {`{"roots":["/workspace"]}`, "", task.Captured{Roots: []string{"/workspace"}}, false},
		"a folder of the workspace": {`{"roots":["/app/canary"]}`, `"workdir":"/app/"`, task.Captured{Roots: []string{"/app/canary"}}, false},
		"a folder beside it":        {`{"roots":["/app","/canary"]}`, `"workdir":"/app"`, task.Captured{Roots: []string{"/app", "/canary"}}, true},
		"a name that begins alike":  {`{"roots":["/app-canary"]}`, `"workdir":"/app"`, task.Captured{Roots: []string{"/app-canary"}}, true},
		"the whole root":            {`{"filesystem":true,"exclude":["/canary"]}`, "", task.Captured{Filesystem: true, Exclude: []string{"/canary"}}, true},
	} {
		loc := write(t, manifest, []string{`{"id":"a","family":"tree","eval":{"capture":` + tt.capture + `},"environment":{` + tt.workdir + `}}`})
		p, err := compile.Load(t.Context(), loc, reg, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c := tasks(t, p)[0]
		if got := c.Captured(); !reflect.DeepEqual(got, tt.want) || c.Environment().WritableRoot != tt.writable {
			t.Errorf("%s: %+v, writable %v", name, got, c.Environment().WritableRoot)
		}
		view, err := json.Marshal(c.Agent())
		if err != nil || strings.Contains(string(view), "canary") || strings.Contains(string(view), `"writable_root":true`) != tt.writable {
			t.Errorf("%s: the agent sees %s, %v", name, view, err)
		}
	}
}

// TestAdapted: a row says with one boolean that it differs from its data set.
func TestAdapted(t *testing.T) {
	for metadata, want := range map[string]bool{`{"adapted":true,"x":1}`: true, `{"adapted":false}`: false, `{"adapted":"true"}`: false, `{}`: false, `null`: false} {
		p, errs, _ := load(t, write(t, manifest, []string{`{"id":"a","family":"t","metadata":` + metadata + `}`}))
		if errs != "" {
			t.Fatal(errs)
		}
		if got := tasks(t, p)[0].Adapted(); got != want {
			t.Errorf("%s: %v", metadata, got)
		}
	}
}
