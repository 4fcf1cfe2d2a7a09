package run

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/kinds"
	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/gateway/scripted"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/source"
	"securebench/internal/verdict"
)

const canaryKey = "sk-canary-77c0ffee41"

// npm is a registry with small packages.
type npm struct {
	*httptest.Server
	latest string
	tamper bool
}

// packages are the versions of a package, with the content of its program.
func (n *npm) packages(name string) (path string, versions []string) {
	switch name {
	case "@openai/codex":
		return "vendor/x86_64-unknown-linux-musl/bin/codex", []string{"1.0.0", "1.0.0-linux-x64", "2.0.0", "2.0.0-linux-x64"}
	case "@anthropic-ai/claude-code", "@anthropic-ai/claude-code-linux-x64":
		return "claude", []string{"1.0.0", "2.0.0"}
	}
	return "", nil
}

func newNpm(t *testing.T) *npm {
	t.Helper()
	n := &npm{latest: "1.0.0"}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _ := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), "/"))
		name, version, isFile := strings.Cut(name, "/-/")
		path, versions := n.packages(name)
		if isFile {
			data := tarball(t, path, version)
			if n.tamper {
				data = tarball(t, path, version+" and more")
			}
			_, _ = w.Write(data)
			return
		}
		if path == "" {
			http.NotFound(w, r)
			return
		}
		all := map[string]any{}
		for _, v := range versions {
			sum := sha512.Sum512(tarball(t, path, v))
			all[v] = map[string]any{"dist": map[string]string{"tarball": n.URL + "/" + name + "/-/" + v,
				"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "dist-tags": map[string]string{"latest": n.latest}, "versions": all})
	}))
	t.Cleanup(n.Close)
	return n
}

func tarball(t *testing.T, path, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "package/" + path, Mode: 0o755, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, content)
	if w.Close() != nil || zipped.Close() != nil {
		t.Fatal("packing failed")
	}
	return b.Bytes()
}

// agents is a bench whose harness is that of an agent's program, which a provider
// and a registry on this machine serve.
type agents struct {
	*bench
	npm      *npm
	provider *scripted.Server
	upstream *httptest.Server // of the provider
	engine   *sandboxtest.Engine
	env      map[string]string
	programs map[string]sandboxtest.Program

	more   int // requests that an agent makes after its first
	mu     sync.Mutex
	tokens []string
}

const script = "key: " + canaryKey + "\nmodels: [gpt-1, claude-one-1, claude-sonnet-1]\nturns: [{say: '4'}]\n"

