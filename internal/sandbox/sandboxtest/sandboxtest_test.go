package sandboxtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/sandbox/sandboxtest/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) {
	img := sandbox.Image{ID: "sha256:test"}
	e := sandboxtest.New(sandboxtest.Config{
		Programs: contract.Programs(),
		Images:   map[string]sandbox.Image{"test": img},
		Root:     contract.Root(),
	})
	t.Cleanup(func() {
		if n := e.Left(); n != 0 {
			t.Errorf("%d boxes and workspaces are left", n)
		}
	})
	contract.Suite(t, e, contract.Caps{Image: img})
}

func TestFailOpen(t *testing.T) {
	e := sandboxtest.New(sandboxtest.Config{})
	cause := errors.New("the engine is gone")
	e.FailOpen(2, cause)
	img, err := e.Image(t.Context(), "any")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		b, err := e.Open(t.Context(), sandbox.Spec{Image: img, Command: []string{"x"}})
		if failed := errors.Is(err, cause); failed != (i == 1) {
			t.Errorf("opening %d: got %v", i, err)
		}
		if b != nil {
			_ = b.Close(t.Context())
		}
	}
}

// TestInit: the commands of a box with an init are programs, which reach what the
// parent listens at inside.
func TestInit(t *testing.T) {
	const address = "127.0.0.1:61080"
	agent := func(ctx context.Context, p *sandboxtest.Process) int {
		transport := &http.Transport{DialContext: p.Dial}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address, p.Stdin)
		if err != nil {
			return 1
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			_, _ = fmt.Fprintln(p.Stderr, err)
			return 2
		}
		defer res.Body.Close()
		_, _ = fmt.Fprintf(p.Stdout, "%q ", p.Env)
		_, _ = io.Copy(p.Stdout, res.Body)
		return 3
	}
	e := sandboxtest.New(sandboxtest.Config{Programs: map[string]sandboxtest.Program{"agent": agent,
		"forever": func(ctx context.Context, _ *sandboxtest.Process) int { <-ctx.Done(); return 0 }}})
	box, err := e.Open(t.Context(), sandbox.Spec{Image: sandbox.Image{ID: "sha256:x"}, Init: true, Env: []string{"A=1"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := initproc.Open(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context, stdin string, argv ...string) (initproc.Result, string, error) {
		var out, errs strings.Builder
		res, err := c.Run(ctx, initproc.Command{Argv: argv, Env: []string{"B=2"}, Inherit: true, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs})
		return res, out.String() + errs.String(), err
	}
	if res, said, err := run(t.Context(), "", "agent"); err != nil || res.ExitCode != 2 || !strings.Contains(said, "refused") {
		t.Errorf("without a listener: %+v, %v, %q", res, err, said)
	}
	ln, err := c.Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body) // whole: the server gives the rest up when an answer begins
		_, _ = w.Write(b)
	})}
	served := make(chan error)
	go func() { served <- server.Serve(ln) }()
	large := strings.Repeat("x", 1<<20)
	if res, said, err := run(t.Context(), large, "agent"); err != nil || res.ExitCode != 3 || said != `["A=1" "B=2"] `+large {
		t.Errorf("%+v, %v, %.100q", res, err, said)
	}
	if res, _, err := run(t.Context(), "", "nothing"); err != nil || res.ExitCode != 127 {
		t.Errorf("a program that is not there: %+v, %v", res, err)
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, cause)
	defer cancel()
	if _, _, err := run(ctx, "", "forever"); !errors.Is(err, cause) {
		t.Errorf("a command that is given up: %v", err)
	}
	if res, err := c.Run(t.Context(), initproc.Command{Argv: []string{"forever"}, Timeout: time.Millisecond}); err != nil || res.End != sandbox.TimedOut {
		t.Errorf("a command whose time is up: %+v, %v", res, err)
	}
	if err := errors.Join(server.Close(), c.Close(t.Context())); err != nil {
		t.Error(err)
	}
	<-served
	if n := e.Left(); n != 0 {
		t.Errorf("%d boxes are left", n)
	}
}
