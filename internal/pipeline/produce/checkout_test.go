package produce_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
)

// withCheckout gives a bench an image with a repository.
func withCheckout(b *bench) *bench {
	root := fstest.MapFS{"testbed/a.py": {Data: []byte("old\n"), Mode: 0o644}}
	b.engine = sandboxtest.New(sandboxtest.Config{Root: root, Programs: map[string]sandboxtest.Program{"agent": edit}})
	b.producer.Engine = b.engine
	b.env.Checkout = task.Checkout{Dir: "/testbed", Commit: "c"}
	b.harness.plan.Checkout = "/testbed"
	image, err := b.engine.Image(b.t.Context(), "img")
	if err != nil {
		b.t.Fatal(err)
	}
	b.checkout = &sandbox.ImageFolder{Image: image, Path: "/testbed"}
	return b
}

// edit changes the repository, and prints where it runs.
func edit(_ context.Context, p *sandboxtest.Process) int {
	file, err := p.Path("/testbed/a.py", true)
	if err != nil || os.WriteFile(file, []byte("new\n"), 0o600) != nil {
		return 1
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "task.json")); err != nil {
		return 2
	}
	fmt.Fprint(p.Stdout, p.Spec.Dir())
	return 0
}

// TestCheckout: the agent finds the image's repository in a volume beside its
// workspace, with the same limits, and leaves its changes there.
func TestCheckout(t *testing.T) {
	b := withCheckout(newBench(t, nil))
	b.limits = sandbox.Limits{Disk: 1 << 20, Files: 100}
	if res := b.run(); res.Outcome.ExitCode != 0 || string(res.Stdout) != "/workspace" {
		t.Fatalf("%+v", res)
	}
	spec := b.engine.Specs()[0]
	if len(spec.Mounts) != 2 || spec.Mounts[0].Target != "/workspace" || spec.Mounts[1].Target != "/testbed" || spec.Mounts[1].ReadOnly || spec.WritableRoot {
		t.Errorf("spec %+v", spec)
	}
	u, err := b.session.Checkout().Usage(t.Context())
	if err != nil || u.BytesLimit != 1<<20 || u.InodesLimit != 100 {
		t.Errorf("usage %+v, %v", u, err)
	}
	var out strings.Builder
	if err := b.session.Checkout().Get(t.Context(), "a.py", 1<<20, &out); err != nil || !strings.Contains(out.String(), "new\n") {
		t.Errorf("the repository: %q, %v", out.String(), err)
	}
}

// TestCheckoutFails: whatever of the two volumes cannot be made, nothing is
// left; the cleanup of newBench checks that.
func TestCheckoutFails(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*bench)
		want   string
	}{
		"not in the image":   {func(b *bench) { b.checkout.Path = "/elsewhere" }, "creating the checkout"},
		"no room":            {func(b *bench) { b.limits.Files = 1 }, "files"},
		"not prepared":       {func(b *bench) { b.checkout = nil }, "was not prepared"},
		"none in the plan":   {func(b *bench) { b.harness.plan.Checkout = "" }, "was not prepared"},
		"an asset is gone":   {func(b *bench) { b.assets = []task.Asset{{Path: "gone", Mount: "gone"}} }, "copying files into the workspace"},
		"the sandbox":        {func(b *bench) { b.engine.FailOpen(1, errors.New("boom")) }, "creating the agent's sandbox"},
		"overlapping mounts": {func(b *bench) { b.harness.plan.Checkout = "/workspace/x" }, "overlap"},
	} {
		t.Run(name, func(t *testing.T) {
			b := withCheckout(newBench(t, nil))
			root, err := os.OpenRoot(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			b.producer.Assets = root
			tt.change(b)
			if s, err := b.prepare(t.Context()); s != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("session %v, error %v; want %q", s, err, tt.want)
			}
		})
	}
}

// TestVariables: a row's variables reach the agent, but not over those that the
// operator forwards: a pack could send the agent's requests elsewhere. Paths of
// the sandbox are above both.
func TestVariables(t *testing.T) {
	b := newBench(t, idle)
	b.env.Env = []string{"API_BASE_URL=http://evil", "LANG=C", "SECUREBENCH_REPO=/evil"}
	b.harness.plan.EnvNames = []string{"API_BASE_URL", "SECUREBENCH_REPO"}
	b.harness.plan.Env = []string{"SECUREBENCH_REPO=/testbed"}
	b.producer.Env = func(name string) (string, bool) {
		return map[string]string{"API_BASE_URL": "http://good", "SECUREBENCH_REPO": "/x"}[name], true
	}
	b.run()
	want := []string{"LANG=C", "API_BASE_URL=http://good", "SECUREBENCH_REPO=/testbed"}
	if d := cmp.Diff(want, b.engine.Specs()[0].Env); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
