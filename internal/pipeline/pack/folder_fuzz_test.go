package pack

import (
	"os"
	"path/filepath"
	"testing"

	"securebench/internal/source"
)

// FuzzTask reads any task.yaml. What is read without a problem is a line, which says the same
// when it is read as one; and no path of it leads out of the task's folder.
func FuzzTask(f *testing.F) {
	for _, seed := range []string{
		"family: f\ninput: {a: {path: text.md}}\neval: {file: {path: t}, b: c}\nassets: [{path: data, mount: x}]\n",
		"id: x/y\nfamily: f\nassets:\n- path: ../out\n", "input: &a {x: 1}\neval: *a\n", "id: 010\n", "family: f\ninput:\n  a: |\n    text\n",
		"family: f\ninput: {a: {path: task.yaml}}\n", "[]", "family: f\neval: {file: data}\nassets: [{path: data/x}]\n",
	} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	loc := Location{Manifest: filepath.Join(dir, manifestName), Tasks: filepath.Join(dir, tasksFolder)}
	for name, text := range map[string]string{"manifest.yaml": "id: p\nversion: 1\n", "tasks/t/text.md": "text", "tasks/t/data/x": "x", "tasks/t/task.yaml": ""} {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			f.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	m, _, _, err := ReadManifest(loc)
	if err != nil {
		f.Fatal(err)
	}
	texts, err := openTexts(loc, &m, func(string) []TextPlace {
		return []TextPlace{{Path: []string{"input", "a"}}, {Path: []string{"eval", "*"}, Folder: true}, {Path: []string{"eval", "file"}, File: true}}
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(texts.close)
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(loc.task("t"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readTask(texts, loc, "t", 0)
		if err != nil || len(got.errs) > 0 {
			return
		}
		root, err := source.ParseJSON("line", 1, got.Raw)
		if err != nil || string(root.JSON()) != string(got.Raw) {
			t.Fatalf("%v: %s is no canonical line", err, got.Raw)
		}
		again, errs, _ := NewRow(&m, 0, root)
		if len(errs) > 0 || again.ID != got.ID || string(again.Eval.JSON()) != string(got.Eval.JSON()) || len(again.Assets) != len(got.Assets) {
			t.Fatalf("%v: %s is another row", errs, got.Raw)
		}
		for _, u := range got.uses {
			if !filepath.IsLocal(u.path) || filepath.Dir(u.path) == "." {
				t.Fatalf("%s names %q", u.what, u.path)
			}
		}
	})
}