func newAgents(t *testing.T, kind, extra string) *agents {
	t.Helper()
	s, err := scripted.Parse("script.yaml", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	a := &agents{bench: newBench(t), npm: newNpm(t), provider: scripted.New(s, nil)}
	a.upstream = httptest.NewServer(a.provider)
	t.Cleanup(a.upstream.Close)
	a.programs = map[string]sandboxtest.Program{
		"/bin/sh":                                 func(context.Context, *sandboxtest.Process) int { return 10 },
		"/opt/securebench/codex/bin/codex":        a.program("/v1/responses", "gpt-1"),
		"/opt/securebench/claude-code/bin/claude": a.program("/v1/messages", "claude-one-1"),
	}
	a.engine = sandboxtest.New(sandboxtest.Config{Programs: a.programs})
	a.env = map[string]string{"OPENAI_API_KEY": canaryKey, "ANTHROPIC_API_KEY": canaryKey, "GEMINI_API_KEY": canaryKey, "SECUREBENCH_AGENT_CACHE": filepath.Join(t.TempDir(), "cache"),
		"npm_config_registry": a.npm.URL, "npm_config_globalconfig": "/dev/null", "npm_config_userconfig": "/dev/null"}
	a.configure(kind, extra)
	a.opts.LookupEnv = func(name string) (string, bool) { v, ok := a.env[name]; return v, ok }
	a.opts.OpenEngine = func(context.Context, config.Sandbox, func(string)) (sandbox.Engine, error) { return a.engine, nil }
	return a
}

// configure sets the harness up.
func (a *agents) configure(kind, extra string) {
	a.t.Helper()
	node, err := source.ParseYAML("tester.yaml", []byte("base_url: "+a.upstream.URL+"\ntimeout_seconds: 60\n"+extra))
	if err != nil {
		a.t.Fatal(err)
	}
	cfg := config.Harness{Type: kind, Config: node, Pos: source.Pos{File: "tester.yaml", Line: 7, Col: 3}}
	h, problems := kinds.Configured(cfg)
	if err := problems.Err(); err != nil {
		a.t.Fatal(err)
	}
	a.opts.Config.Harness, a.opts.Agent = cfg, h
}

// program is an agent's program: it asks its provider once, and says 4.
func (a *agents) program(path, model string) sandboxtest.Program {
	return func(ctx context.Context, p *sandboxtest.Process) int {
		if slices.Contains(p.Args, "--version") {
			content, err := p.Path(p.Args[0], false)
			if err != nil {
				return 1
			}
			version, _ := os.ReadFile(content)
			fmt.Fprintf(p.Stdout, "program %s\n", version)
			return 0
		}
		var token string
		for _, v := range p.Env {
			for _, name := range []string{"OPENAI_API_KEY=", "ANTHROPIC_API_KEY=", "GEMINI_API_KEY="} {
				if rest, ok := strings.CutPrefix(v, name); ok {
					token = rest
				}
			}
		}
		a.mu.Lock()
		a.tokens = append(a.tokens, token)
		a.mu.Unlock()
		if status := ask(ctx, p, path, model, token); status != http.StatusOK {
			fmt.Fprintf(p.Stderr, "status %d\n", status)
			return 1
		}
		for range a.more {
			fmt.Fprintf(p.Stderr, "then status %d\n", ask(ctx, p, path, model, token))
		}
		a.agents.Add(1)
		fmt.Fprintln(p.Stdout, `{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"4"}}`)
		fmt.Fprintln(p.Stdout, `{"type":"result","subtype":"success","is_error":false,"result":"4"}`)
		return 0
	}
}

// ask makes a request to the provider, as the program in the sandbox does.
func ask(ctx context.Context, p *sandboxtest.Process, path, model, token string) int {
	body := map[string]any{"model": model, "stream": true, "input": []any{map[string]any{"type": "message", "role": "user",
		"content": []any{map[string]any{"type": "input_text", "text": "hello"}}}}}
	if path != "/v1/responses" {
		body = map[string]any{"model": model, "stream": true, "max_tokens": 10, "messages": []any{map[string]any{"role": "user", "content": "hello"}}}
	}
	if strings.HasPrefix(path, "/v1beta/") {
		body = map[string]any{"contents": []any{map[string]any{"role": "user", "parts": []any{map[string]any{"text": "hello"}}}}}
	}
	b, _ := json.Marshal(body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+harness.RelayAddress+path, bytes.NewReader(b))
	if err != nil {
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	if path == "/v1/messages" {
		req.Header.Del("Authorization")
		req.Header.Set("X-Api-Key", token)
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	t := &http.Transport{DialContext: p.Dial}
	defer t.CloseIdleConnections()
	res, err := t.RoundTrip(req)
	if err != nil {
		fmt.Fprintln(p.Stderr, err)
		return 0
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		fmt.Fprintf(p.Stderr, "%s\n", text)
	}
	return res.StatusCode
}

// open opens and closes a run, and returns its error.
func (a *agents) open(mode Mode) error {
	a.opts.Mode = mode
	r, err := Open(a.t.Context(), a.opts)
	if err == nil {
		err = r.Close()
	}
	return err
}

// manifest reads the run manifest.
func (a *agents) manifest() record.Manifest {
	a.t.Helper()
	m, _, err := record.ReadManifest(os.DirFS(a.opts.Config.OutputDir))
	if err != nil {
		a.t.Fatal(err)
	}
	return m
}

// TestAgentsRun: agents reach their provider through the relay, and neither their
// sandboxes nor what the run leaves holds the provider's key.
func TestAgentsRun(t *testing.T) {
	for kind, extra := range map[string]string{"codex": "model: gpt-1", "claude_code": "model: claude-one-1"} {
		t.Run(kind, func(t *testing.T) {
			a := newAgents(t, kind, extra)
			if sum, _ := a.run(Fresh); sum.Of(verdict.Computed).Passed != 6 || len(a.provider.Requests()) != 6 {
				t.Fatalf("%+v after %d requests", sum, len(a.provider.Requests()))
			}
			if slices.Sort(a.tokens); len(slices.Compact(a.tokens)) != 6 || slices.Contains(a.tokens, canaryKey) {
				t.Errorf("the agents' tokens: %q", a.tokens)
			}
			for _, r := range a.provider.Requests() {
				if !slices.ContainsFunc(r.Credentials, func(c string) bool { return strings.HasSuffix(c, canaryKey) }) {
					t.Errorf("the provider got %q", r.Credentials)
				}
			}
			for _, s := range a.engine.Specs() {
				if text := fmt.Sprintf("%+v", s); strings.Contains(text, canaryKey) {
					t.Errorf("a sandbox holds the key: %s", text)
				}
			}
			all := os.DirFS(a.opts.Config.OutputDir)
			err := fs.WalkDir(all, ".", func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				data, err := fs.ReadFile(all, path)
				if bytes.Contains(data, []byte(canaryKey)) {
					t.Errorf("%s holds the key", path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			m := a.manifest()
			if len(m.Programs) != 1 || m.Programs[0].Name != kind || m.Programs[0].Version != "1.0.0" || m.Programs[0].Digest == "" || m.Model == "" {
				t.Errorf("the manifest has %+v, %q", m.Programs, m.Model)
			}
		})
	}
}

// TestLatestIsChosenOnce: a run that is resumed keeps the version that it
// began with. A new one takes the newest.
func TestLatestIsChosenOnce(t *testing.T) {
	a := newAgents(t, "codex", "model: gpt-1")
	for _, want := range []struct {
		mode    Mode
		version string
	}{{Fresh, "1.0.0"}, {Resume, "1.0.0"}, {Replace, "2.0.0"}} {
		if err := a.open(want.mode); err != nil {
			t.Fatal(err)
		}
		if m := a.manifest(); m.Programs[0].Version != want.version {
			t.Errorf("%q: version %s, want %s", want.mode, m.Programs[0].Version, want.version)
		}
		a.npm.latest = "2.0.0"
	}
}

// TestAlias: the program says what an alias means, before the first task and
// without a request to the provider.
func TestAlias(t *testing.T) {
	other := newAgents(t, "claude_code", "model: sonnet")
	if err := other.open(Fresh); err == nil || !strings.Contains(err.Error(), `tester.yaml:7:3: in image img the claude_code program asks for the model claude-one-1, which "sonnet" does not mean`) {
		t.Errorf("an image chooses the model: %v", err)
	}
	a := newAgents(t, "claude_code", "model: sonnet")
	const claude = "/opt/securebench/claude-code/bin/claude"
	a.programs[claude] = a.program("/v1/messages", "claude-sonnet-1")
	if err := a.open(Fresh); err != nil {
		t.Fatal(err)
	}
	if m := a.manifest(); m.Model != "claude-sonnet-1" || len(a.provider.Requests()) != 0 {
		t.Errorf("model %q after %d requests", m.Model, len(a.provider.Requests()))
	}
	if sum, _ := a.run(Resume); sum.Of(verdict.Computed).Passed != 6 {
		t.Errorf("%+v", sum)
	}
}

// TestUnfit: what an agent needs and does not get is reported before the first
// task, as a fault of the configuration.
func TestUnfit(t *testing.T) {
	for name, tt := range map[string]struct {
		extra  string
		change func(*agents)
		want   string
	}{
		"no key":            {"", func(a *agents) { a.elsewhere(); delete(a.env, "OPENAI_API_KEY") }, "tester.yaml:7:3: the codex harness: it needs the key of its provider: set OPENAI_API_KEY"},
		"blank key":         {"", func(a *agents) { a.elsewhere(); a.env["OPENAI_API_KEY"] = " " }, "set OPENAI_API_KEY"},
		"unknown version":   {"version: 9.9.9", func(*agents) {}, "tester.yaml:4:10: "},
		"wrong integrity":   {"version: 1.0.0", func(a *agents) { a.npm.tamper = true }, "tester.yaml:4:10: "},
		"no shell":          {"", func(a *agents) { delete(a.programs, "/bin/sh") }, "tasks.jsonl:1:1: image img has no shell at /bin/sh"},
		"broken shell":      {"", func(a *agents) { a.programs["/bin/sh"] = exits(1) }, "image img cannot be inspected"},
		"does not start":    {"", func(a *agents) { a.programs["/opt/securebench/codex/bin/codex"] = exits(126) }, "codex 1.0.0 linux/amd64 does not start in image img"},
		"no overlays":       {"", func(a *agents) { a.withoutOverlays() }, "tester.yaml:7:3: the engine cannot mount the program of the codex harness"},
		"odd key":           {"", func(a *agents) { a.env["OPENAI_API_KEY"] = "sk-0123456789\nX: y" }, "tester.yaml:7:3"},
		"program is denied": {"", func(a *agents) { a.opts.Config.Sandbox.Deny = []string{"/opt/securebench/codex/bin/codex"} }, "blocked by the command policy"},
		"not allowed":       {"", func(a *agents) { a.opts.Config.Sandbox.Allow = []string{"python3"} }, `tester.yaml:7:3: command "/opt/securebench/codex/bin/codex"`},
		"is allowed":        {"", func(a *agents) { a.opts.Config.Sandbox.Allow = []string{"/opt/securebench/codex/bin/codex"} }, ""},
		"nothing is wrong":  {"", func(*agents) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgents(t, "codex", "model: gpt-1\n"+tt.extra)
			tt.change(a)
			err := a.open(Fresh)
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), canaryKey) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			kind := fault.Config
			if name == "wrong integrity" {
				kind = fault.Integrity
			}
			if got := fault.KindOf(err); got != kind {
				t.Errorf("it is a fault of kind %s, want %s: %v", got, kind, err)
			}
			if a.agents.Load() != 0 || len(a.provider.Requests()) != 0 {
				t.Error("an agent ran")
			}
		})
	}
}

// elsewhere makes the provider one that is not on this machine, where none goes without a
// key.
func (a *agents) elsewhere() {
	a.upstream.URL = "https://provider.example"
	a.configure("codex", "model: gpt-1")
}

func exits(code int) sandboxtest.Program {
	return func(context.Context, *sandboxtest.Process) int { return code }
}

// withoutOverlays hides what the engine can do beyond the interface.
func (a *agents) withoutOverlays() {
	engine := a.engine
	a.opts.OpenEngine = func(context.Context, config.Sandbox, func(string)) (sandbox.Engine, error) {
		return struct{ sandbox.Engine }{engine}, nil
	}
}

// TestBudget: an agent that asks for more than its budget has reached a limit,
// whatever it says. One that keeps to it has not.
func TestBudget(t *testing.T) {
	for requests, want := range map[int]int{1: 0, 2: 6} {
		a := newAgents(t, "codex", fmt.Sprintf("model: gpt-1\nbudget: {requests: %d}", requests))
		a.more = 1
		sum, _ := a.run(Fresh)
		if sum.Of(verdict.Computed).Passed != want || sum.Of(verdict.Computed).Verified != 6 || len(a.provider.Requests()) != 6*requests {
			t.Errorf("%+v after %d requests", sum, len(a.provider.Requests()))
		}
		for _, f := range sum.Failures {
			if f.Outcome != verdict.Limit || f.Reason != verdict.Budget {
				t.Errorf("%+v", f)
			}
		}
	}
}

// TestRejectedKey: a key that the provider rejects ends the run in one line.
func TestRejectedKey(t *testing.T) {
	a := newAgents(t, "codex", "model: gpt-1")
	a.env["OPENAI_API_KEY"] = "sk-another-key-4711"
	r, err := Open(t.Context(), a.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sum, err := r.Drive(t.Context())
	if fault.KindOf(err) != fault.Config || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "4711") || sum.Total != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// TestAdditionsAreBound: what an operator adds to an agent is part of what a run is bound
// to, as everything of its configuration.
func TestAdditionsAreBound(t *testing.T) {
	for key, values := range map[string][2]string{
		"args": {"[--color, never]", "[--color, always]"}, "config": {"{model_verbosity: low}", "{model_verbosity: high}"},
		"mcp": {"{a: {command: [x]}}", "{a: {command: [x, y]}}"}, "system_prompt": {"one", "two"},
	} {
		a := newAgents(t, "codex", "model: gpt-1\n"+key+": "+values[0])
		if err := a.open(Fresh); err != nil {
			t.Fatal(err)
		}
		before := a.manifest().Digests.Config
		if err := a.open(Resume); err != nil {
			t.Errorf("%s: it did not change: %v", key, err)
		}
		a.configure("codex", "model: gpt-1\n"+key+": "+values[1])
		var changed *ChangedError
		if err := a.open(Resume); !errors.As(err, &changed) || !strings.Contains(fmt.Sprint(changed.Changes), "harness.config."+key) {
			t.Errorf("%s: %v", key, err)
		}
		if err := a.open(Replace); err != nil || a.manifest().Digests.Config == before {
			t.Errorf("%s: the digest of the configuration is the same: %v", key, err)
		}
	}
}

// TestTurnsAreALimit: an agent that took all the turns that it may and left no candidate
// failed its attempt, and the run goes on. One that fails before counts as one that does
// not work, as does one without such a bound.
func TestTurnsAreALimit(t *testing.T) {
	for name, tt := range map[string]struct {
		extra string
		works bool
	}{
		"all turns": {"\nmax_turns: 2", true}, "fewer": {"\nmax_turns: 3", false}, "no bound": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgents(t, "claude_code", "model: claude-one-1"+tt.extra)
			a.more, a.opts.Config.MaxWorkers = 1, 1
			const claude = "/opt/securebench/claude-code/bin/claude"
			works := a.programs[claude]
			a.programs[claude] = func(ctx context.Context, p *sandboxtest.Process) int {
				if slices.Contains(p.Args, "--version") {
					return works(ctx, p)
				}
				p.Stdout = io.Discard
				works(ctx, p)
				return 1
			}
			if !tt.works {
				if err := a.broke(Fresh, pipeline.FirstAttempts); err == nil {
					t.Error("it did not stop")
				}
				return
			}
			if sum, _ := a.run(Fresh); sum.Total != 6 || sum.Of(verdict.Computed).Failed != 6 || sum.AgentErrors != 0 {
				t.Errorf("%+v", sum)
			}
			records, err := os.ReadFile(filepath.Join(a.opts.Config.OutputDir, record.LinesName))
			if err != nil || bytes.Count(records, []byte(`"failure_reason": "turn_limit"`)) != 6 || bytes.Count(records, []byte(`"outcome": "limit"`)) != 6 {
				t.Errorf("%v\n%s", err, records)
			}
		})
	}
}
