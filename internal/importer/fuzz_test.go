package importer_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/importer"
	"securebench/internal/source"
)

// FuzzImport asserts that an input is refused and leaves nothing, or makes
// rows that read strictly, with ids that are unique.
func FuzzImport(f *testing.F) {
	for _, row := range []string{humanEvalRow, mbppRow, gsm8kRow, truthfulQARow, answersRow, quixBugsRow, exercismRow, sweRow, evoEvalRow, classEvalRow, bfclRow, mathVisionRow} {
		for i := range importer.Formats() {
			f.Add(i, []byte(row+"\n"+row))
		}
		f.Add(0, []byte(row))
	}
	f.Add(0, []byte(humanEvalRow+"\n"+change(humanEvalRow, "HumanEval/7", "HumanEval/8")))
	f.Fuzz(func(t *testing.T, which int, in []byte) {
		formats := importer.Formats()
		format := formats[uint(which)%uint(len(formats))]
		dir := t.TempDir()
		sum, err := importer.Import(context.Background(), format, bytes.NewReader(in), dir, importer.Options{})
		if err != nil {
			if entries, _ := os.ReadDir(dir); len(entries) != 0 {
				t.Errorf("refused with %v, but left %v", err, entries)
			}
			return
		}
		for _, name := range sum.Files {
			if strings.HasSuffix(name, ".jsonl") {
				checkRows(t, filepath.Join(dir, name), sum.Rows)
			}
		}
	})
}

func checkRows(t *testing.T, path string, rows int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(lines) != rows {
		t.Errorf("%d lines for %d rows", len(lines), rows)
	}
	seen := make(map[string]bool)
	for i, line := range lines {
		node, err := source.ParseJSON(path, i+1, []byte(line))
		if err != nil {
			t.Fatalf("a written row is not good: %v", err)
		}
		id := node.Get("id")
		if id == nil {
			id = node.Get("task_id")
		}
		if id == nil || id.Text == "" || seen[id.Text] {
			t.Errorf("line %d: id missing or repeated", i+1)
			continue
		}
		seen[id.Text] = true
	}
}
