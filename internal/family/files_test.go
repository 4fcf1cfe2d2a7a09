package family_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// TestFiles lays out the evaluation files of a row, and refuses those that are
// no longer what was loaded. Without the digests, the weak set-up, a changed
// checker reaches the test sandbox.
func TestFiles(t *testing.T) {
	const checker, data = "#!/bin/sh\ntest -e done\n", "42\n"
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("eval/checks/run.sh", checker)
	put("eval/data.txt", data)
	digests := map[string]string{"checks/run.sh": digest.Bytes([]byte(checker)), "data.txt": digest.Bytes([]byte(data))}
	lay := func(digests map[string]string) (map[string]string, error) {
		t.Helper()
		files, err := family.OpenFiles(filepath.Join(dir, "public"), filepath.Join(dir, "eval"), nil, digests)
		if err != nil {
			t.Fatal(err)
		}
		defer files.Close()
		layout, err := files.Layout(row(t).TestSandbox(), nil, sandbox.Limits{}, "checks")
		if err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		if err := layout.WriteTar(&buf, 0, 0); err != nil {
			return nil, err
		}
		return contents(t, &buf), nil
	}

	got, err := lay(digests)
	want := map[string]string{
		workspace.EvaluationRoot + "/checks/run.sh": checker,
		workspace.EvaluationRoot + "/data.txt":      data,
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v, files (-want +got):\n%s", err, d)
	}

	changes := map[string]func(){
		"a checker that changed": func() { put("eval/checks/run.sh", "#!/bin/sh\nexit 0\n") },
		"a new file":             func() { put("eval/checks/run.sh", checker); put("eval/checks/more.sh", "") },
		"a file that went": func() {
			if err := os.RemoveAll(filepath.Join(dir, "eval/checks")); err != nil {
				t.Fatal(err)
			}
		},
	}
	for _, name := range []string{"a checker that changed", "a new file", "a file that went"} {
		changes[name]()
		if _, err := lay(digests); !errors.Is(err, workspace.ErrChanged) {
			t.Errorf("%s: got %v, want ErrChanged", name, err)
		}
		if _, err := lay(nil); err != nil && name != "a file that went" {
			t.Errorf("%s, without digests: %v", name, err)
		}
	}
}

// row names a folder in a value of its own form and a file by a reference.
func row(t *testing.T) task.Task {
	t.Helper()
	one, err := task.New(task.Config{ID: "a", Family: "f", Pack: task.Pack{ID: "p"}, Resources: []task.Resource{
		{Name: "data", Lane: task.EvaluationInputs, Value: jsontext.Value(`{"path": "data.txt"}`)},
		{Name: "expected_state", Lane: task.Hidden, Value: jsontext.Value(`{"path": "hidden.txt"}`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return one
}

// contents are the regular files of an archive.
func contents(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	out := map[string]string{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = string(b)
	}
}
