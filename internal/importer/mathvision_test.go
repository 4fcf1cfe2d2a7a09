package importer_test

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/importer"
)

// mathVisionRow is a row in the form of MATH-Vision, written for these tests.
const mathVisionRow = `{"id": "4", "question": "Which one?\n<image1>", "options": ["one", "two"], "image": "images/4.png", "answer": "B", "solution": null, "level": 2, "subject": "counting"}`

// TestMathVision: pictures lie beside the rows, or in the folder above them as in the
// repository.
func TestMathVision(t *testing.T) {
	open := strings.NewReplacer(`"4"`, `"5"`, `["one", "two"]`, "[]", `"B"`, `"12"`).Replace(mathVisionRow)
	want := `{"id":"MATH-Vision/4","input":{"question":"Which one?\n<image1>","choices":["one","two"]},"assets":[{"path":"images/4.png","type":"image"}],"eval":{"answer":"B"},` +
		`"metadata":{"dataset":"MATH-Vision","level":2,"subject":"counting"}}` + "\n" +
		`{"id":"MATH-Vision/5","input":{"question":"Which one?\n<image1>"},"assets":[{"path":"images/4.png","type":"image"}],"eval":{"answer":"12"},` +
		`"metadata":{"dataset":"MATH-Vision","level":2,"subject":"counting"}}` + "\n"
	var drawn bytes.Buffer
	if err := png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	for _, rows := range []string{"rows.jsonl", "data/test.jsonl"} {
		at := t.TempDir()
		if err := os.MkdirAll(filepath.Join(at, "images"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "images", "4.png"), drawn.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(at, "data"), 0o755); err != nil {
			t.Fatal(err)
		}
		dir, sum, err := run(t, importer.MathVision, mathVisionRow+"\n"+open, importer.Options{Name: filepath.Join(at, rows)})
		if err != nil || sum.Rows != 2 {
			t.Fatalf("%s: %d rows, %v", rows, sum.Rows, err)
		}
		if diff := cmp.Diff(want, read(t, dir, "tasks.jsonl")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if read(t, dir, "assets/images/4.png") != drawn.String() {
			t.Error("the picture is another one")
		}
	}
}

// TestMathVisionRefused: a picture that is none, or lies elsewhere, stops the import.
func TestMathVisionRefused(t *testing.T) {
	at := t.TempDir()
	for name, text := range map[string]string{"text.png": "no picture", "outside": "\x89PNG\r\n\x1a\n"} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(at, "link.png")); err != nil {
		t.Fatal(err)
	}
	rows := filepath.Join(at, "rows", "rows.jsonl")
	for image, want := range map[string]string{
		"text.png": "is none of PNG", "link.png": "is a symbolic link", "gone.png": "neither beside the rows",
		"../outside": "named by its path", "/etc/passwd": "named by its path", "": "non-empty",
	} {
		if err := os.MkdirAll(filepath.Dir(rows), 0o755); err != nil {
			t.Fatal(err)
		}
		_, _, err := run(t, importer.MathVision, strings.Replace(mathVisionRow, "images/4.png", image, 1), importer.Options{Name: rows})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", image, err, want)
		}
	}
	if _, _, err := run(t, importer.MathVision, strings.Replace(mathVisionRow, `"B"`, `"C"`, 1), importer.Options{Name: rows}); err == nil || !strings.Contains(err.Error(), "label of one of the options") {
		t.Errorf("an answer that no option has: %v", err)
	}
}
