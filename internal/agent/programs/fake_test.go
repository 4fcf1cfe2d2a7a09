package programs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"securebench/internal/agent/catalogue"
)

// The programs of tests.
const (
	Codex      Program = "codex"
	ClaudeCode Program = "claude_code"
)

// of describes a program.
func of(p Program) catalogue.Package {
	a, _ := catalogue.Find(string(p))
	return a.Program
}

// fake is a registry on this machine.
type fake struct {
	*httptest.Server
	mu       sync.Mutex
	packages map[string]map[string][]byte // name, version: tarball
	latest   map[string]string
	asked    []string
	// tamper changes what is sent, and hold delays it.
	tamper func([]byte) []byte
	hold   func()
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{packages: map[string]map[string][]byte{}, latest: map[string]string{}}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f
}

// standard is a registry with builds of both programs.
func standard(t *testing.T) *fake {
	t.Helper()
	f := newFake(t)
	for _, v := range []string{"0.1.0", "0.2.0"} {
		f.add(t, "@openai/codex", v, nil)
		f.add(t, "@openai/codex", v+"-linux-x64", codexFiles(v))
	}
	f.add(t, "@openai/codex", "0.3.0-alpha.1", nil) // has no build
	f.latest["@openai/codex"] = "0.2.0"
	f.add(t, "@anthropic-ai/claude-code", "1.0.0", nil) // has no build
	f.add(t, "@anthropic-ai/claude-code", "2.0.0", nil)
	f.latest["@anthropic-ai/claude-code"] = "2.0.0"
	f.add(t, "@anthropic-ai/claude-code-linux-x64", "2.0.0", map[string]string{"claude*": "glibc", "package.json": "{}"})
	f.add(t, "@anthropic-ai/claude-code-linux-x64-musl", "2.0.0", map[string]string{"claude*": "musl", "LICENSE.md": "x"})
	return f
}

// codexFiles are a build of Codex, small. A star marks what can be executed.
func codexFiles(version string) map[string]string {
	const at = "vendor/x86_64-unknown-linux-musl/"
	return map[string]string{"package.json": "{}", "README.md": "x", at + "codex-package.json": "{}", at + "bin/codex*": "codex " + version,
		at + "bin/codex-code-mode-host*": "host", at + "codex-path/rg*": "rg", at + "codex-resources/bwrap*": "bwrap", at + "codex-resources/voice/bin/codex-voice-host*": "voice"}
}

// tarball packs files as npm does.
func tarball(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	for name, content := range files {
		mode := int64(0o644)
		name, run := strings.CutSuffix(name, "*")
		if run {
			mode = 0o755
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "package/" + name, Mode: mode, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, content)
	}
	if w.Close() != nil || zipped.Close() != nil {
		t.Fatal("packing failed")
	}
	return b.Bytes()
}

func (f *fake) add(t *testing.T, name, version string, files map[string]string) {
	t.Helper()
	if f.packages[name] == nil {
		f.packages[name] = map[string][]byte{}
	}
	f.packages[name][version] = tarball(t, files)
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, r.URL.Path)
	tamper, hold := f.tamper, f.hold
	f.mu.Unlock()
	if rest, ok := strings.CutPrefix(r.URL.Path, "/tarballs/"); ok {
		name, version, _ := strings.Cut(rest, "/-/")
		data := f.packages[name][version]
		if tamper != nil {
			data = tamper(bytes.Clone(data))
		}
		if hold != nil {
			w.Write(data[:len(data)/2])
			w.(http.Flusher).Flush()
			hold()
			data = data[len(data)/2:]
		}
		w.Write(data)
		return
	}
	name, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), "/"))
	versions, ok := f.packages[name]
	if err != nil || !ok {
		http.NotFound(w, r)
		return
	}
	out := map[string]any{}
	for v, data := range versions {
		sum := sha512.Sum512(data)
		out[v] = map[string]any{"dist": map[string]string{"tarball": fmt.Sprintf("%s/tarballs/%s/-/%s", f.URL, name, v),
			"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}}
	}
	json.NewEncoder(w).Encode(map[string]any{"name": name, "dist-tags": map[string]string{"latest": f.latest[name]}, "versions": out})
}

// count is how often a path that contains a part was asked for.
func (f *fake) count(part string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, path := range f.asked {
		if strings.Contains(path, part) {
			n++
		}
	}
	return n
}

func (f *fake) set(tamper func([]byte) []byte, hold func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tamper, f.hold = tamper, hold
}

// env is an environment whose npm client is configured for one address and nothing else.
func env(address string) func(string) string {
	return func(name string) string {
		return map[string]string{"npm_config_registry": address, "npm_config_globalconfig": "/dev/null", "npm_config_userconfig": "/dev/null"}[name]
	}
}
