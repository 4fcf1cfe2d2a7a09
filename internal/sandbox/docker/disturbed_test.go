package docker_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"securebench/internal/awaittest"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

// signalled is a writer that reports its first write.
type signalled chan struct{}

func (s signalled) Write(p []byte) (int, error) {
	select {
	case s <- struct{}{}:
	default:
	}
	return len(p), nil
}

// until is an input that ends when it is closed.
type until chan struct{}

func (u until) Read([]byte) (int, error) {
	<-u
	return 0, io.EOF
}

// labelled finds the containers of a run.
func labelled(t *testing.T, api *client.Client, run string) (ids []string) {
	t.Helper()
	res, err := api.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", "securebench.run="+run)})
	if err != nil {
		t.Error(err)
	}
	for _, c := range res.Items {
		ids = append(ids, c.ID)
	}
	return ids
}

// pauseAll pauses the containers of a run, as from outside.
func pauseAll(t *testing.T, api *client.Client, run string) {
	t.Helper()
	for _, id := range labelled(t, api, run) {
		if _, err := api.ContainerPause(context.Background(), id, client.ContainerPauseOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// TestDisturbed checks that outside interference with a box is not reported as an
// outcome of its command. The commands wait for it.
func TestDisturbed(t *testing.T) {
	e := enginetest.Docker(t)
	img, api := enginetest.Image(t, e), engineAPI(t)
	t.Cleanup(func() { diffOwned(t, e) })
	const forever = "echo ready; exec sleep 600"
	// The engine notes a signal after it has sent it: the end must not be faster.
	stopped := func(code string) string {
		return "trap 'sleep 1; exit " + code + "' TERM; echo ready; while :; do sleep 0.1; done"
	}
	for _, c := range []struct {
		name, script string
		do           func(ctx context.Context, id string) error // nil is nothing
		want         sandbox.Outcome                            // zero means that it was disturbed
	}{
		{"kill", forever, func(ctx context.Context, id string) error {
			_, err := api.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "KILL"})
			return err
		}, sandbox.Outcome{}},
		{"stop", forever, func(ctx context.Context, id string) error {
			_, err := api.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: new(int)})
			return err
		}, sandbox.Outcome{}},
		{"stop, normal exit", stopped("0"), func(ctx context.Context, id string) error {
			_, err := api.ContainerStop(ctx, id, client.ContainerStopOptions{})
			return err
		}, sandbox.Outcome{}},
		{"stop, with an error", stopped("1"), func(ctx context.Context, id string) error {
			_, err := api.ContainerStop(ctx, id, client.ContainerStopOptions{})
			return err
		}, sandbox.Outcome{}},
		{"restart", forever, func(ctx context.Context, id string) error {
			_, err := api.ContainerRestart(ctx, id, client.ContainerRestartOptions{Timeout: new(int)})
			return err
		}, sandbox.Outcome{}},
		{"removal", forever, func(ctx context.Context, id string) error {
			_, err := api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true})
			return err
		}, sandbox.Outcome{}},
		{"pause until the timeout", forever, func(ctx context.Context, id string) error {
			_, err := api.ContainerPause(ctx, id, client.ContainerPauseOptions{})
			return err
		}, sandbox.Outcome{}},
		{"less memory", "echo ready; read acted; exec python3 -c 'b = bytearray(100 << 20)'", func(ctx context.Context, id string) error {
			_, err := api.ContainerUpdate(ctx, id, client.ContainerUpdateOptions{
				Resources: &container.Resources{Memory: 16 << 20, MemorySwap: 16 << 20}})
			return err
		}, sandbox.Outcome{}},
		{"a short pause", "echo ready; read acted; exit 3", func(ctx context.Context, id string) error {
			if _, err := api.ContainerPause(ctx, id, client.ContainerPauseOptions{}); err != nil {
				return err
			}
			_, err := api.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
			return err
		}, sandbox.Outcome{End: sandbox.Exited, ExitCode: 3}},
		{"an inspection", "echo ready; read acted; exit 137", func(ctx context.Context, id string) error {
			_, err := api.ContainerTop(ctx, id, client.ContainerTopOptions{})
			return err
		}, sandbox.Outcome{End: sandbox.Exited, ExitCode: 137}},
		// The honest twins: a command that ends in the same way on its own.
		{"ends on its own, as if killed", "echo ready; exit 137", nil, sandbox.Outcome{End: sandbox.Exited, ExitCode: 137}},
		{"ends on its own, as if stopped", "echo ready; exit 143", nil, sandbox.Outcome{End: sandbox.Exited, ExitCode: 143}},
		{"its own signals", "echo ready; trap 'exit 9' USR1; kill -9 $$; kill -TERM $$; kill -USR1 $$; sleep 600", nil, sandbox.Outcome{End: sandbox.Exited, ExitCode: 9}},
		{"its own timeout", forever, nil, sandbox.Outcome{End: sandbox.TimedOut, ExitCode: 124}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			limit := awaittest.Hung
			if strings.HasSuffix(c.name, " timeout") {
				limit = 10 * time.Second
			}
			acted := until(make(chan struct{}))
			b, err := e.Open(t.Context(), sandbox.Spec{Labels: sandbox.Labels{Run: enginetest.Run(t.Name())}, Image: img,
				Command: []string{"sh", "-c", c.script}, Stdin: true, Limits: sandbox.Limits{Timeout: limit, Memory: 64 << 20}})
			if err != nil {
				t.Fatal(err)
			}
			ready, done := make(signalled, 1), make(chan error, 1)
			go func() {
				<-ready
				defer close(acted)
				if c.do == nil {
					done <- nil
					return
				}
				var err error
				for _, id := range labelled(t, api, enginetest.Run(t.Name())) {
					err = errors.Join(err, c.do(context.Background(), id))
				}
				done <- err
			}()
			out, err := b.Run(t.Context(), sandbox.Streams{Stdin: acted, Stdout: ready})
			if err := errors.Join(<-done, b.Close(t.Context())); err != nil {
				t.Error(err)
			}
			switch {
			case c.want.End == "" && !errors.Is(err, sandbox.ErrDisturbed):
				t.Errorf("got %+v, %v; want that it was disturbed", out, err)
			case c.want.End != "" && (err != nil || out.End != c.want.End || out.ExitCode != c.want.ExitCode):
				t.Errorf("got %+v, %v; want %+v", out, err, c.want)
			}
		})
	}
}

