package pipeline_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"securebench/internal/agent"
	"securebench/internal/agent/harness"
	"securebench/internal/candidate"
	"securebench/internal/config"
	"securebench/internal/gateway/access"
	"securebench/internal/gateway/relay"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/source"
	"securebench/internal/task"
)

// cheapCodex stands in for Codex: it asks its provider once and writes a file.
const cheapCodex = `#!/bin/bash
set -eu
body='{"model":"gpt-1","stream":true,"store":false,"input":"hello"}'
exec 3<>/dev/tcp/127.0.0.1/61081
printf 'POST /v1/responses HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s' "$OPENAI_API_KEY" "${#body}" "$body" >&3
case $(cat <&3) in *response.completed*) ;; *) exit 3 ;; esac
printf 'def f():\n    pass\n' > candidate.py
printf '%s\n' '{"type":"thread.started"}' '{"type":"item.completed","item":{"type":"agent_message","text":"done"}}'
`

// attempts makes what [BenchmarkAgent] compares.
type attempts struct {
	*testing.B
	ctx     context.Context
	engine  sandbox.Engine
	image   sandbox.Image
	program sandbox.Overlay
	harness harness.Harness
	runner  agent.Runner
	row     task.Task
	store   *candidate.Store
	base    *url.URL // of the provider
}

func newAttempts(b *testing.B) *attempts {
	b.Helper()
	e := enginetest.Docker(b)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n")
	}))
	b.Cleanup(provider.Close)
	a := &attempts{B: b, ctx: context.WithoutCancel(b.Context()), engine: e, image: enginetest.Image(b, e)}
	const key = "securebench-test-agent"
	var err error
	a.program, err = e.Overlay(a.ctx, sandbox.OverlaySpec{Key: key, Title: "a benchmark"}, func(w io.Writer) error {
		_, err := w.Write(a.file("bin/codex", cheapCodex))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.RemoveOverlay(a.ctx, key); err != nil {
			b.Error(err)
		}
	})
	a.configure(provider.URL)
	a.row = loadTasks(b, filepath.Join("..", "..", "packs", "humaneval-sample"))[0]
	if a.store, err = candidate.OpenStore(b.TempDir()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = a.store.Close() })
	return a
}

// file is an archive of one file.
func (a *attempts) file(name, content string) []byte {
	a.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content))})
	if err == nil {
		_, err = io.WriteString(w, content)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		a.Fatal(err)
	}
	return out.Bytes()
}

// configure makes the harness and the relay, as a run does.
func (a *attempts) configure(provider string) {
	a.Helper()
	text := fmt.Sprintf("{model: gpt-1, version: 0.1.0, base_url: %q}", provider)
	cfg, err := source.ParseYAML("bench.yaml", []byte(text))
	if err != nil {
		a.Fatal(err)
	}
	h, problems := harness.ParseAgent(config.Harness{Type: "codex", Config: cfg})
	if err := problems.Err(); err != nil {
		a.Fatal(err)
	}
	r, err := relay.New(relay.Config{API: relay.Responses, BaseURL: provider, Model: "gpt-1", Keys: access.Keys{Key: "sk-canary-1234567"}})
	if err != nil {
		a.Fatal(err)
	}
	if a.base, err = url.Parse(provider); err != nil {
		a.Fatal(err)
	}
	a.harness = h
	a.runner = agent.Runner{RunID: "bench", Producer: &produce.Producer{Engine: a.engine, Harness: h, Gateway: produce.Gateway{Relay: r,
		Overlay: func(harness.Overlay, sandbox.Image) (sandbox.Overlay, error) { return a.program, nil }}}}
}

// ours is an attempt as a run makes it, until its candidate is stored.
func (a *attempts) ours() time.Duration {
	a.Helper()
	start := time.Now()
	p, err := (&agent.Harness{Runner: a.runner}).Prepare(a.ctx, agent.Request{View: a.row.Agent(), Image: a.image, Attempt: 1}, agent.Output{Sink: a.store})
	if err != nil {
		a.Fatal(err)
	}
	res, err := p.Run(a.ctx)
	if err != nil {
		a.Fatal(err)
	}
	got, err := p.Capture(a.ctx, res)
	if err = errors.Join(err, p.Close(a.ctx)); err != nil || got.Candidate == nil || res.Usage["requests"] != 1 {
		a.Fatalf("%+v %+v %v: %s", got, res, err, res.Stderr)
	}
	return time.Since(start)
}

// bare runs the same command in the same sandbox, with a reverse proxy at its
// link, and reads the candidate. Nothing is checked, counted or stored.
func (a *attempts) bare() time.Duration {
	a.Helper()
	plan, err := a.harness.Plan(a.row.Agent())
	if err != nil {
		a.Fatal(err)
	}
	start := time.Now()
	space, err := a.engine.Workspace(a.ctx, sandbox.WorkspaceSpec{Owner: a.image.User})
	if err != nil {
		a.Fatal(err)
	}
	if err := space.Put(a.ctx, bytes.NewReader(a.file(plan.TaskFile, "{}"))); err != nil {
		a.Fatal(err)
	}
	box, err := a.engine.Open(a.ctx, sandbox.Spec{Image: a.image, Init: true, Workdir: plan.Workdir, Home: plan.Home, Tracing: true,
		Mounts: []sandbox.Mount{{Workspace: space, Target: plan.Target}, {Overlay: a.program, Target: plan.Overlays[0].Target, ReadOnly: true}}})
	if err != nil {
		a.Fatal(err)
	}
	client, err := initproc.Open(a.ctx, box)
	if err != nil {
		a.Fatal(err)
	}
	ln, err := client.Listen(a.ctx, harness.RelayAddress)
	if err != nil {
		a.Fatal(err)
	}
	proxy := &http.Server{Handler: httputil.NewSingleHostReverseProxy(a.base)}
	go func() { _ = proxy.Serve(ln) }()
	var out, left bytes.Buffer
	res, err := client.Run(a.ctx, initproc.Command{Argv: plan.Argv, Inherit: true, Dir: plan.Workdir, User: a.image.User, Stdout: &out, Stderr: &out,
		Output: 1 << 20, Env: append(slices.Clone(plan.Env), "OPENAI_API_KEY=x")})
	if err != nil || res.ExitCode != 0 {
		a.Fatalf("%+v, %v: %s", res, err, &out)
	}
	err = errors.Join(client.Close(a.ctx), space.Get(a.ctx, "candidate.py", 1<<20, &left), proxy.Close(), space.Close(a.ctx))
	if err != nil || left.Len() == 0 {
		a.Fatal(left.Len(), err)
	}
	return time.Since(start)
}

// BenchmarkAgent compares an attempt of an agent program, from its plan to the
// stored candidate, with the same command in a bare sandbox with one link.
func BenchmarkAgent(b *testing.B) {
	a := newAttempts(b)
	a.ours() // what comes once in a run
	a.bare()
	b.ResetTimer()
	var ours, bare []float64
	for b.Loop() {
		for i := range 10 {
			if i%2 == 0 {
				ours = append(ours, a.ours().Seconds())
			}
			bare = append(bare, a.bare().Seconds())
			if i%2 == 1 {
				ours = append(ours, a.ours().Seconds())
			}
		}
	}
	slices.Sort(ours)
	slices.Sort(bare)
	mid := len(ours) / 2
	b.ReportMetric(ours[mid], "s/attempt")
	b.ReportMetric(bare[mid], "floor-s/attempt")
	b.ReportMetric(ours[mid]/bare[mid], "ratio")
}
