package repopatch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"securebench/internal/awaittest"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

// TestDisturbedSandbox: a sandbox that is killed from outside while the tests
// run gives no verdict.
func TestDisturbedSandbox(t *testing.T) {
	enginetest.Sampled(t, func(t *testing.T, e enginetest.Engine) {
		b := benchOn(t, e, project(), "", "")
		killed := make(chan error, 1)
		go func() { killed <- killWhenSlow(e, b.run) }()
		slow := strings.Replace(mended, "@@ -1,5 +1,5 @@\n", "@@ -1,5 +1,7 @@\n+import time\n+time.sleep(30)\n", 1)
		got, err := b.try(t, b.row(t, nil), slow)
		if err := <-killed; err != nil {
			t.Error(err)
		}
		if !errors.Is(err, sandbox.ErrDisturbed) {
			t.Errorf("got %v and %s; want that it was disturbed", err, describe(got))
		}
	})
}

// killWhenSlow kills the verifier's sandbox once the tests sleep in it.
func killWhenSlow(e sandbox.Engine, run string) error {
	ctx, cancel := context.WithTimeout(context.Background(), awaittest.Hung)
	defer cancel()
	kill, err := enginetest.Await(ctx, e, run, "verifier", "-m pytest")
	if err != nil {
		return err
	}
	time.Sleep(time.Second)
	return kill()
}
