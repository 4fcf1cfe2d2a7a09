package docker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// removeContainer kills and removes a container by name or id; one that is
// not there is fine.
func (e *Engine) removeContainer(ctx context.Context, name string) error {
	return e.remove(ctx, "container", name, func(ctx context.Context) error {
		_, err := e.api.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return err
	})
}

// removeVolume removes a volume by name; one that is not there is fine.
func (e *Engine) removeVolume(ctx context.Context, name string) error {
	return e.remove(ctx, "volume", name, func(ctx context.Context) error {
		_, err := e.api.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
		return err
	})
}

// removeTries and removePause bound the wait for a removal by somebody else.
const (
	removeTries = 40
	removePause = 50 * time.Millisecond
)

// remove removes an object whether or not ctx has ended. While the engine
// says that it is being removed already or still in use, it looks again: both
// pass when a container dies in the same moment.
func (e *Engine) remove(ctx context.Context, kind, name string, call func(context.Context) error) error {
	cctx, cancel := cleanup(ctx)
	defer cancel()
	for tries := 0; ; tries++ {
		err := call(cctx)
		if err == nil || cerrdefs.IsNotFound(err) {
			return nil
		}
		if !cerrdefs.IsConflict(err) || cctx.Err() != nil || tries == removeTries {
			e.log.Error("an object is left on the engine", slog.String("kind", kind), slog.String("name", name))
			return fmt.Errorf("removing %s %s: %w", kind, name, err)
		}
		time.Sleep(removePause)
	}
}
