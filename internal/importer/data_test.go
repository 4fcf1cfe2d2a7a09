package importer_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/importer"
)

// TestSamplePacks makes the sample packs again from the data sets that
// SECUREBENCH_DATA names, laid out as "make data" wants them.
func TestSamplePacks(t *testing.T) {
	data := os.Getenv("SECUREBENCH_DATA")
	if data == "" {
		t.Skip("SECUREBENCH_DATA is not set: there are no data sets to import")
	}
	for _, format := range []string{importer.HumanEval, importer.MBPP, importer.GSM8K, importer.TruthfulQA} {
		t.Run(format, func(t *testing.T) {
			in, err := os.Open(filepath.Join(data, format, "public", "rows.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			dir := t.TempDir()
			o := importer.Options{ID: format + "-sample", Limit: 20}
			sum, err := importer.Import(context.Background(), format, in, dir, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range sum.Files {
				want := read(t, filepath.Join("..", "..", "packs", o.ID), name)
				if diff := cmp.Diff(want, read(t, dir, name)); diff != "" {
					t.Errorf("%s (-pack +import):\n%s", name, diff)
				}
			}
		})
	}
}
