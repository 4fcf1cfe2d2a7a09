package enginetest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// ArchiveOut reads what a sandbox of a run has mounted at a path with the
// engine's own archive of it, and returns how many bytes that has. It is the
// floor of what reading a workspace can cost.
func ArchiveOut(t testing.TB, run, path string) (n int64) {
	t.Helper()
	err := onMount(context.WithoutCancel(t.Context()), run, path, func(ctx context.Context, api *client.Client, id string) error {
		res, err := api.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: path})
		if err != nil {
			return err
		}
		defer res.Content.Close()
		n, err = io.Copy(io.Discard, res.Content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ArchiveIn unpacks an archive below a path at which a sandbox of a run has
// something mounted, with the engine's own means. It is the floor of what filling
// a workspace can cost.
func ArchiveIn(t testing.TB, run, path string, archive interface{ Open() (io.ReadCloser, error) }) {
	t.Helper()
	err := onMount(context.WithoutCancel(t.Context()), run, path, func(ctx context.Context, api *client.Client, id string) error {
		content, err := archive.Open()
		if err != nil {
			return err
		}
		defer content.Close()
		_, err = api.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: path, Content: content})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// onMount does something with the container of a run that has something mounted
// at a path.
func onMount(ctx context.Context, run, path string, do func(ctx context.Context, api *client.Client, id string) error) error {
	api, err := client.New(client.FromEnv)
	if err != nil {
		return fmt.Errorf("connecting to the engine: %w", err)
	}
	defer api.Close()
	list, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", "securebench.run="+run)})
	if err != nil {
		return fmt.Errorf("listing containers: %w", err)
	}
	i := slices.IndexFunc(list.Items, func(c container.Summary) bool {
		return slices.ContainsFunc(c.Mounts, func(m container.MountPoint) bool { return m.Destination == path })
	})
	if i < 0 {
		return fmt.Errorf("no container of run %s has something mounted at %s", run, path)
	}
	if err := do(ctx, api, list.Items[i].ID); err != nil {
		return fmt.Errorf("copying %s of a container: %w", path, err)
	}
	return nil
}
