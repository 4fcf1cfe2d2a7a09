package docker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"securebench/internal/attended"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/owner"
)

// The labels of objects. Only the owner's matters for reaping; the others are
// for people.
const (
	labelOwner   = "securebench.owner"
	labelRun     = "securebench.run"
	labelTask    = "securebench.task"
	labelAttempt = "securebench.attempt"
	labelRole    = "securebench.role"
)

// Labels are the labels of a new object.
func (c *conn) Labels(l sandbox.Labels) map[string]string {
	return map[string]string{
		labelOwner:   c.owner.String(),
		labelRun:     labelValue(l.Run),
		labelTask:    labelValue(l.Task),
		labelAttempt: strconv.Itoa(l.Attempt),
		labelRole:    labelValue(l.Role),
	}
}

// labelValue makes a pack's text safe for tools that print labels.
func labelValue(s string) string {
	q := strconv.QuoteToASCII(s[:min(len(s), 256)])
	return q[1 : len(q)-1]
}

// createContainer creates a container, or leaves none behind.
func (c *conn) createContainer(ctx context.Context, opts client.ContainerCreateOptions) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	cctx, cancel := creating(ctx)
	defer cancel()
	_, err := c.API.ContainerCreate(cctx, opts)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("creating a container: %w", err), c.removeContainer(ctx, opts.Name))
}

// createVolume creates a volume. After an error the caller removes it by name.
func (c *conn) createVolume(ctx context.Context, opts client.VolumeCreateOptions) error {
	cctx, cancel := creating(ctx)
	defer cancel()
	if _, err := c.API.VolumeCreate(cctx, opts); err != nil {
		return fmt.Errorf("creating a volume: %w", err)
	}
	return nil
}

// removeContainer kills and removes a container by name or ID. A container
// that does not exist is not an error.
func (c *conn) removeContainer(ctx context.Context, name string) error {
	return c.remove(ctx, "container", name, func(ctx context.Context) error {
		_, err := c.API.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return err
	})
}

// removeVolume removes a volume by name. A volume that does not exist is not
// an error.
func (c *conn) removeVolume(ctx context.Context, name string) error {
	return c.remove(ctx, "volume", name, func(ctx context.Context) error {
		_, err := c.API.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
		return err
	})
}

// removeTries and removePause bound the wait for a removal that is already in
// progress.
const (
	removeTries = 40
	removePause = 50 * time.Millisecond
)

// remove removes an object whether or not ctx has ended. While the engine says
// that the object is being removed already or still in use, it tries again:
// both pass when a container is dying.
func (c *conn) remove(ctx context.Context, kind, name string, call func(context.Context) error) error {
	cctx, cancel := cleanup(ctx)
	defer cancel()
	for tries := 0; ; tries++ {
		err := call(cctx)
		if err == nil || cerrdefs.IsNotFound(err) {
			return nil
		}
		if !cerrdefs.IsConflict(err) || cctx.Err() != nil || tries == removeTries {
			c.Log.Error("an object is left on the engine", slog.String("kind", kind), slog.String("name", name))
			return fmt.Errorf("removing %s %s: %w", kind, name, err)
		}
		time.Sleep(removePause)
	}
}

// RemoveImage removes an image by ID. An image that does not exist is not an
// error. Of two removals at once, engines let one fail with an internal error
// ("unrecognized image ID"): what counts is whether the image is still there.
func (c *conn) RemoveImage(ctx context.Context, id string) error {
	return c.remove(ctx, "image", id, func(ctx context.Context) error {
		_, err := c.API.ImageRemove(ctx, id, client.ImageRemoveOptions{})
		if !cerrdefs.IsInternal(err) {
			return err
		}
		if _, gone := c.inspectImage(ctx, id); cerrdefs.IsNotFound(gone) {
			return nil
		}
		return err
	})
}

// How often an image is inspected that another is removing, and the time between.
const (
	inspections  = 100
	inspectPause = 20 * time.Millisecond
)

