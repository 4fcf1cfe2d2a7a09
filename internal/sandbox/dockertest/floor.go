package dockertest

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
)

// Floor measures the bare engine: the sandboxes that one task needs by design,
// made without this project's code. They are a bounded volume with its holder,
// an agent that mounts it, and a candidate sandbox. Every command is
// "true".
type Floor struct {
	api   *client.Client
	image string
}

// NewFloor connects to the engine.
func NewFloor(t testing.TB, img sandbox.Image) *Floor {
	t.Helper()
	api, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { api.Close() })
	return &Floor{api, img.ID}
}

// Task makes, runs and removes the sandboxes of one task, one after another.
func (f *Floor) Task(ctx context.Context) error {
	id := "securebench-floor-" + rand.Text()
	l := sandbox.Limits{}.WithDefaults()
	_, err := f.api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: id, Driver: "local", DriverOpts: map[string]string{
		"type": "tmpfs", "device": "tmpfs", "o": fmt.Sprintf("size=%d", l.Disk)}})
	if err != nil {
		return fmt.Errorf("creating the floor's volume: %w", err)
	}
	volume := []mount.Mount{{Type: mount.TypeVolume, Source: id, Target: "/workspace", VolumeOptions: &mount.VolumeOptions{NoCopy: true}}}
	if err := f.start(ctx, id+"-holder", volume, "sleep", "1000"); err != nil {
		return err
	}
	for name, mounts := range map[string][]mount.Mount{"-agent": volume, "-verifier": nil} {
		if err := f.run(ctx, id+name, mounts); err != nil {
			return err
		}
	}
	if err := f.remove(ctx, id+"-holder"); err != nil {
		return err
	}
	if _, err := f.api.VolumeRemove(ctx, id, client.VolumeRemoveOptions{}); err != nil {
		return fmt.Errorf("creating the floor's volume: %w", err)
	}
	return nil
}

func (f *Floor) start(ctx context.Context, name string, mounts []mount.Mount, argv ...string) error {
	l := sandbox.Limits{}.WithDefaults()
	_, err := f.api.ContainerCreate(ctx, client.ContainerCreateOptions{Name: name,
		Config: &container.Config{Image: f.image, Entrypoint: argv},
		HostConfig: &container.HostConfig{NetworkMode: "none", CapDrop: []string{"ALL"}, ReadonlyRootfs: true,
			SecurityOpt: []string{"no-new-privileges:true"}, Tmpfs: map[string]string{"/tmp": ""}, Mounts: mounts,
			LogConfig: container.LogConfig{Type: "none"},
			Resources: container.Resources{Memory: l.Memory, NanoCPUs: 1e9, PidsLimit: &l.Pids}},
	})
	if err == nil {
		_, err = f.api.ContainerStart(ctx, name, client.ContainerStartOptions{})
	}
	if err != nil {
		return fmt.Errorf("running the floor's container: %w", err)
	}
	return nil
}

func (f *Floor) run(ctx context.Context, name string, mounts []mount.Mount) error {
	if err := f.start(ctx, name, mounts, "true"); err != nil {
		return err
	}
	w := f.api.ContainerWait(ctx, name, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-w.Result:
	case err := <-w.Error:
		return fmt.Errorf("running the floor's container: %w", err)
	}
	return f.remove(ctx, name)
}

func (f *Floor) remove(ctx context.Context, name string) error {
	if _, err := f.api.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
		return fmt.Errorf("running the floor's container: %w", err)
	}
	return nil
}
