package workload

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/capacity"
	"securebench/internal/families"
	"securebench/internal/family"
	"securebench/internal/memtest"
	"securebench/internal/pipeline/pack"
	"securebench/internal/task"
)

// TestRetained: a command that only checks rows keeps little of each; one that runs them
// keeps where they are.
func TestRetained(t *testing.T) {
	const rows = 20_000
	dir := t.TempDir()
	var b strings.Builder
	for i := range rows {
		fmt.Fprintf(&b, `{"id": "row-%d", "input": {"question": "What is %d?"}, "eval": {"accepted_answers": ["%d"]}}`+"\n", i, i, i)
	}
	loc := pack.Location{Manifest: filepath.Join(dir, "manifest.yaml"), Tasks: filepath.Join(dir, "tasks.jsonl")}
	manifest := "id: many\nversion: 1\ndefaults: {family: short_answer, environment: {image: none}}\n"
	for name, text := range map[string]string{loc.Manifest: manifest, loc.Tasks: b.String()} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(d Demands) (perRow int64, w *Workload) {
		before := memtest.Kept()
		w, err := Load(t.Context(), loc, families.All(), All, d)
		if err != nil {
			t.Fatal(err)
		}
		perRow = (memtest.Kept() - before) / rows
		if w.Count != rows {
			t.Fatalf("%d rows", w.Count)
		}
		return perRow, w
	}
	_, _ = kept(Demands{Unkept: true}) // what is made once
	checked, w := kept(Demands{Unkept: true})
	if checked > 64 || len(w.Rows) != 0 {
		t.Errorf("%d bytes are kept of each row that is checked, and %d rows", checked, len(w.Rows))
	}
	run, w := kept(Demands{})
	if run < checked+64 || len(w.Rows) != rows {
		t.Errorf("%d bytes are kept of each row that runs, and %d rows: the test measures nothing", run, len(w.Rows))
	}
}

// TestBoxedRows: of a family whose verification needs no image, only rows that say so
// need one, and only they make its verifier keep anything.
func TestBoxedRows(t *testing.T) {
	dir := t.TempDir()
	loc := pack.Location{Manifest: filepath.Join(dir, "manifest.yaml"), Tasks: filepath.Join(dir, "tasks.jsonl")}
	rows := `{"id": "plain", "input": {}, "eval": {}}
{"id": "boxed", "environment": {"image": "img"}, "input": {}, "eval": {"boxed": true}}
`
	kept := capacity.Footprint{Boxes: 2}
	reg := family.NewRegistry(family.Family{Name: "f", Kept: kept, Lanes: map[string]task.Lane{"boxed": task.Hidden},
		Boxed:       func(v task.EvaluatorView) bool { _, ok := v.Get("boxed"); return ok },
		NewVerifier: func(family.Resources) family.Verifier { return nil }})
	load := func(rows string) (*Workload, error) {
		for name, text := range map[string]string{loc.Manifest: "id: p\nversion: 1\ndefaults: {family: f}\n", loc.Tasks: rows} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return Load(t.Context(), loc, reg, All, Demands{Image: family.Family.RunsIn})
	}
	w, err := load(rows)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := w.Images["img"]; !ok || len(w.Images) != 1 {
		t.Errorf("images %v", w.Images)
	}
	if w.Loads[capacity.Load{}] != "plain" || w.Loads[capacity.Load{Kept: kept}] != "boxed" {
		t.Errorf("loads %v", w.Loads)
	}
	if _, err := load(strings.Replace(rows, `"environment": {"image": "img"}, `, "", 1)); err == nil || !strings.Contains(err.Error(), "environment.image is required") {
		t.Errorf("a row without its image: %v", err)
	}
}
