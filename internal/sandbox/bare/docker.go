package bare

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
)

// closeTime bounds the removal of a container or a volume.
const closeTime = 30 * time.Second

// Docker makes sandboxes with the calls of the Docker API. It is safe for concurrent use.
type Docker struct {
	api   *client.Client
	image string
}

// NewDocker connects to the engine that the environment names.
func NewDocker(image string) (*Docker, error) {
	api, err := client.New(client.FromEnv)
	if err != nil {
		return nil, fmt.Errorf("connecting to the bare engine: %w", err)
	}
	return &Docker{api, image}, nil
}

// Name says what the floor is.
func (f *Docker) Name() string { return "the Docker API by hand, same options" }

// Close disconnects.
func (f *Docker) Close() error { return f.api.Close() }

// Cycle makes, runs and removes one container whose command is "true".
func (f *Docker) Cycle(ctx context.Context) error {
	return f.run(ctx, "securebench-floor-"+rand.Text(), nil, "true")
}

// Task makes what one task needs by design: a bounded volume with a holder, and
// one container after another for the commands. The first one mounts the volume.
func (f *Docker) Task(ctx context.Context, commands ...[]string) (err error) {
	id := "securebench-floor-" + rand.Text()
	_, err = f.api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: id, Driver: "local", DriverOpts: map[string]string{
		"type": "tmpfs", "device": "tmpfs", "o": fmt.Sprintf("size=%d", sandbox.Limits{}.WithDefaults().Disk)}})
	if err != nil {
		return fmt.Errorf("creating the floor's volume: %w", err)
	}
	defer func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer stop()
		if _, failed := f.api.VolumeRemove(ctx, id, client.VolumeRemoveOptions{Force: true}); failed != nil {
			err = errors.Join(err, fmt.Errorf("removing the floor's volume: %w", failed))
		}
	}()
	mounts := []mount.Mount{{Type: mount.TypeVolume, Source: id, Target: target, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}}
	if err := f.create(ctx, id+"-holder", mounts, "sleep", "1000"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.remove(ctx, id+"-holder")) }()
	if err := f.start(ctx, id+"-holder"); err != nil {
		return err
	}
	for i, argv := range commands {
		if err := f.run(ctx, fmt.Sprintf("%s-%d", id, i), mounts, argv...); err != nil {
			return err
		}
		mounts = nil
	}
	return nil
}

// run runs a command in a container of its own, with its output attached.
func (f *Docker) run(ctx context.Context, name string, mounts []mount.Mount, argv ...string) (err error) {
	if err := f.create(ctx, name, mounts, argv...); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.remove(ctx, name)) }()
	conn, err := f.api.ContainerAttach(ctx, name, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		return fmt.Errorf("attaching to the floor's container: %w", err)
	}
	defer conn.Close()
	wait := f.api.ContainerWait(ctx, name, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if err := f.start(ctx, name); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, conn.Reader); err != nil {
		return fmt.Errorf("reading what the floor's container prints: %w", err)
	}
	select {
	case end := <-wait.Result:
		if end.StatusCode != 0 {
			return fmt.Errorf("the floor's container ended with exit code %d", end.StatusCode)
		}
	case err := <-wait.Error:
		return fmt.Errorf("waiting for the floor's container: %w", err)
	}
	return nil
}

// create makes a container with the options of the Docker engine's boxes.
func (f *Docker) create(ctx context.Context, name string, mounts []mount.Mount, argv ...string) error {
	l, dir := sandbox.Limits{}.WithDefaults(), "/"
	if len(mounts) > 0 {
		dir = target
	}
	_, err := f.api.ContainerCreate(ctx, client.ContainerCreateOptions{Name: name,
		Config: &container.Config{Image: f.image, Entrypoint: argv, WorkingDir: dir, AttachStdout: true, AttachStderr: true},
		HostConfig: &container.HostConfig{NetworkMode: "none", IpcMode: container.IPCModePrivate, CgroupnsMode: container.CgroupnsModePrivate,
			CapDrop: []string{"ALL"}, ReadonlyRootfs: true, SecurityOpt: []string{"no-new-privileges:true"},
			Tmpfs:     map[string]string{"/tmp": fmt.Sprintf("rw,nosuid,nodev,size=%d,nr_inodes=%d", l.Disk, l.Files)},
			Mounts:    mounts,
			LogConfig: container.LogConfig{Type: "none"},
			Resources: container.Resources{Memory: l.Memory + l.Disk, MemorySwap: l.Memory + l.Disk, NanoCPUs: int64(l.CPUs * 1e9), PidsLimit: &l.Pids}},
	})
	if err != nil {
		return fmt.Errorf("creating the floor's container: %w", err)
	}
	return nil
}

func (f *Docker) start(ctx context.Context, name string) error {
	if _, err := f.api.ContainerStart(ctx, name, client.ContainerStartOptions{}); err != nil {
		return fmt.Errorf("starting the floor's container: %w", err)
	}
	return nil
}

// remove removes a container, also after ctx has ended.
func (f *Docker) remove(ctx context.Context, name string) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer stop()
	if _, err := f.api.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
		return fmt.Errorf("removing the floor's container: %w", err)
	}
	return nil
}
