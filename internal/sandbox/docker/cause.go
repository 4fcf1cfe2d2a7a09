package docker

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/go-json-experiment/json"
	"github.com/moby/moby/api/types/container"
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

// limits says which limits the processes of an ended container ran into.
func (r *run) limits(ctx context.Context) (seen []sandbox.End, err error) {
	res, err := r.box.engine.api.ContainerInspect(ctx, r.box.name, client.ContainerInspectOptions{})
	if r.box.closed.Load() {
		return nil, os.ErrClosed
	}
	if err != nil {
		return nil, fmt.Errorf("inspecting an ended container: %w", err)
	}
	if res.Container.State != nil && res.Container.State.OOMKilled {
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
