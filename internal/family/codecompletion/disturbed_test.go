package codecompletion

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/verdict"
)

// TestDisturbedBoxes: a candidate box or a test box that is killed or paused
// from outside in the middle of a row gives no verdict. A box that ends or
// stops on its own does.
func TestDisturbedBoxes(t *testing.T) {
	t.Parallel()
	e := enginetest.Docker(t)
	img := enginetest.Image(t, e)
	api, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })
	kill := func(id string) error {
		_, err := api.ContainerKill(context.Background(), id, client.ContainerKillOptions{Signal: "KILL"})
		return err
	}
	// A runtime gives freezing up where processes of a busy machine do not stop at once.
	pause := func(id string) (err error) {
		for range 20 {
			if _, err = api.ContainerPause(context.Background(), id, client.ContainerPauseOptions{}); err == nil || !strings.Contains(err.Error(), "unable to freeze") {
				return err
			}
		}
		return err
	}
	const (
		asked = "import sys, time\ndef add(a, b):\n    print('asked', file=sys.stderr, flush=True)\n"
		slow  = asked + "    time.sleep(6)\n    return a + b\n"
		stuck = asked + "    time.sleep(60)\n"
		// A candidate that takes more than half of the time is overdue
		// itself, whatever happens to the test box meanwhile.
		short, long = 8 * time.Second, 20 * time.Second
	)
	for _, c := range []struct {
		name, role, candidate string
		limit                 time.Duration
		do                    func(id string) error // nil is nothing
		want                  verdict.Reason        // "" is no verdict
	}{
		{"candidate killed", roleCandidate, stuck, short, kill, ""},
		{"candidate paused", roleCandidate, stuck, short, pause, ""},
		{"test box killed", roleTest, slow, long, kill, ""},
		{"test box paused", roleTest, slow, long, pause, ""},
		{"candidate ends", "", "import os\ndef add(a, b): os._exit(137)\n", short, nil, verdict.WorkerExited},
		{"candidate sleeps", "", stuck, short, nil, verdict.VerificationTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := resources(e)
			r.RunID = enginetest.Run(t.Name())
			v := newVerifier(r)
			s := add()
			s.limits.Timeout = c.limit
			open := v.Open(t.Context(), onDocker(t, img, s))
			prepared := open.(*session).prepared
			if err := prepared.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				if c.do == nil {
					done <- nil
					return
				}
				for printed, _ := prepared.box.Stderr(); len(printed) == 0 && t.Context().Err() == nil; printed, _ = prepared.box.Stderr() {
					time.Sleep(10 * time.Millisecond) // until the candidate is asked
				}
				res, err := api.ContainerList(context.Background(), client.ContainerListOptions{Filters: client.Filters{}.
					Add("label", "securebench.run="+r.RunID).Add("label", "securebench.role="+c.role)})
				for _, found := range res.Items {
					err = errors.Join(err, c.do(found.ID))
				}
				if len(res.Items) == 0 {
					err = errors.Join(err, errors.New("there is no such container"))
				}
				done <- err
			}()
			got, err := open.Verify(t.Context(), module(c.candidate))
			if err := errors.Join(<-done, open.Close(t.Context()), v.Close(t.Context())); err != nil {
				t.Error(err)
			}
			switch {
			case c.want == "" && !errors.Is(err, sandbox.ErrDisturbed):
				t.Errorf("got %v and %s; want that it was disturbed", err, describe(got))
			case c.want != "" && (err != nil || got.Reason != c.want):
				t.Errorf("got %v and %s; want %s", err, describe(got), c.want)
			}
		})
	}
}
