package workspace_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/digest"
	"securebench/internal/workspace"
)

// solutionFiles lists a solution's files, each with its mode.
func solutionFiles(p string, opts workspace.Options) (map[string]string, error) {
	layout, err := workspace.ForSolution(p, opts)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := layout.WriteTar(&out, 0, 0); err != nil {
		return nil, err
	}
	got, tr := map[string]string{}, tar.NewReader(&out)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			return nil, err
		}
		got[h.Name] = h.FileInfo().Mode().String() + " " + string(content)
	}
}

// TestSolution: a file is laid under its own name, and a folder's content
// without the folder. A file that changed since the pack was loaded is noticed.
func TestSolution(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"t/solution/solve.sh": 0o755, "t/solution/lib/a.txt": 0o600, "t/tests/hidden.py": 0o644} {
		full := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	folder := map[string]string{"solve.sh": "-r-xr-xr-x t/solution/solve.sh", "lib/": "dr-xr-xr-x ", "lib/a.txt": "-r--r--r-- t/solution/lib/a.txt"}
	for p, want := range map[string]map[string]string{
		"t/solution": folder, "t/solution/": folder, "t/solution/solve.sh": {"solve.sh": folder["solve.sh"]},
	} {
		got, err := solutionFiles(p, workspace.Options{Evals: root})
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", p, err, d)
		}
	}
	for _, p := range []string{"../x", "/t", "", "t/none"} {
		if got, err := solutionFiles(p, workspace.Options{Evals: root}); err == nil {
			t.Errorf("%q gives %v", p, got)
		}
	}
	if _, err := solutionFiles("t", workspace.Options{}); err == nil || !strings.Contains(err.Error(), "no evaluation files") {
		t.Errorf("without evaluation files: %v", err)
	}
	digests := map[string]string{"t/solution/solve.sh": digest.Bytes([]byte("t/solution/solve.sh"))}
	if _, err := solutionFiles("t/solution/solve.sh", workspace.Options{Evals: root, ExpectEvals: digests}); err != nil {
		t.Error(err)
	}
	digests["t/solution/solve.sh"] = digest.Bytes(nil)
	for _, p := range []string{"t/solution/solve.sh", "t/solution", "gone"} {
		if _, err := solutionFiles(p, workspace.Options{Evals: root, ExpectEvals: digests}); !errors.Is(err, workspace.ErrChanged) {
			t.Errorf("%s, which changed: %v", p, err)
		}
	}
}
