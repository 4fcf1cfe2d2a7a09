package packlint_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/families"
	"securebench/internal/packlint"
	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/task"
)

// TestLasting: what of a pack can change under its name is found, with its place, and what
// is pinned is not.
func TestLasting(t *testing.T) {
	t.Parallel()
	const row = `{"id":"a","input":{"prompt":"p"},"eval":{"tests":{"source":"inline","code":"assert f()"}},"environment":{"image":"IMAGE"}}` + "\n"
	digest := "@sha256:" + strings.Repeat("0", 64)
	for name, tt := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"nothing is pinned": {map[string]string{"tasks.jsonl": strings.Replace(row, "IMAGE", "python:3.12", 1),
			"images/a/Dockerfile": "FROM debian:12 AS base\nFROM base\nRUN apt-get update && \\\n  apt-get install -y git=1:2 curl\nRUN pip install --no-cache-dir -r requirements.txt numpy==1.0 'pandas>=2' && npm install -g @a/b@1 left-pad\n"}, []string{
			"images/a/Dockerfile:1: the image is built from debian:12, whose tag can become another image",
			"images/a/Dockerfile:3: apt-get installs what has no version: curl",
			"images/a/Dockerfile:5: pip installs what has no version: pandas>=2",
			"images/a/Dockerfile:5: npm installs what has no version: left-pad",
			"manifest.yaml: nothing says under which licence the tasks are", "manifest.yaml: nothing says where the tasks are from",
			"tasks.jsonl:1: environment.image python:3.12 is named by a tag, which can become another image"}},
		"all is": {map[string]string{"tasks.jsonl": strings.Replace(row, "IMAGE", "python:3.12"+digest, 1), "LICENSE": "MIT", "README.md": "from here",
			"images/a/Dockerfile": "ARG BASE\nFROM debian:12" + digest + "\nFROM $BASE\n# pip install numpy\nRUN pip install numpy==1.0 ./mine && echo pip\n"}, nil},
		"locked": {map[string]string{"tasks.jsonl": strings.Replace(row, "IMAGE", "python:3.12", 1), "LICENSE": "MIT", "README.md": "from here",
			"images.lock": `{"version": 1, "images": {"python:3.12": {"digest": "` + digest[1:] + `", "configs": {}}}}`}, nil},
		"built here, and an import without a licence": {map[string]string{"tasks.jsonl": strings.Replace(row, "IMAGE", "securebench-python:3", 1), "ATTRIBUTION.md": "Licence: not stated."},
			[]string{"manifest.yaml: nothing says under which licence the tasks are"}},
	} {
		dir := t.TempDir()
		tt.files["manifest.yaml"] = "id: p\nversion: 1\ndefaults: {family: code_completion}\n"
		for file, text := range tt.files {
			at := filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		loc, err := pack.Locate(dir)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := compile.Load(context.Background(), loc, families.All(), func(pack.Row, func() (task.Task, error)) {})
		if err != nil {
			t.Fatal(err)
		}
		found, err := packlint.Lasting(t.Context(), loaded.Pack)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range found {
			pos := p.Pos
			pos.Col, pos.File = 0, strings.TrimPrefix(pos.File, dir+"/")
			got = append(got, pos.String()+": "+p.Message)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
