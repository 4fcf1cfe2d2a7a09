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

	"securebench/internal/attended"
	"securebench/internal/sandbox"
)

// sample notes whether the limit on processes is reached. A sample that fails
// or takes too long is ignored: the container may just have ended.
func (r *run) sample(ctx context.Context, timeout time.Duration) {
	cctx, cancel := attended.WithTimeout(ctx, timeout)
	defer cancel()
	res, err := r.box.engine.conn.API.ContainerStats(cctx, r.box.name, client.ContainerStatsOptions{})
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

// state inspects a container that has ended. If it is gone, something outside
// removed it.
func (r *run) state(ctx context.Context) (container.State, error) {
	res, err := r.box.engine.conn.API.ContainerInspect(ctx, r.box.name, client.ContainerInspectOptions{})
	switch {
	case r.box.closed.Load():
		return container.State{}, os.ErrClosed
	case cerrdefs.IsNotFound(err):
		return container.State{}, fmt.Errorf("%w: its container is gone", sandbox.ErrDisturbed)
	case err != nil:
		return container.State{}, fmt.Errorf("inspecting an ended container: %w", err)
	case res.Container.State == nil:
		return container.State{}, errors.New("the engine reports no state of an ended container")
	case res.Container.State.Running:
		return container.State{}, fmt.Errorf("%w: its container was started again", sandbox.ErrDisturbed)
	}
	return *res.Container.State, nil
}

// How long after a container's end the engine may still report an event that came
// before: a busy one reports a signal late. A command that was killed is rare
// enough to wait longer.
const (
	eventSlack = 50 * time.Millisecond
	killSlack  = 3 * time.Second
	killedCode = 128 + 9
)

// disturbed looks in the engine's events for actions on an ended container
// while it ran, and returns an error that names the first. The times are the
// engine's own, so the clock here does not matter. Engines keep the last few
// hundred events, and some keep none: then the command counts as having ended
// on its own.
func (r *run) disturbed(ctx context.Context, s container.State, slack time.Duration, actions ...events.Action) error {
	finished, err := time.Parse(time.RFC3339Nano, s.FinishedAt)
	if err != nil {
		return fmt.Errorf("reading when a container ended: %w", err)
	}
	cctx, cancel := attended.WithTimeoutCause(ctx, callTimeout, errNoAnswer)
	defer cancel()
	filters := client.Filters{}.Add("type", string(events.ContainerEventType)).Add("container", r.box.name)
	for _, a := range actions {
		filters = filters.Add("event", string(a))
	}
	res := r.box.engine.conn.API.Events(cctx, client.EventsListOptions{Since: s.StartedAt,
		Until: finished.Add(slack).Format(time.RFC3339Nano), Filters: filters})
	own, _ := r.box.freezing.own()
	for {
		var err error
		select {
		case event := <-res.Messages:
			if r.box.closed.Load() {
				return os.ErrClosed
			}
			if own > 0 && (event.Action == events.ActionPause || event.Action == events.ActionUnPause) {
				own--
				continue
			}
			return fmt.Errorf("%w: the engine's events show %q", sandbox.ErrDisturbed, event.Action)
		case err = <-res.Err:
		}
		if err == nil || errors.Is(err, io.EOF) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.box.engine.conn.Log.Warn("cannot read the engine's events", slog.Any("error", err))
		return nil
	}
}

// disturbedAtEnd is disturbed for a command that seems to have ended on its
// own, which was noticed some time ago. After exit code 0 it does not wait for
// late events, but includes what came meanwhile: an engine reports a signal
// after it has sent it, and a busy one even after the end that it caused.
func (r *run) disturbedAtEnd(ctx context.Context, s container.State, ago time.Duration) error {
	if s.ExitCode == 0 {
		return r.disturbed(ctx, s, ago, events.ActionKill, events.ActionStop)
	}
	slack := eventSlack
	if s.ExitCode == killedCode {
		slack = killSlack
	}
	return r.disturbed(ctx, s, max(ago, slack), events.ActionKill, events.ActionStop, events.ActionRestart, events.ActionDestroy, events.ActionUpdate)
}

// paused reports whether a container that is out of time is paused, which its
// processes cannot do to themselves. It is asked before the container is killed:
// a busy engine may have dropped the event by then.
func (r *run) paused(ctx context.Context) (bool, error) {
	cctx, cancel := cleanup(ctx)
	defer cancel()
	res, err := r.box.engine.conn.API.ContainerInspect(cctx, r.box.name, client.ContainerInspectOptions{})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return false, fmt.Errorf("inspecting a container that is out of time: %w", err)
	}
	return err == nil && res.Container.State != nil && res.Container.State.Paused, nil
}

// disturbedMeanwhile is disturbed for a command that ran out of time, paused or
// not.
func (r *run) disturbedMeanwhile(ctx context.Context, paused bool) error {
	s, err := r.state(ctx)
	if err != nil {
		return err
	}
	if err := r.box.disturbedPause(paused); err != nil {
		return err
	}
	return r.disturbed(ctx, s, eventSlack, events.ActionPause, events.ActionUnPause, events.ActionUpdate, events.ActionRestart)
}

// limits lists the limits that the processes of an ended container ran into.
func (r *run) limits(ctx context.Context, s container.State) (seen []sandbox.End, err error) {
	if s.OOMKilled {
		seen = append(seen, sandbox.OutOfMemory)
	}
	if r.pids {
		seen = append(seen, sandbox.PidsLimit)
	}
	for _, m := range r.box.mounts {
		if m.readOnly {
			continue
		}
		u, err := m.workspace.Usage(ctx)
		if err != nil {
			return nil, err
		}
		if u.Full() {
			return append(seen, sandbox.DiskLimit), nil
		}
	}
	return seen, nil
}

// startFailure distinguishes a command that cannot be executed, which is the
// fault of the image or of whoever named it, from an engine that cannot start
// containers. The exit codes are those of a shell. The engine has no error code
// for this; its command line matches the same words.
func startFailure(err error, command string, stderr io.Writer) (sandbox.Outcome, bool) {
	if !cerrdefs.IsInvalidArgument(err) && !cerrdefs.IsNotFound(err) {
		return sandbox.Outcome{}, false
	}
	switch msg := err.Error(); {
	case strings.Contains(msg, "executable file not found"), strings.Contains(msg, "no such file or directory"):
		return sandbox.NotStarted(sandbox.ExitNotFound, command, stderr), true
	case strings.Contains(msg, "permission denied"), strings.Contains(msg, "is a directory"):
		return sandbox.NotStarted(sandbox.ExitCannot, command, stderr), true
	}
	return sandbox.Outcome{}, false
}
