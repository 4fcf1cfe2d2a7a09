package viewer

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/browsertest"
	"securebench/internal/evidence"
	"securebench/internal/pipeline/record"
	"securebench/internal/task"
)

// secret is what only the operator may read.
const secret = "for-the-operator-alone"

// threeRuns makes runs of two tasks with a patch and a tree each, and what only the
// operator may read: a directory, a bundle, and one that does not verify.
func threeRuns(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"A b/one", "A-b/one", "changed"} {
		m := newMaker(t, filepath.Join(dir, name), 2)
		m.change = func(d *record.Dir, l *record.Line) {
			m.restrict(d, l, "agent-stdout", []byte(secret))
			m.restrict(d, l, "agent-steps.jsonl", steps(secret))
			m.restrict(d, l, "agent-network.jsonl", requests(secret))
			if l.Index == 0 {
				m.store(d, l, task.Patch, []byte("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n"))
				return
			}
			m.store(d, l, task.Workspace, tree(t, map[string]string{"app/notes.txt": "what is in it", "app/dot.png": dot}))
		}
		m.make()
	}
	run, err := evidence.OpenRun(filepath.Join(dir, "A-b", "one"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	lines := filepath.Join(dir, "changed", record.LinesName)
	raw, readErr := os.ReadFile(lines)
	for _, err := range []error{evidence.WriteBundle(&b, run), run.Close(), os.RemoveAll(filepath.Join(dir, "A-b")), os.WriteFile(filepath.Join(dir, "A-b.zip"), b.Bytes(), 0o600),
		readErr, os.WriteFile(lines, bytes.Replace(raw, []byte(`wrong_answer`), []byte(`tests_failed`), 1), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// dot is a picture of one pixel.
const dot = "GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\x00\x00\x00\x00\x00!\xf9\x04\x00\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"

// exported writes the runs below a folder, and returns where.
func exported(t testing.TB, dir string) string {
	t.Helper()
	l, err := OpenLibrary(dir, trusting())
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "public")
	if err := l.Export(t.Context(), out, "0"); err != nil {
		t.Fatal(err)
	}
	if err := l.Export(t.Context(), out, "0"); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("it is written over: %v", err)
	}
	return out
}

// TestExport: a folder of pages holds nothing of the operator's, which a server shows, and
// is the same each time.
func TestExport(t *testing.T) {
	t.Parallel()
	dir := threeRuns(t)
	out, again := exported(t, dir), exported(t, dir)
	l, err := OpenLibrary(dir, trusting())
	if err != nil {
		t.Fatal(err)
	}
	run, _, err := l.Get(t.Context(), "A b/one")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := run.Whole("0.1")
	if err != nil || !strings.Contains(fmt.Sprint(whole.Attempt.Tracks, whole.Network), secret) {
		t.Errorf("a server does not show what is the operator's: the test shows nothing: %v", err)
	}
	files := 0
	err = fs.WalkDir(os.DirFS(out), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files++
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			return err
		}
		if bytes.Contains(text, []byte(secret)) || bytes.Contains(text, []byte(dir)) {
			t.Errorf("%s holds what is the operator's", name)
		}
		if other, err := os.ReadFile(filepath.Join(again, name)); err != nil || !bytes.Equal(text, other) {
			t.Errorf("%s is another the second time: %v", name, err)
		}
		return nil
	})
	if err != nil || files < 3*2+len(scripts())+3 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestExportOpens: the folder opens from disk, and every run and attempt in it.
func TestExportOpens(t *testing.T) {
	browsertest.Program(t)
	address := "file://" + filepath.Join(exported(t, threeRuns(t)), "index.html")
	b := browsertest.Open(t, address, 1000, 800)
	b.Until(shown + " && document.querySelectorAll('tbody a').length === 3")
	if got := b.Text("Array.from(document.querySelectorAll('tbody .state'), (e) => e.className).join()"); got != "state verified,state verified,state unverified" {
		t.Error(got)
	}
	var runs []string
	b.Eval("Array.from(document.querySelectorAll('tbody a'), (a) => a.hash)", &runs)
	for i, run := range runs {
		b.Eval(fmt.Sprintf("location.hash = %q", run+"?outcome=failed&sort=-task"), nil)
		b.Until(shown + " && document.querySelectorAll('#attempts tbody tr').length === 1")
		if banners := b.Text("document.querySelectorAll('.banner').length"); banners != map[bool]string{true: "1", false: "0"}[i == 2] {
			t.Errorf("%s: %s banners", run, banners)
		}
		id := strings.TrimPrefix(run, "#/run/")
		b.Eval(fmt.Sprintf("location.hash = %q", "#/attempt/"+id+"/0.1"), nil)
		b.Until("document.querySelector('.diff .added')")
		if got := b.Text("document.querySelector('.diff .added').textContent + document.querySelector('.diff .removed').textContent"); got != "+new\n-old\n" {
			t.Error(got)
		}
		b.Eval("document.querySelector('a[rel=next]').click()", nil)
		b.Until("document.querySelector('img.picture') && document.querySelector('img.picture').naturalWidth === 1")
		if got := b.Text("document.querySelector('#candidate').textContent.includes('what is in it')"); got != "true" {
			t.Error("the content of a file is not there")
		}
	}
	if len(b.Faults) > 0 {
		t.Errorf("faults: %.800v", b.Faults)
	}
	for _, at := range b.Requests {
		if !strings.HasPrefix(at, strings.TrimSuffix(address, "index.html")) && !strings.HasPrefix(at, "data:image/gif") {
			t.Errorf("the page asked for %.100s", at)
		}
	}
}
