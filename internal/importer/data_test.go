package importer_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/datatest"
	"securebench/internal/importer"
)

// TestSamplePacks makes the sample packs again from the data sets that
// SECUREBENCH_DATA names. From the file that a sample was made of, it must come
// out the same, byte by byte; from any other part of the data set its rows must.
func TestSamplePacks(t *testing.T) {
	for _, format := range []string{importer.HumanEval, importer.MBPP, importer.GSM8K, importer.TruthfulQA, importer.QuixBugs} {
		t.Run(format, func(t *testing.T) {
			rows := datatest.Rows(t, format)
			o := importer.Options{ID: format + "-sample", Limit: 20}
			pack := filepath.Join("..", "..", "packs", o.ID)
			if format == importer.QuixBugs { // its rows name an image, which has the id in its name
				pack, o.Limit = filepath.Join("..", "..", "packs", format), 4
			}
			dir, sum := importFile(t, format, rows, o)
			if strings.Contains(read(t, pack, "ATTRIBUTION.md"), sum.Source) {
				for _, name := range append(sum.Files, recipes(t, dir)...) {
					if diff := cmp.Diff(read(t, pack, name), read(t, dir, name)); diff != "" {
						t.Errorf("%s (-pack +import):\n%s", name, diff)
					}
				}
			}
			o.Limit = 0
			dir, _ = importFile(t, format, rows, o)
			imported := evalByInput(t, dir)
			same := 0
			for input, eval := range evalByInput(t, pack) {
				switch got, ok := imported[input]; {
				case !ok: // another part of the data set
				case got != eval:
					t.Errorf("%s of the sample has the eval %s, imported from %s it has %s", input, eval, rows, got)
				default:
					same++
				}
			}
			t.Logf("%d of the sample's rows are among the %d imported", same, len(imported))
		})
	}
}

// TestTerminalSample: the tasks of the sample come out of the data set the same,
// as far as it has them.
func TestTerminalSample(t *testing.T) {
	data := filepath.Join(datatest.Dir(t), "terminal-bench", "public")
	pack := filepath.Join("..", "..", "packs", "terminal-bench-sample")
	tasks := t.TempDir()
	same := map[string]bool{}
	for line := range strings.Lines(read(t, pack, "tasks.jsonl")) {
		var row struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(tasks, row.ID), os.DirFS(filepath.Join(data, row.ID))); err == nil {
			same[row.ID] = true
		}
	}
	if len(same) == 0 {
		t.Skipf("%s has none of the sample's tasks", data)
	}
	dir := t.TempDir()
	_, err := importer.Import(context.Background(), importer.TerminalBench, nil, dir, importer.Options{ID: "terminal-bench-sample", Name: tasks,
		Start: filepath.Join("..", "..", "scripts", "terminal-bench.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	for id := range same {
		for _, folder := range []string{"eval", "images"} {
			err := fs.WalkDir(os.DirFS(filepath.Join(dir, folder, id)), ".", func(name string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					name = filepath.Join(folder, id, name)
					if diff := cmp.Diff(read(t, pack, name), read(t, dir, name)); diff != "" {
						t.Errorf("%s (-pack +import):\n%s", name, diff)
					}
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
	if len(same) == 5 {
		if diff := cmp.Diff(read(t, pack, "tasks.jsonl"), read(t, dir, "tasks.jsonl")); diff != "" {
			t.Errorf("rows (-pack +import):\n%s", diff)
		}
	}
}

// recipes lists the files below images.
func recipes(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(name, "images/") && d.Type().IsRegular() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// evalByInput reads a pack's rows. Ids say nothing: in part of a data set they
// may count its own lines.
func evalByInput(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(read(t, dir, "tasks.jsonl")) {
		var row struct{ Input, Eval jsontext.Value }
		if err := json.Unmarshal([]byte(line), &row, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		out[string(row.Input)] = string(row.Eval)
	}
	return out
}

// importFile imports a file into a folder of the test's.
func importFile(t *testing.T, format, name string, o importer.Options) (string, importer.Result) {
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
