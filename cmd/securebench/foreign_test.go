package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// foreign is an architecture that no test machine has or emulates.
const foreign = "s390x"

// foreignArchive writes an image of that architecture, as "docker save" does.
func foreignArchive(t *testing.T, name string) string {
	t.Helper()
	archive := func(files ...[2]string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, f := range files {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f[0], Mode: 0o755, Size: int64(len(f[1]))}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(f[1])); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	layer := archive([2]string{"bin/sh", "#!\n"})
	config := fmt.Sprintf(`{"architecture": %q, "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": ["sha256:%x"]}}`, foreign, sha256.Sum256(layer))
	manifest := fmt.Sprintf(`[{"Config": "c.json", "RepoTags": [%q], "Layers": ["layer.tar"]}]`, name)
	file := filepath.Join(t.TempDir(), "foreign.tar")
	write(t, file, string(archive([2]string{"c.json", config}, [2]string{"layer.tar", string(layer)}, [2]string{"manifest.json", manifest})))
	return file
}

// TestForeignImage: an image that this machine does not run is refused when it is
// imported, and, if the operator insists, before the first task.
func TestForeignImage(t *testing.T) {
	t.Parallel()
	needEngine(t)
	const name = "localhost/foreign/it:1"
	file := foreignArchive(t, name)
	store := "SECUREBENCH_IMAGES=" + t.TempDir()
	both := "it is for linux/" + foreign + ", and this machine runs linux/"
	if res := securebench(t, []string{store}, "image", "import", file); res.code != exitEngine || !strings.Contains(res.stderr, both) || !strings.Contains(res.stderr, "--platform") {
		t.Errorf("import: exit %d: %s", res.code, res.stderr)
	}
	if res := securebench(t, []string{store}, "image", "import", file, "--platform", "linux/"+foreign); res.code != exitDone || !strings.HasPrefix(res.stdout, name) {
		t.Fatalf("import, asked for: exit %d: %s", res.code, res.stderr)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "manifest.yaml"), "id: foreign\nversion: 1\ndefaults:\n  family: terminal_task\n  environment: {image: '"+name+"'}\n")
	write(t, filepath.Join(dir, "tasks.jsonl"), `{"id": "a", "input": {"instructions": "x"}, "eval": {"checker": {"command": ["true"]}, "solution": {"command": ["true"]}}}`+"\n")
	for _, args := range [][]string{{"run", dir, "--agent", "oracle", "-o", filepath.Join(dir, "out")}, {"validate", dir}} {
		args = append(args, "--engine=native")
		if res := securebench(t, []string{store}, args...); res.code != exitEngine || !strings.Contains(res.stderr, "image "+name+": "+both) {
			t.Errorf("%s: exit %d: %s", args[0], res.code, res.stderr)
		}
	}
}
