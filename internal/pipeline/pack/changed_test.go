package pack_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/digest"
	"securebench/internal/memtest"
	"securebench/internal/pipeline/pack"
	"securebench/internal/source"
)

func TestRowsNoticeChanges(t *testing.T) {
	const a, b, c = `{"id":"a"}`, `{"id":"b"}`, `{"id":"c"}`
	tests := []struct{ name, after, want string }{
		{"same", a + "\n" + b + "\n", ""},
		{"line endings and blank lines", "\n" + a + "\r\n\n" + b, ""},
		{"changed", a + "\n" + `{"id":"b" }` + "\n", "tasks.jsonl:2: row 2 changed since the pack was loaded"},
		{"swapped", b + "\n" + a + "\n", "tasks.jsonl:1: row 1 changed since the pack was loaded"},
		{"missing", a + "\n", "tasks.jsonl:1: row 2 is missing since the pack was loaded"},
		{"all missing", "", "tasks.jsonl: row 1 is missing since the pack was loaded"},
		{"extra", a + "\n" + b + "\n" + c + "\n", "tasks.jsonl:3: the file has more rows since the pack was loaded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, errs, _ := load(t, write(t, manifest, a+"\n"+b+"\n"))
			if errs != "" {
				t.Fatal(errs)
			}
			put(t, filepath.Dir(p.Tasks), "tasks.jsonl", tt.after)
			_, err := collect(p)
			got := ""
			if err != nil {
				var changed *pack.ChangedError
				if !errors.As(err, &changed) {
					t.Errorf("got %T", err)
				}
				got = strings.ReplaceAll(err.Error(), filepath.Dir(p.Tasks)+"/", "")
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFind(t *testing.T) {
	p, errs, _ := load(t, write(t, manifest, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n"))
	if errs != "" {
		t.Fatal(errs)
	}
	row, err := p.Find(context.Background(), "b")
	if err != nil || row.Index != 1 || row.Line != 2 {
		t.Errorf("%+v, %v", row, err)
	}
	if _, err := p.Find(context.Background(), "c"); !errors.Is(err, pack.ErrNoTask) {
		t.Errorf("got %v", err)
	}
}

// Stopping early is fine, and the rows can be streamed again.
func TestRowsStop(t *testing.T) {
	p, errs, _ := load(t, write(t, manifest, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n"))
	if errs != "" {
		t.Fatal(errs)
	}
	for range 2 {
		for row, err := range p.Rows(context.Background()) {
			if err != nil || row.ID != "a" {
				t.Fatalf("%s, %v", row.ID, err)
			}
			break
		}
	}
}

func TestDigests(t *testing.T) {
	load := func(change func(dir string)) pack.Digests {
		t.Helper()
		loc := write(t, manifest, "{\"id\":\"a\"}\n", "assets/a", "hidden/b")
		change(filepath.Dir(loc.Manifest))
		p, errs, _ := load(t, loc)
		if errs != "" {
			t.Fatal(errs)
		}
		return p.Digests
	}
	base := load(func(string) {})
	if again := load(func(string) {}); again != base {
		t.Errorf("got %+v, then %+v", base, again)
	}
	if want := digest.Bytes([]byte("{\"id\":\"a\"}\n")); base.Tasks != want {
		t.Errorf("tasks digest %s, want that of the bytes, %s", base.Tasks, want)
	}
	changes := map[string]struct {
		change func(dir string)
		which  func(*pack.Digests) *string
	}{
		"manifest":           {func(d string) { put(t, d, "manifest.yaml", manifest+"\n") }, func(x *pack.Digests) *string { return &x.Manifest }},
		"tasks":              {func(d string) { put(t, d, "tasks.jsonl", "{\"id\":\"a\"}\n\n") }, func(x *pack.Digests) *string { return &x.Tasks }},
		"public content":     {func(d string) { put(t, d, "assets/a", "x") }, func(x *pack.Digests) *string { return &x.PublicAssets }},
		"public new file":    {func(d string) { put(t, d, "assets/c/d", "") }, func(x *pack.Digests) *string { return &x.PublicAssets }},
		"public empty dir":   {func(d string) { mkdir(t, d, "assets/e") }, func(x *pack.Digests) *string { return &x.PublicAssets }},
		"public executable":  {func(d string) { chmod(t, d, "assets/a") }, func(x *pack.Digests) *string { return &x.PublicAssets }},
		"evaluation content": {func(d string) { put(t, d, "hidden/b", "x") }, func(x *pack.Digests) *string { return &x.EvalAssets }},
	}
	seen := map[string]string{base.Pack: "base"}
	for name, tt := range changes {
		got := load(tt.change)
		if other := seen[got.Pack]; other != "" {
			t.Errorf("%s has the pack digest of %s", name, other)
		}
		seen[got.Pack] = name
		if *tt.which(&got) == *tt.which(&base) {
			t.Errorf("%s did not change its digest", name)
		}
		*tt.which(&got), got.Pack = *tt.which(&base), base.Pack
		if got != base {
			t.Errorf("%s changed another digest as well", name)
		}
	}
}

func mkdir(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
}

// Loading needs at most 32 bytes of live memory a row, at every moment.
func TestMemoryPerRow(t *testing.T) {
	if testing.Short() {
		t.Skip("300,000 rows take seconds")
	}
	const count, slack = 300_000, 512 << 10 // slack: buffers that do not grow with the rows
	loc := write(t, manifest, "")
	f, err := os.Create(loc.Tasks)
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		fmt.Fprintf(f, "{\"id\":\"task-with-a-longer-name/%08d\",\"input\":{\"question\":\"what is %d?\"}}\n", i, i)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	before, worst := memtest.Kept(), int64(0)
	p, err := pack.Load(context.Background(), loc, nil, func(r pack.Row) (errs, warnings source.Problems) {
		if n := int64(r.Index) + 1; n%25_000 == 0 {
			worst = max(worst, (memtest.Kept()-before-slack)/n)
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	after := (memtest.Kept() - before) / count
	t.Logf("at most %d bytes a row while loading, %d afterwards", worst, after)
	if worst > 32 || after > 20 {
		t.Errorf("%d bytes a row while loading, %d afterwards; want at most 32 and 20", worst, after)
	}
	if p.Count != count {
		t.Errorf("%d rows", p.Count)
	}
}
