package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/go-json-experiment/json"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
)

// sample looks whether the limit on processes is reached. A look that fails
// says nothing: the container may just have ended.
func (r *run) sample(ctx context.Context) {
	cctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	res, err := r.box.engine.api.ContainerStats(cctx, r.box.name, client.ContainerStatsOptions{})
	if err != nil {
		return
	}
	defer res.Body.Close()
	var stats struct {
		Pids container.PidsStats `json:"pids_stats"`
	}
	if err := json.UnmarshalRead(io.LimitReader(res.Body, 1<<20), &stats); err != nil {
		return
	}
	if stats.Pids.Current >= uint64(r.box.limits.Pids) {
		r.pids = true
	}
}

// state looks at a container that has ended. One that is not there any more was
// not removed here.
func (r *run) state(ctx context.Context) (container.State, error) {
	res, err := r.box.engine.api.ContainerInspect(ctx, r.box.name, client.ContainerInspectOptions{})
	switch {
	case r.box.closed.Load():
		return container.State{}, os.ErrClosed
	case cerrdefs.IsNotFound(err):
		return container.State{}, fmt.Errorf("%w: its container is gone", sandbox.ErrDisturbed)
	case err != nil:
		return container.State{}, fmt.Errorf("inspecting an ended container: %w", err)
	case res.Container.State == nil:
		return container.State{}, errors.New("the engine says nothing of an ended container")
	case res.Container.State.Running:
		return container.State{}, fmt.Errorf("%w: its container was started again", sandbox.ErrDisturbed)
	}
	return *res.Container.State, nil
}

// eventSlack is how long after a container's end the engine may still tell of
// what was done to it.
const eventSlack = 50 * time.Millisecond

// disturbed asks the engine's events whether somebody did something to an ended
// container while it ran, and returns an error that says what. The times are
// the engine's own, whatever the clock here says. Engines keep the last few
// hundred events, and some none: then a command is held to have ended by
// itself.
func (r *run) disturbed(ctx context.Context, s container.State, slack time.Duration, actions ...events.Action) error {
	finished, err := time.Parse(time.RFC3339Nano, s.FinishedAt)
	if err != nil {
		return fmt.Errorf("reading when a container ended: %w", err)
	}
	cctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errMute)
	defer cancel()
	filters := client.Filters{}.Add("type", string(events.ContainerEventType)).Add("container", r.box.name)
	for _, a := range actions {
		filters = filters.Add("event", string(a))
	}
	res := r.box.engine.api.Events(cctx, client.EventsListOptions{Since: s.StartedAt,
		Until: finished.Add(slack).Format(time.RFC3339Nano), Filters: filters})
	select {
	case event := <-res.Messages:
		if r.box.closed.Load() {
			return os.ErrClosed
		}
		return fmt.Errorf("%w: the engine's events show %q", sandbox.ErrDisturbed, event.Action)
	case err := <-res.Err:
		if err == nil || errors.Is(err, io.EOF) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.box.engine.log.Warn("the engine does not tell its events", slog.Any("error", err))
		return nil
	}
}

// disturbedAtEnd is disturbed for a command that ended by itself, as it seems.
// An end without an error waits for no event: whoever caused it was there
// before.
func (r *run) disturbedAtEnd(ctx context.Context, s container.State) error {
	if s.ExitCode == 0 {
		return r.disturbed(ctx, s, 0, events.ActionKill, events.ActionStop)
	}
	return r.disturbed(ctx, s, eventSlack, events.ActionKill, events.ActionStop, events.ActionRestart, events.ActionDestroy, events.ActionUpdate)
}

// disturbedMeanwhile is disturbed for a command that was ended for its time.
func (r *run) disturbedMeanwhile(ctx context.Context) error {
	s, err := r.state(ctx)
	if err != nil {
		return err
	}
	return r.disturbed(ctx, s, eventSlack, events.ActionPause, events.ActionUnPause, events.ActionUpdate, events.ActionRestart)
}

// limits says which limits the processes of an ended container ran into.
func (r *run) limits(ctx context.Context, s container.State) (seen []sandbox.End, err error) {
	if s.OOMKilled {
		seen = append(seen, sandbox.OutOfMemory)
	}
	if r.pids {
		seen = append(seen, sandbox.PidsLimit)
	}
	if r.box.workspace == nil {
		return seen, nil
	}
	u, err := r.box.workspace.Usage(ctx)
	if err == nil && u.Full() {
		seen = append(seen, sandbox.DiskLimit)
	}
	return seen, err
}

// startFailure tells a command that cannot be executed, which is the doing of
// the image or of the one who named it, from an engine that cannot start
// containers. The exit codes are those of a shell. The engine has no code of
// its own for this; its command line matches the same words.
func startFailure(err error, command string, stderr io.Writer) (sandbox.Outcome, bool) {
	if !cerrdefs.IsInvalidArgument(err) && !cerrdefs.IsNotFound(err) {
		return sandbox.Outcome{}, false
	}
	out := sandbox.Outcome{End: sandbox.Exited}
	var why string
	switch msg := err.Error(); {
	case strings.Contains(msg, "executable file not found"), strings.Contains(msg, "no such file or directory"):
		out.ExitCode, why = 127, "not found"
	case strings.Contains(msg, "permission denied"), strings.Contains(msg, "is a directory"):
		out.ExitCode, why = 126, "not executable"
	default:
		return sandbox.Outcome{}, false
	}
	if stderr != nil {
		n, _ := fmt.Fprintf(stderr, "sandbox: command %q: %s\n", command, why)
		out.StderrBytes = int64(n)
	}
	return out, true
}
