package repopatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/repopatch/policy"
	"securebench/internal/family/sandboxed"
	"securebench/internal/repository"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/holder"
)

// hostTree is a folder of this machine as a workspace.
type hostTree struct{ *holder.Client }

// Close implements [sandbox.Workspace].
func (h hostTree) Close(context.Context) error { return h.Client.Close() }

// taken is a pristine checkout of known contents.
type taken struct{ contents map[string][]byte }

func (c taken) Head() string { return "" }

func (c taken) At(string) error { return nil }

func (c taken) Content(path string) ([]byte, error) { return c.contents[path], nil }

func (c taken) Release() {}

// hostCase applies patches to a folder of this machine.
type hostCase struct {
	git  string
	dir  string // the checkout
	s    *scorer
	base base
}

// newHostCase makes a folder with the files of the project, beside a file that
// nothing may change.
func newHostCase(tb testing.TB, p policy.Policy) *hostCase {
	tb.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		tb.Skipf("git is needed: %v", err)
	}
	top, err := os.MkdirTemp("", "patched-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(top) })
	h := &hostCase{git: git, dir: filepath.Join(top, "repo")}
	contents := map[string][]byte{}
	for name, text := range project() {
		contents[name] = []byte(text)
		file := filepath.Join(h.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := os.Symlink("..", filepath.Join(h.dir, "ext")); err != nil { // to top
		tb.Fatal(err)
	}
	near, far := net.Pipe()
	go func() { _ = holder.Serve(h.dir, far, far) }()
	site := &site{Site: &sandboxed.Site{Limits: sandbox.Limits{}.WithDefaults()}, tree: hostTree{holder.NewClient(near)}}
	tb.Cleanup(func() { _ = site.tree.Close(context.Background()) })
	tree, err := site.walk(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	h.s = &scorer{site: site, row: row{policy: p}}
	h.base = base{tree, nil, taken{contents: contents}}
	return h
}

// check applies a patch and enforces the policy. What differs from the base
// then must be what the policy allows, and nothing else may have changed.
func (h *hostCase) check(patch []byte) error {
	cmd := exec.Command(h.git, gitApply(h.git, noLinks)[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin = h.dir, gitEnvironment(), bytes.NewReader(patch)
	_ = cmd.Run() // a patch that does not apply may have changed something all the same
	left, err := os.ReadDir(filepath.Dir(h.dir))
	if err != nil || len(left) != 1 {
		return fmt.Errorf("outside of the checkout: %v, %w", left, err)
	}
	ctx := context.Background()
	var f *family.Failure
	var refused *candidate.Rejection
	switch err := h.s.enforce(ctx, h.base); {
	case errors.As(err, &f), errors.As(err, &refused):
		return nil
	case err != nil:
		return fmt.Errorf("enforcing the policy: %w", err)
	}
	now, err := h.s.site.walk(ctx)
	if err != nil {
		return err
	}
	for _, c := range repository.Compare(h.base.tree, now) {
		d := h.s.row.policy.Decide([]repository.Change{c})
		if len(d.Allowed) != 1 {
			return fmt.Errorf("%q survives: %+v", c.Path, d)
		}
		if !slices.Contains(h.s.paths.applied, c.Path) {
			return fmt.Errorf("%q survives and is not listed in %q", c.Path, h.s.paths.applied)
		}
	}
	return nil
}

// policies are what the properties are checked with.
func policies() []policy.Policy {
	return []policy.Policy{{}, {Drop: true}, {Drop: true, AllowPaths: []string{"calc.py", "bin"}},
		{AllowSensitivePaths: []string{"*"}}, {PreservedPaths: []string{"tests", "README"}, Drop: true}}
}

// FuzzSurvivors gives arbitrary texts to the real git.
func FuzzSurvivors(f *testing.F) {
	for _, a := range attacks() {
		f.Add(uint8(1), []byte(a.patch))
		f.Add(uint8(3), []byte(a.patch+mended))
	}
	f.Add(uint8(3), []byte(strings.Replace(throughCopy, "-/tmp", "-..", 1)))
	f.Fuzz(func(t *testing.T, which uint8, patch []byte) {
		h := newHostCase(t, policies()[int(which)%len(policies())])
		if err := h.check(patch); err != nil {
			t.Errorf("%q: %v", patch, err)
		}
	})
}

// TestSurvivors gives patches of random sections to the real git: sections that
// apply, in odd spellings, to sensitive and to plain paths.
func TestSurvivors(t *testing.T) {
	applied := 0
	rapid.Check(t, func(rt *rapid.T) {
		h := newHostCase(t, rapid.SampledFrom(policies()).Draw(rt, "policy"))
		var patch strings.Builder
		for range rapid.IntRange(1, 4).Draw(rt, "sections") {
			patch.WriteString(section(rt))
		}
		if err := h.check([]byte(patch.String())); err != nil {
			rt.Fatalf("%s\n%v", patch.String(), err)
		}
		applied += len(h.s.paths.applied) + len(h.s.paths.dropped) + len(h.s.paths.denied) + len(h.s.paths.preserved)
	})
	if applied == 0 {
		t.Error("no patch ever changed anything")
	}
}

// section draws one section of a patch.
func section(rt *rapid.T) string {
	files := project()
	old := rapid.SampledFrom([]string{"calc.py", "tests/test_old.py", "tests/data.txt", "bin/run.py", "README"}).Draw(rt, "old")
	fresh := rapid.SampledFrom([]string{"new.py", "conftest.py", "tests/new.py", "bin/x.sh", "a/b/c", "TESTS/x", "tests/data.txt/x", "bin", "tests",
		".gitattributes", ".git/x", "../x", "ext/x", "calc.py ", "securebench/x", "src/../tests/x"}).Draw(rt, "new")
	a, b := rapid.SampledFrom([]string{"a/", "x/", ""}).Draw(rt, "a"), rapid.SampledFrom([]string{"b/", "y/"}).Draw(rt, "b")
	quote := func(name string) string {
		if rapid.Bool().Draw(rt, "quoted") {
			return `"` + strings.ReplaceAll(name, "/", `\057`) + `"`
		}
		return name
	}
	switch rapid.IntRange(0, 6).Draw(rt, "kind") {
	case 0:
		return removed(old, files[old])
	case 1:
		return newFile(fresh, rapid.SampledFrom([]string{"100644", "100755", "120000", "160000", "100600"}).Draw(rt, "mode"), "x\n")
	case 2:
		return fmt.Sprintf("diff --git %s %s\nold mode 100644\nnew mode 100755\n", quote(a+old), quote(b+old))
	case 3:
		return fmt.Sprintf("diff --git a/%s b/%s\nsimilarity index 100%%\nrename from %s\nrename to %s\n", old, fresh, quote(old), quote(fresh))
	case 4:
		return fmt.Sprintf("diff --git a/%s b/%s\nsimilarity index 100%%\ncopy from %s\ncopy to %s\n", old, fresh, old, quote(fresh))
	case 5: // a header that names another file
		first, _, _ := strings.Cut(files[old], "\n")
		return fmt.Sprintf("diff --git a/calc.py b/calc.py\n--- %s\n+++ %s\n@@ -1 +1 @@\n-%s\n+changed\n", quote(a+old), quote(b+old), first)
	}
	first, _, _ := strings.Cut(files[old], "\n")
	return fmt.Sprintf("--- %s\n+++ %s\n@@ -1 +1 @@\n-%s\n+changed\n", a+old, b+old, first)
}
