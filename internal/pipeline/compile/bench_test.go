package compile_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
)

// BenchmarkLoad loads a pack of 10,000 rows that name no file with a text, and of 2,000 public
// files.
func BenchmarkLoad(b *testing.B) {
	var rows bytes.Buffer
	for i := range 5_000 {
		fmt.Fprintf(&rows, `{"id":"c%d","family":"multiple_choice","input":{"question":"Which is the number?","choices":["one","two","three","four","five","six"]},"eval":{"answer":"B"}}`+"\n", i)
		fmt.Fprintf(&rows, `{"id":"t%d","family":"tool_call","input":{"prompt":"Do it.","tools":[{"name":"f","description":"It does.","parameters":{}},{"name":"g","description":"It does not.","parameters":{}}]},"eval":{"expected_calls":[{"name":"f"}]}}`+"\n", i)
	}
	dir := b.TempDir()
	put(b, dir, "manifest.yaml", manifest)
	put(b, dir, "tasks.jsonl", rows.String())
	for i := range 2_000 {
		put(b, dir, fmt.Sprintf("assets/%d/a.txt", i), "a")
	}
	loc := pack.Location{Manifest: filepath.Join(dir, "manifest.yaml"), Tasks: filepath.Join(dir, "tasks.jsonl")}
	for name, reg := range map[string]func() (int, error){
		"load": func() (int, error) {
			p, err := compile.Load(context.Background(), loc, registry(), nil)
			if err != nil {
				return 0, err
			}
			return p.Count, nil
		},
		"survey": func() (n int, err error) {
			_, err = pack.Survey(context.Background(), loc, compile.Texts(registry()), func(pack.Row) { n++ })
			return n, err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n, err := reg(); err != nil || n != 10_000 {
					b.Fatal(n, err)
				}
			}
		})
	}
}