// inspectImage inspects an image that another may be removing: until that is done,
// the engine fails with an internal error, such as a layer that it misses.
func (c *conn) inspectImage(ctx context.Context, id string) (res client.ImageInspectResult, err error) {
	for range inspections {
		if res, err = c.API.ImageInspect(ctx, id); !cerrdefs.IsInternal(err) {
			break
		}
		if attended.Pause(ctx, inspectPause) != nil {
			return res, err
		}
	}
	return res, err
}

// Owner is what the label of this process's objects says.
func (c *conn) Owner() string { return c.owner.String() }

// deadOwner reports whether a label names a process that is known to have ended.
func (c *conn) deadOwner(label string) bool {
	o, ok := owner.Parse(label)
	return ok && o.Dead(c.owner)
}

// owns reports whether the labels of an object name this process as its owner.
func (c *conn) owns(labels map[string]string) bool { return labels[labelOwner] == c.owner.String() }

// Reap removes the containers, volumes and images that dead processes left on
// the engine, and returns how many.
func (c *conn) Reap(ctx context.Context) (removed int, err error) {
	left, err := c.Left(ctx)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, l := range left {
		if err := c.RemoveLeft(ctx, l); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}

// Left lists the containers, volumes and images that dead processes left on the
// engine. What uses another object comes before it.
func (c *conn) Left(ctx context.Context) (left []sandbox.Leftover, err error) {
	objects, err := c.labelled(ctx)
	for _, o := range objects {
		if c.deadOwner(o.owner) {
			left = append(left, sandbox.Leftover{Kind: o.kind, Name: o.name, Size: o.size})
		}
	}
	return left, err
}

// RemoveLeft removes what Left lists.
func (c *conn) RemoveLeft(ctx context.Context, l sandbox.Leftover) error {
	remove, ok := map[string]func(context.Context, string) error{
		"container": c.removeContainer, "volume": c.removeVolume, "image": c.RemoveImage}[l.Kind]
	if !ok {
		return fmt.Errorf("the engine has no %s to remove", l.Kind)
	}
	err := remove(ctx, l.Name)
	if err == nil {
		c.Log.Info("removed an object of a dead run", slog.String(l.Kind, l.Name))
	}
	return err
}

// Owned lists the containers and images, by ID, and volumes, by name, of this
// owner.
func (c *conn) Owned(ctx context.Context) ([]string, error) {
	objects, err := c.labelled(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, object := range objects {
		if object.owner == c.owner.String() {
			names = append(names, object.name)
		}
	}
	return names, nil
}

// object is something on the engine that has an owner's label.
type object struct {
	kind, name, owner string
	size              int64 // bytes of an image, else 0
}

// labelled lists what has an owner's label. What uses another object comes
// before it.
func (c *conn) labelled(ctx context.Context) (objects []object, err error) {
	filter := client.Filters{}.Add("label", labelOwner)
	containers, err := c.API.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return nil, fmt.Errorf("listing the engine's containers: %w", err)
	}
	volumes, err := c.API.VolumeList(ctx, client.VolumeListOptions{Filters: filter})
	if err != nil {
		return nil, fmt.Errorf("listing the engine's volumes: %w", err)
	}
	images, err := c.API.ImageList(ctx, client.ImageListOptions{Filters: filter})
	if err != nil {
		return nil, fmt.Errorf("listing the engine's images: %w", err)
	}
	for _, ctr := range containers.Items {
		objects = append(objects, object{kind: "container", name: ctr.ID, owner: ctr.Labels[labelOwner]})
	}
	for _, v := range volumes.Items {
		objects = append(objects, object{kind: "volume", name: v.Name, owner: v.Labels[labelOwner]})
	}
	for _, img := range images.Items {
		objects = append(objects, object{"image", img.ID, img.Labels[labelOwner], img.Size})
	}
	return objects, nil
}
