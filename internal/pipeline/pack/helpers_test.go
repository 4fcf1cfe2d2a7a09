package pack_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"securebench/internal/pipeline/pack"
)

const manifest = "id: p\nversion: 1\ndefaults: {family: f}\n"

// put writes a file below dir, with the folders that it needs.
func put(t testing.TB, dir, name, content string) {
	t.Helper()
	full := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// write makes a pack of a manifest, the content of tasks.jsonl, and empty
// files.
func write(t testing.TB, manifest, tasks string, files ...string) pack.Location {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, "manifest.yaml", manifest)
	put(t, dir, "tasks.jsonl", tasks)
	for _, f := range files {
		put(t, dir, f, "")
	}
	return pack.Location{Manifest: filepath.Join(dir, "manifest.yaml"), Tasks: filepath.Join(dir, "tasks.jsonl")}
}

// load loads a pack and returns its problems and warnings with the folder cut
// out of the places.
func load(t testing.TB, loc pack.Location) (p *pack.Pack, errs, warnings string) {
	t.Helper()
	cut := func(err error) string {
		if err == nil {
			return ""
		}
		return strings.ReplaceAll(err.Error(), filepath.Dir(loc.Manifest)+"/", "")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // no pack of a test is worth more
	defer cancel()
	p, err := pack.Load(ctx, loc, nil, nil)
	if err != nil {
		return nil, cut(err), ""
	}
	return p, "", cut(p.Warnings.Err())
}

// collect reads all rows.
func collect(p *pack.Pack) (rows []pack.Row, err error) {
	for row, err := range p.Rows(context.Background()) {
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}
