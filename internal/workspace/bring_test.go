package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/task"
	"securebench/internal/workspace"
)

// TestBring: before a layout is made, the files that it needs are asked for and no others,
// each by its lane. Those of evaluation are not, for an agent.
func TestBring(t *testing.T) {
	t.Parallel()
	public, eval := t.TempDir(), t.TempDir()
	expect, expectEvals := map[string]string{}, map[string]string{}
	for _, name := range []string{"one", "dir/a", "dir/sub/b", "dirty", "other"} {
		expect[name] = "sha256:x"
	}
	for _, name := range []string{"ref", "tests/x", "tests/y", "answer/solve.sh", "hidden"} {
		expectEvals[name] = "sha256:x"
	}
	var got []string
	var refused error
	opts := workspace.Options{Expect: expect, ExpectEvals: expectEvals, EvalPaths: []string{"tests"}, Bring: func(public, eval []string) error {
		got = nil
		for _, name := range public {
			got = append(got, "public "+name)
		}
		for _, name := range eval {
			got = append(got, "eval "+name)
		}
		slices.Sort(got)
		return refused
	}}
	var err error
	if opts.Assets, err = os.OpenRoot(public); err == nil {
		opts.Evals, err = os.OpenRoot(eval)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer opts.Assets.Close()
	defer opts.Evals.Close()
	assets := []task.Asset{{Path: "one", Mount: "one"}, {Path: "dir", Mount: "dir"}}
	tk := newTask(t, assets, res(task.Public, "question", `"q"`), res(task.EvaluationInputs, "checker", `{"path": "ref", "mount": "securebench/evaluation_inputs/ref"}`))
	opts.PublicAssets = assets[:1]
	is := func(what string, err error, want ...string) {
		t.Helper()
		if err != nil || strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	_, err = workspace.ForAgent(tk.Agent(), opts)
	is("an agent", err, "public dir/a", "public dir/sub/b", "public one")
	_, err = workspace.ForTestSandbox(tk.TestSandbox(), opts)
	is("a test sandbox", err, "eval ref", "eval tests/x", "eval tests/y", "public one")
	if err := os.MkdirAll(filepath.Join(eval, "answer"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = workspace.ForSolution("answer", opts)
	is("a solution", err, "eval answer/solve.sh")
	refused = errors.New("the run is away")
	if _, err := workspace.ForAgent(tk.Agent(), opts); !errors.Is(err, refused) {
		t.Errorf("a file that cannot be had: %v", err)
	}
}
