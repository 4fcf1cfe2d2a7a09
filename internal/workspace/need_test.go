package workspace_test

import (
	"math"
	"testing"

	"securebench/internal/task"
	"securebench/internal/workspace"
)

// A layout needs its root, its files in whole pages, its assets, and each
// folder above them once.
func TestNeed(t *testing.T) {
	tk, err := task.New(task.Config{ID: "t", Family: "f", Pack: task.Pack{ID: "p"},
		Resources: []task.Resource{{Name: "q", Lane: task.Public, Value: []byte(`"x"`)}},
		Assets:    []task.Asset{{Path: "d", Mount: "a/b/d"}, {Path: "e", Mount: "a/e"}}})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := workspace.ForAgent(tk.Agent(), workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := plan.Need(func(path string) workspace.Need {
		if path == "d" {
			return workspace.Need{Files: 10, Bytes: 8192}
		}
		return workspace.FileNeed(1)
	})
	// root, task.json, securebench, public, q.json, a, b; 10 of d; e
	if want := (workspace.Need{Files: 18, Bytes: 8192 + 3*4096}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFileNeed(t *testing.T) {
	for size, want := range map[int64]int64{0: 0, 1: 4096, 4096: 4096, 4097: 8192, math.MaxInt64: math.MaxInt64 / 4096 * 4096} {
		if got := workspace.FileNeed(size); got != (workspace.Need{Files: 1, Bytes: want}) {
			t.Errorf("%d bytes: got %+v, want %d", size, got, want)
		}
	}
	if got := workspace.FileNeed(math.MaxInt64).Plus(workspace.FileNeed(math.MaxInt64)).Bytes; got != math.MaxInt64 {
		t.Errorf("the sum of two of the largest is %d", got)
	}
}