// TestOverdue checks that a caller that ends an overdue box learns whether the
// delay was the command's doing.
func TestOverdue(t *testing.T) {
	e := enginetest.Docker(t)
	img, api := enginetest.Image(t, e), engineAPI(t)
	for _, paused := range []bool{false, true} {
		b, err := e.Open(t.Context(), sandbox.Spec{Labels: sandbox.Labels{Run: enginetest.Run(t.Name())}, Image: img, Command: []string{"sh", "-c", "echo ready; exec sleep 600"}})
		if err != nil {
			t.Fatal(err)
		}
		ready := make(signalled, 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-ready
			if paused {
				pauseAll(t, api, enginetest.Run(t.Name()))
			}
			cancel(sandbox.ErrOverdue)
		}()
		_, err = b.Run(ctx, sandbox.Streams{Stdout: ready})
		if !errors.Is(err, sandbox.ErrOverdue) || errors.Is(err, sandbox.ErrDisturbed) != paused {
			t.Errorf("paused: %v; got %v", paused, err)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	diffOwned(t, e)
}

// untilDone is the standard input of a caller that closes it when its context ends.
type untilDone struct{ ctx context.Context }

func (r untilDone) Read([]byte) (int, error) {
	<-r.ctx.Done()
	return 0, io.ErrClosedPipe
}

// TestOverdueStreams: a caller's streams end with its context, and whichever of
// both the engine sees first, it looks whether the box was held up from outside.
// The engine is the likeliest to see both at once when it comes back from a sample
// of the processes.
func TestOverdueStreams(t *testing.T) {
	e := enginetest.Docker(t)
	img, api := enginetest.Image(t, e), engineAPI(t)
	for i := range 6 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			b, err := e.Open(t.Context(), sandbox.Spec{Labels: sandbox.Labels{Run: enginetest.Run(t.Name())}, Image: img, Stdin: true, Command: []string{"sh", "-c", "echo ready; exec sleep 600"}})
			if err != nil {
				t.Fatal(err)
			}
			ready := make(signalled, 1)
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-ready
				sampled := time.After(501*time.Millisecond + time.Duration(i)*time.Millisecond)
				pauseAll(t, api, enginetest.Run(t.Name()))
				<-sampled
				cancel(sandbox.ErrOverdue)
			}()
			_, err = b.Run(ctx, sandbox.Streams{Stdin: untilDone{ctx}, Stdout: ready})
			if !errors.Is(err, sandbox.ErrOverdue) || !errors.Is(err, sandbox.ErrDisturbed) {
				t.Errorf("got %v; want that it was disturbed", err)
			}
			if err := b.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
