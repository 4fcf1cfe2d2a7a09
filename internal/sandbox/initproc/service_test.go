package initproc

import (
	"bytes"
	"context"
	"testing"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

// TestServiceAnswers waits for a service inside its sandbox, as a user without
// any rights, and for one that is not there.
func TestServiceAnswers(t *testing.T) { enginetest.Each(t, serviceAnswers) }

func serviceAnswers(t *testing.T, e enginetest.Engine) {
	c := openSandbox(t, e, sandbox.Nobody, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	defer func() { cancel(); <-ended }()
	go func() {
		defer close(ended)
		serve := shell("sleep 1; exec python3 -m http.server 7777 --bind 127.0.0.1 --directory /usr")
		serve.User, serve.Timeout = sandbox.Nobody, 0
		if res, err := c.Run(ctx, serve); ctx.Err() == nil {
			t.Errorf("the service ended: %+v, %v", res, err)
		}
	}()
	wait := func(timeout time.Duration, args ...string) Result {
		t.Helper()
		var said bytes.Buffer
		res, err := c.Run(t.Context(), Command{Argv: append([]string{sandbox.HelperPath, "sandbox-probe"}, args...),
			User: sandbox.Nobody, Timeout: timeout, Stderr: &said})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%q: %s, code %d, %q", args, res.End, res.ExitCode, &said)
		return res
	}
	for _, args := range [][]string{{"tcp", "127.0.0.1:7777"}, {"http", "http://127.0.0.1:7777/"}} {
		if res := wait(hung, args...); res.ExitCode != 0 {
			t.Errorf("%q: %+v", args, res)
		}
	}
	for _, args := range [][]string{{"tcp", "127.0.0.1:7778"}, {"http", "http://127.0.0.1:7777/no/such/page"}} {
		if res := wait(2*time.Second, args...); res.End != sandbox.TimedOut {
			t.Errorf("%q: %+v", args, res)
		}
	}
	if res := wait(hung, "tcp", "nonsense"); res.ExitCode != 1 {
		t.Errorf("nonsense: %+v", res)
	}
}
