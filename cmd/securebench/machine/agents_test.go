package machine

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/sandbox"
	"securebench/internal/scoring"
)

// registry serves one version of one program, 1.2.3 of codex.
func registry(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "package/vendor/t/bin/codex", Mode: 0o755, Size: 1}); err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, "x")
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(b.Bytes())
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tarball" {
			w.Write(b.Bytes())
			return
		}
		fmt.Fprintf(w, `{"name": "@openai/codex", "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": {}, "1.2.3-linux-x64": {"dist": {"tarball": "%s/tarball", "integrity": "sha512-%s"}}}}`,
			s.URL, base64.StdEncoding.EncodeToString(sum[:]))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// keeper is an engine that keeps overlays.
type keeper struct {
	sandbox.Engine
	keys   []string
	closed bool
}

func (k *keeper) Close() error { k.closed = true; return nil }

func (k *keeper) Overlay(context.Context, sandbox.OverlaySpec, func(io.Writer) error) (sandbox.Overlay, error) {
	return nil, errors.New("not here")
}

func (k *keeper) Overlays(context.Context) (out []sandbox.OverlaySpec, err error) {
	for _, key := range k.keys {
		out = append(out, sandbox.OverlaySpec{Key: key, Title: "title of " + key})
	}
	return out, nil
}

func (k *keeper) RemoveOverlay(_ context.Context, key string) error {
	if strings.HasSuffix(key, "used") {
		return errors.New("a sandbox uses it")
	}
	for i, have := range k.keys {
		if have == key {
			k.keys = append(k.keys[:i:i], k.keys[i+1:]...)
		}
	}
	return nil
}

// terminal runs commands with a cache and an engine of their own.
type terminal struct {
	engine func() (sandbox.Engine, error)
	env    map[string]string
}

func (c *terminal) run(args ...string) (stdout, said string, err error) {
	var out, say bytes.Buffer
	cmd := agentCommand(&subcommand.Shell{Stdout: &out, Stderr: &say, Getenv: func(name string) string { return c.env[name] },
		Say: func(format string, args ...any) { fmt.Fprintf(&say, format+"\n", args...) }, AddLogFlag: func(*cobra.Command) {}, AddEngineFlag: func(*cobra.Command) {},
		Engine: func() scoring.EngineOpener {
			return func(context.Context, config.Sandbox, func(string)) (sandbox.Engine, error) { return c.engine() }
		}})
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(context.Background())
	return out.String(), say.String(), err
}

func newTerminal(t *testing.T, engine func() (sandbox.Engine, error)) *terminal {
	t.Helper()
	dir := t.TempDir()
	return &terminal{engine, map[string]string{"SECUREBENCH_AGENT_CACHE": dir + "/cache", "npm_config_registry": registry(t),
		"npm_config_userconfig": "/dev/null", "npm_config_globalconfig": "/dev/null"}}
}

// TestCommands: what is fetched is listed, and removed from cache and engine
// alone of its version.
func TestCommands(t *testing.T) {
	t.Parallel()
	k := &keeper{keys: []string{"codex_1.2.3_linux-amd64_a", "codex_1.2.3-alpha_linux-amd64_b", "codex_1.2.30_linux-amd64_c", "claude-code_1.2.3_linux-amd64_d"}}
	c := newTerminal(t, func() (sandbox.Engine, error) { return k, nil })
	const digest = "codex 1.2.3 linux/amd64 sha256:"
	out, said, err := c.run("fetch", "codex", "--platform", "linux/amd64")
	if err != nil || !strings.HasPrefix(out, digest) || !strings.Contains(said, "fetching codex 1.2.3 for linux/amd64 from 127.0.0.1") {
		t.Fatalf("fetch: %q, %q, %v", out, said, err)
	}
	if again, said, err := c.run("fetch", "codex@1.2.3", "--platform", "linux/amd64"); err != nil || again != out || said != "" {
		t.Errorf("again: %q, %q, %v", again, said, err)
	}
	short := strings.TrimPrefix(out, digest)[:12]
	if out, _, err := c.run("list", "--cached"); err != nil || !strings.Contains(out, "codex  1.2.3    linux/amd64  0    "+short+"\n") {
		t.Errorf("list: %q, %v", out, err)
	}
	if out, _, err := c.run("list", "--cached", "--json"); err != nil || !strings.HasPrefix(out, `{"name":"codex","version":"1.2.3","platform":"linux/amd64","bytes":1,"integrity":"sha512-`) {
		t.Errorf("list --json: %q, %v", out, err)
	}
	if out, _, err := c.run("list"); err != nil || !strings.Contains(strings.Join(strings.Fields(out), " "), " codex responses 1.2.3 OpenAI's Codex ") {
		t.Errorf("agents: %q, %v", out, err)
	}
	out, _, err = c.run("remove", "codex@1.2.3")
	if err != nil || out != "removed 1 program from the cache, 1 from the engine\n" || len(k.keys) != 3 || !k.closed {
		t.Errorf("remove: %q, %v, %v", out, err, k.keys)
	}
	if _, _, err := c.run("remove", "codex@1.2.3"); fault.KindOf(err) != fault.Config || !strings.Contains(err.Error(), "there is no codex 1.2.3 to remove") {
		t.Errorf("again: %v", err)
	}
	if out, _, err := c.run("remove", "--all"); err != nil || out != "removed 0 programs from the cache, 3 from the engine\n" || len(k.keys) != 0 {
		t.Errorf("remove --all: %q, %v, %v", out, err, k.keys)
	}
}

// TestRemoveUsed: what a sandbox uses stays, and is named; the rest goes.
func TestRemoveUsed(t *testing.T) {
	t.Parallel()
	k := &keeper{keys: []string{"codex_1_used", "codex_2_x"}}
	c := newTerminal(t, func() (sandbox.Engine, error) { return k, nil })
	if _, _, err := c.run("remove", "--all"); fault.KindOf(err) != fault.Refused || !strings.Contains(err.Error(), "title of codex_1_used") || len(k.keys) != 1 {
		t.Errorf("got %v, %v", err, k.keys)
	}
}

// TestRemoveWithoutEngine: the cache is emptied, and it is said what may stay.
func TestRemoveWithoutEngine(t *testing.T) {
	t.Parallel()
	c := newTerminal(t, func() (sandbox.Engine, error) { return nil, fault.Errorf(fault.Engine, "no engine") })
	if _, _, err := c.run("fetch", "codex", "--platform", "linux/amd64"); err != nil {
		t.Fatal(err)
	}
	out, said, err := c.run("remove", "--all")
	if err != nil || !strings.HasPrefix(out, "removed 1 program from the cache, 0") || !strings.Contains(said, "no engine answers") {
		t.Errorf("got %q, %q, %v", out, said, err)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	c := newTerminal(t, func() (sandbox.Engine, error) { return nil, errors.New("not opened") })
	for _, args := range [][]string{
		{}, {"fetch", "gpt"}, {"fetch", "codex@^1"}, {"fetch", "codex", "--platform", "darwin/arm64"},
		{"remove"}, {"remove", "codex"}, {"remove", "codex@1.2.3", "--all"}, {"remove", "gpt@1.2.3"},
	} {
		if _, _, err := c.run(args...); fault.KindOf(err) != fault.Usage {
			t.Errorf("%q: %v", args, err)
		}
	}
}
