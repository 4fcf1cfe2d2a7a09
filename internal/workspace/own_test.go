package workspace_test

import (
	"slices"
	"testing"

	"securebench/internal/task"
	"securebench/internal/workspace"
)

// TestNamesOwn: what names a file that only the old layout has in the workspace.
func TestNamesOwn(t *testing.T) {
	for text, want := range map[string]bool{
		"cat task.json": true, "open('task.json')": true, "/app/task.json": true, "./task.json": true, "jq . task.json|x": true, "task.json": true,
		"sh securebench/evaluation_inputs/check.sh": true, "./securebench/public/x.json": true, "/app/securebench/public/x": true,
		"/workspace/securebench/evaluation_inputs": true, "x='securebench/x'": true,
		"mc_task.json": false, "tasks.json": false, "task.jsonl": false, "my-task.json": false, "$SECUREBENCH_TASK_FILE": false,
		"/opt/securebench/evaluator/x": false, "/opt/securebench/agent/agent.py": false, "/securebench-evaluator/x": false, "securebench": false,
		"python3 -m securebench": false, "/srv/securebench/x": false, "": false,
	} {
		if got := workspace.NamesOwn(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// TestApart: the task file and public values leave the workspace, and assets stay.
func TestApart(t *testing.T) {
	tk := newTask(t, []task.Asset{{Path: "a", Mount: "securebench/public/a"}, {Path: "b", Mount: "b"}}, res(task.Public, "q", "1"))
	p, err := workspace.ForAgent(tk.Agent(), workspace.Options{TaskFile: "in/t.json"})
	if err != nil {
		t.Fatal(err)
	}
	paths := func(l *workspace.Layout) (out []string) {
		for _, e := range l.Entries {
			out = append(out, e.Path)
		}
		slices.Sort(out)
		return out
	}
	apart := p.Apart("in/t.json")
	if got, want := paths(apart), []string{"in/t.json", "public/q.json"}; !slices.Equal(got, want) {
		t.Errorf("apart are %q, want %q", got, want)
	}
	if got, want := paths(p), []string{"b", "securebench/public/a"}; !slices.Equal(got, want) {
		t.Errorf("in the workspace are %q, want %q", got, want)
	}
}
