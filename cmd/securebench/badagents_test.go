package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/gateway/scripted"
)

// registry is an npm registry with one release of Codex, whose program is a
// script. It may send another package than it says.
func registry(t *testing.T, sends func(tarball []byte) []byte) (env []string) {
	t.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	w := tar.NewWriter(zipped)
	const program = "#!/bin/sh\necho codex 1.0.0\n"
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "package/vendor/x86_64-unknown-linux-musl/bin/codex", Mode: 0o755, Size: int64(len(program))}); err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, program)
	if w.Close() != nil || zipped.Close() != nil {
		t.Fatal("packing failed")
	}
	sum := sha512.Sum512(packed.Bytes())
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _ := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), "/"))
		switch name {
		case "package":
			w.Write(sends(packed.Bytes()))
		case "@openai/codex":
			dist := map[string]any{"dist": map[string]any{"tarball": s.URL + "/package", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}}
			json.NewEncoder(w).Encode(map[string]any{"name": name, "dist-tags": map[string]any{"latest": "1.0.0"},
				"versions": map[string]any{"1.0.0": dist, "1.0.0-linux-x64": dist, "1.0.0-linux-arm64": dist}})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return []string{"npm_config_registry=" + s.URL, "npm_config_userconfig=/dev/null", "npm_config_globalconfig=/dev/null",
		"SECUREBENCH_AGENT_CACHE=" + filepath.Join(t.TempDir(), "cache"), "OPENAI_API_KEY=sk-0123456789abcdef"}
}

// TestUnfitAgents: what keeps an agent from running is reported with its place
// before the first task. The provider is asked for nothing.
func TestUnfitAgents(t *testing.T) {
	t.Parallel()
	image := needDocker(t)
	shellless := "localhost/without-shell:" + ownRun("1")
	build := exec.Command("docker", "build", "-q", "-t", shellless, "-")
	build.Stdin = strings.NewReader("FROM scratch\nLABEL empty=yes\n")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("docker", "rmi", shellless).Run() })
	script := &scripted.Script{Turns: []scripted.Turn{{Say: "Answer: 4"}}}
	honest := func(b []byte) []byte { return b }
	forged := func(b []byte) []byte { return append(bytes.Clone(b), 0) }
	for name, tt := range map[string]struct {
		image, version string
		sends          func([]byte) []byte
		code           int
		want           []string
	}{
		"version":   {image, "9.9.9", honest, exitConfig, []string{"tester.yaml:6:31: ", "has no version 9.9.9"}},
		"integrity": {image, "1.0.0", forged, exitIntegrity, []string{"tester.yaml:6:31: ", "its SHA-512 digest is another"}},
		"shell":     {shellless, "1.0.0", honest, exitConfig, []string{"tasks.jsonl:1:", "has no shell at /bin/sh"}},
		"program":   {image, "1.0.0", honest, exitDone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			provider := scripted.New(script, nil)
			upstream := httptest.NewServer(provider)
			defer upstream.Close()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "manifest.yaml"), "id: unfit\nversion: 1\n")
			write(t, filepath.Join(dir, "tasks.jsonl"), `{"id": "a", "family": "short_answer", "environment": {"image": "`+tt.image+`"}, "input": {"question": "2+2?"}, "eval": {"accepted_answers": ["4"]}}`+"\n")
			write(t, filepath.Join(dir, "tester.yaml"), "schema_version: \"0.2\"\nrun: {id: unfit, output_dir: out}\nbenchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}\nharness:\n  type: codex\n  config: {model: m, version: "+tt.version+", base_url: \""+upstream.URL+"\"}\n")
			res := securebench(t, registry(t, tt.sends), "run", filepath.Join(dir, "tester.yaml"), "-q")
			if res.code != tt.code {
				t.Fatalf("exit %d, want %d\n%s%s", res.code, tt.code, res.stdout, res.stderr)
			}
			if tt.want == nil {
				return
			}
			line := errorLine(t, res)
			for _, want := range tt.want {
				if !strings.Contains(line, want) {
					t.Errorf("%q does not have %q", line, want)
				}
			}
			if countLines(filepath.Join(dir, "out")) > 0 || len(provider.Requests()) > 0 {
				t.Error("a task was begun")
			}
		})
	}
}
