package produce_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"securebench/internal/agent/harness"
	"securebench/internal/gateway/access"
	"securebench/internal/gateway/relay"
	"securebench/internal/gateway/scripted"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/task"
)

// client is an agent that asks its provider once. What it should find in its
// sandbox, it checks; what it says first, the test gives.
const client = `
import json, os, resource, socket, sys, urllib.request
def ask():
    body = {"model": "gpt-1", "stream": True, "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}]}
    req = urllib.request.Request("http://127.0.0.1:61081/v1/responses", json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(req).read()
def through_proxy(target):
    s = socket.create_connection(("127.0.0.1", 61080))
    s.sendall(("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (target, target)).encode())
    return s.recv(99).split()[1].decode()
`

// honest finds all that the plan promises, and nothing else.
const honest = client + `
assert sys.stdin.read() == ""
assert os.environ["PATH"].startswith("/opt/securebench/codex/bin:"), os.environ["PATH"]
assert os.popen("tool").read() == "tool\n"
home = os.environ["HOME"]
assert os.listdir(home) == [] and os.stat(home).st_mode & 0o777 == 0o700 and os.stat(home).st_uid == os.getuid()
open(home + "/state", "w").write("x")
try:
    open("/opt/securebench/codex/bin/tool", "a")
    sys.exit("the overlay can be written")
except OSError:
    pass
assert sorted(os.listdir("/sys/class/net")) == ["lo"]
try:
    socket.create_connection(("192.0.2.1", 443), 2)
    sys.exit("there is a network")
except OSError:
    pass
assert b"response.completed" in ask()
assert through_proxy("evil.example:443") == "403"
print("done")
`

// breaker takes memory from the init of its sandbox, which then cannot go on.
const breaker = client + `
resource.prlimit(1, resource.RLIMIT_AS, (1 << 20, 1 << 20))
held = []
while True:
    held.append(socket.create_connection(("127.0.0.1", 61081)))
    held[-1].sendall(b"POST /v1/responses HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n")
    sys.stdout.write("x" * 10000)
`

// gated is a producer on a real engine whose agents have a provider that is busy
// at first, one allowed domain, and a program.
type gated struct {
	t        *testing.T
	engine   sandbox.Engine
	gateway  produce.Gateway
	image    sandbox.Image
	provider *scripted.Server
	ctx      context.Context // of the attempts
}

// newGated makes a producer whose provider says first that it is busy, for a
// number of seconds.
func newGated(t *testing.T, busy int) *gated {
	t.Helper()
	e := enginetest.Open(t)
	script := fmt.Sprintf("key: sk-canary-1234567\nturns: [{say: hi, before: [{status: 429, headers: {Retry-After: '%d'}}]}]\n", busy)
	s, err := scripted.Parse("s.yaml", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	g := &gated{t: t, image: enginetest.Image(t, e), provider: scripted.New(s, nil),
		ctx: context.WithoutCancel(t.Context())}
	upstream := httptest.NewServer(g.provider)
	t.Cleanup(upstream.Close)
	r, err := relay.New(relay.Config{API: relay.Responses, BaseURL: upstream.URL, Model: "gpt-1", Keys: access.Keys{Key: "sk-canary-1234567"}})
	if err != nil {
		t.Fatal(err)
	}
	const key = "securebench-test-produce"
	tree, err := e.Overlay(t.Context(), sandbox.OverlaySpec{Key: key, Title: "a test"}, func(w io.Writer) error {
		tw := tar.NewWriter(w)
		text := "#!/bin/sh\necho tool\n"
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "bin/tool", Mode: 0o755, Size: int64(len(text))}); err != nil {
			return err
		}
		_, _ = io.WriteString(tw, text)
		return tw.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.RemoveOverlay(context.Background(), key); err != nil {
			t.Error(err)
		}
	})
	g.engine = e
	g.gateway = produce.Gateway{Relay: r, Overlay: func(harness.Overlay, sandbox.Image) (sandbox.Overlay, error) { return tree, nil }}
	return g
}

// run runs a script as an agent of a user.
func (g *gated) run(script string, attempt int, user *sandbox.User) (produce.Result, error) {
	g.t.Helper()
	const home = "/opt/securebench/codex-home"
	producer := produce.Producer{Engine: g.engine, Gateway: g.gateway, Harness: fixed{plan: harness.Plan{Argv: []string{"python3", "-c", script}, Workdir: "/workspace", Target: "/workspace", TaskFile: "task.json",
		Env: []string{"HOME=" + home}, Home: home, TokenEnv: "OPENAI_API_KEY", Timeout: 2 * time.Minute, Relay: &harness.Relay{}, Domains: []string{"a.example"},
		Overlays: []harness.Overlay{{Program: "codex", Target: "/opt/securebench/codex"}}}}}
	tk, err := task.New(task.Config{ID: fmt.Sprint("gate", attempt), Family: "short_answer", Pack: task.Pack{ID: "p", Version: 1}})
	if err != nil {
		return produce.Result{}, err
	}
	s, err := producer.Prepare(g.ctx, produce.Request{View: tk.Agent(), Image: g.image, User: user, Labels: sandbox.Labels{Run: "gate", Task: tk.ID(), Attempt: attempt}}, nil)
	if err != nil {
		return produce.Result{}, err
	}
	res, err := s.Run(g.ctx)
	return res, errors.Join(err, s.Close(context.WithoutCancel(g.ctx)))
}

// TestGateOnDocker: on a real engine, agents of any user reach what they may, also
// while another one breaks its sandbox's init. That one has failed, by name.
func TestGateOnDocker(t *testing.T) {
	g := newGated(t, 1)
	done := make(chan error, 1)
	go func() {
		res, err := g.run(breaker, 1, nil)
		if err == nil && res.Outcome.End != produce.Broken {
			err = fmt.Errorf("the breaker ended with %+v: %s", res.Outcome, res.Stderr)
		}
		done <- err
	}()
	for i, user := range []*sandbox.User{nil, {UID: 1234, GID: 1234}} {
		res, err := g.run(honest, 2+i, user)
		if err != nil {
			t.Fatal(err)
		}
		if res.Outcome.End != sandbox.Exited || res.Outcome.ExitCode != 0 || string(res.Stdout) != "done\n" {
			t.Errorf("user %v: %+v\n%s%s", user, res.Outcome, res.Stdout, res.Stderr)
		}
		if string(res.Metadata["network"]) != `{"proxy_denied":1,"relay_allowed":1}` || !strings.Contains(string(res.Raw["network.jsonl"]), "evil.example:443") {
			t.Errorf("network %s: %s", res.Metadata["network"], res.Raw["network.jsonl"])
		}
		if held := len(res.Metadata["held_seconds"]) > 0; held != (i == 0) { // the provider is busy once
			t.Errorf("user %v: held %s s", user, res.Metadata["held_seconds"])
		}
		if res.Usage["requests"] == 0 || res.Usage["output_tokens"] == 0 {
			t.Errorf("usage %v", res.Usage)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
