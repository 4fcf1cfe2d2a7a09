package importer_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/datatest"
	"securebench/internal/importer"
)

// TestSamplePacks makes the sample packs again from the data sets that
// SECUREBENCH_DATA names. From the file that a sample was made of it must come
// out the same, byte by byte; from any other part of the data set its rows must.
func TestSamplePacks(t *testing.T) {
	for _, format := range []string{importer.HumanEval, importer.MBPP, importer.GSM8K, importer.TruthfulQA} {
		t.Run(format, func(t *testing.T) {
			rows := datatest.Rows(t, format)
			o := importer.Options{ID: format + "-sample", Limit: 20}
			pack := filepath.Join("..", "..", "packs", o.ID)
			dir, sum := importFile(t, format, rows, o)
			if strings.Contains(read(t, pack, "ATTRIBUTION.md"), sum.Source) {
				for _, name := range sum.Files {
					if diff := cmp.Diff(read(t, pack, name), read(t, dir, name)); diff != "" {
						t.Errorf("%s (-pack +import):\n%s", name, diff)
					}
				}
			}
			o.Limit = 0
			dir, _ = importFile(t, format, rows, o)
			imported := map[string]bool{}
			for line := range strings.Lines(read(t, dir, "tasks.jsonl")) {
				imported[line] = true
			}
			same := 0
			for line := range strings.Lines(read(t, pack, "tasks.jsonl")) {
				id, _, _ := strings.Cut(line, ",") // of the row: `{"id":"…"`
				if imported[line] {
					same++
				} else if strings.Contains(read(t, dir, "tasks.jsonl"), id+",") {
					t.Errorf("%s} is another row in %s", id, rows)
				}
			}
			t.Logf("%d of the sample's rows are among the %d imported", same, len(imported))
		})
	}
}

// importFile imports a file into a folder of the test's.
func importFile(t *testing.T, format, name string, o importer.Options) (string, importer.Summary) {
	t.Helper()
	in, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	dir := t.TempDir()
	sum, err := importer.Import(context.Background(), format, in, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return dir, sum
}
