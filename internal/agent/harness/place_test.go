package harness_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"securebench/internal/agent/harness"
	"securebench/internal/task"
)

// TestCheckoutPlan: a command starts in the workspace, is told where the
// repository is, and its candidate is the change of the repository or else what
// it prints. The program of a row is treated in the same way.
func TestCheckoutPlan(t *testing.T) {
	h, problem := parse(t, "command", "{command: [run, it], task_file: in/task.json}")
	if problem != "" {
		t.Fatal(problem)
	}
	diff := task.Extraction{Mode: task.FromGitDiff, Kind: task.Patch}
	v := view(t, "repo", task.Environment{Image: "i", Checkout: task.Checkout{Dir: "/testbed", Commit: "c"}}, diff)
	p, err := h.Plan(v)
	if err != nil {
		t.Fatal(err)
	}
	program, err := harness.PlanProgram(v, []string{"solve"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		plan harness.Plan
		file string
	}{"command": {p, "/workspace/in/task.json"}, "program": {program, "/workspace/task.json"}} {
		env := []string{"SECUREBENCH_TASK_FILE=" + tt.file, "SECUREBENCH_REPO=/testbed"}
		if got := tt.plan; got.Workdir != "/workspace" || got.Target != "/workspace" || got.Checkout != "/testbed" || !slices.Equal(got.Env, env) {
			t.Errorf("%s: %+v", name, got)
		}
		want := diff
		want.OrStdout = true
		if !reflect.DeepEqual(tt.plan.Extract, want) {
			t.Errorf("%s: extraction %+v", name, tt.plan.Extract)
		}
	}
	file, problem := parse(t, "command", "{command: x, artifact_path: out.patch}")
	if problem != "" {
		t.Fatal(problem)
	}
	if p, err := file.Plan(v); err != nil || !reflect.DeepEqual(p.Extract, task.Extraction{Mode: task.FromFile, Kind: task.Patch, Path: "out.patch"}) || p.Checkout != "/testbed" {
		t.Errorf("with an artifact: %+v, %v", p, err)
	}
}

// TestOverlappingMounts: a workspace below the repository would hide a part of
// it, and the other way round. Rows say where both are.
func TestOverlappingMounts(t *testing.T) {
	h, _ := parse(t, "command", "{command: x}")
	tree := task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace}
	diff := task.Extraction{Mode: task.FromGitDiff, Kind: task.Patch}
	for _, tt := range []struct {
		name, workdir, checkout string
		extract                 task.Extraction
		ok                      bool
	}{
		{"the same folder", "/app", "/app", tree, false},
		{"the workspace below the repository", "/app/x/y", "/app/x", tree, false},
		{"the repository below the workspace", "", "/workspace/repo", diff, false},
		{"the default workspace", "", "/workspace", diff, false},
		{"a name that begins alike", "", "/workspaces", diff, true},
		{"beside one another", "/app/x", "/app/y", tree, true},
		{"a workdir that is not the workspace", "/testbed", "/testbed", diff, true},
	} {
		v := view(t, "f", task.Environment{Workdir: tt.workdir, Checkout: task.Checkout{Dir: tt.checkout}}, tt.extract)
		_, planErr := h.Plan(v)
		_, checkErr := h.Check(v)
		_, programErr := harness.PlanProgram(v, []string{"x"})
		for what, err := range map[string]error{"Plan": planErr, "Check": checkErr, "PlanProgram": programErr} {
			if (err == nil) != tt.ok || err != nil && (!strings.Contains(err.Error(), "hide one another") || !strings.Contains(err.Error(), "p/t")) {
				t.Errorf("%s: %s returns %v", tt.name, what, err)
			}
		}
	}
}
