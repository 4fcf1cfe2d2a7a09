package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
)

// imageFacts is what is known of an image.
type imageFacts struct {
	image   sandbox.Image
	volumes []string // declared mount points, sorted
}

// Image looks an image up. A user that the image gives by name is looked up
// in the image's own /etc/passwd and /etc/group. The error of a missing image
// wraps [sandbox.ErrImageMissing].
func (e *Engine) Image(ctx context.Context, ref string) (sandbox.Image, error) {
	facts, err := e.inspectImage(ctx, ref)
	if err != nil {
		return sandbox.Image{}, err
	}
	facts.image.Ref = ref
	return facts.image, nil
}

func (e *Engine) inspectImage(ctx context.Context, ref string) (imageFacts, error) {
	res, err := e.api.ImageInspect(ctx, ref)
	if cerrdefs.IsNotFound(err) {
		return imageFacts{}, fmt.Errorf("image %q: %w", ref, sandbox.ErrImageMissing)
	}
	if err != nil {
		return imageFacts{}, fmt.Errorf("inspecting image %q: %w", ref, err)
	}
	e.mu.Lock()
	facts, ok := e.images[res.ID]
	e.mu.Unlock()
	if ok {
		return facts, nil
	}
	facts.image = sandbox.Image{ID: res.ID, OS: res.Os, Arch: res.Architecture}
	if len(res.RepoDigests) > 0 {
		facts.image.Digest = slices.Min(res.RepoDigests)
	}
	user := ""
	if res.Config != nil {
		user = res.Config.User
		facts.volumes = slices.Sorted(maps.Keys(res.Config.Volumes))
		facts.image.Env = names(res.Config.Env)
	}
	if facts.image.User, err = e.User(ctx, facts.image, user); err != nil {
		return imageFacts{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.images[res.ID] = facts
	return facts, nil
}

// names returns the sorted names of variables.
func names(env []string) []string {
	var out []string
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// facts returns what is known of an image by id, asking at most once.
func (e *Engine) facts(ctx context.Context, id string) (imageFacts, error) {
	e.mu.Lock()
	facts, ok := e.images[id]
	e.mu.Unlock()
	if ok {
		return facts, nil
	}
	return e.inspectImage(ctx, id)
}

// User finds the numbers of a user as an image's configuration names it:
// "", "user", "uid", "user:group" and so on. Names, and the group of a user
// given alone, are looked up in the image, without running anything of it.
func (e *Engine) User(ctx context.Context, image sandbox.Image, name string) (sandbox.User, error) {
	if u, ok := numericUser(name); ok {
		return u, nil
	}
	passwd, group, err := e.accounts(ctx, image.ID)
	if err != nil {
		return sandbox.User{}, fmt.Errorf("looking up user %q of image %s: %w", name, image.ID, err)
	}
	u, err := lookupUser(name, passwd, group)
	if err != nil {
		return sandbox.User{}, fmt.Errorf("looking up user %q of image %s: %w", name, image.ID, err)
	}
	return u, nil
}

// accounts reads the account files through a container that is never started.
func (e *Engine) accounts(ctx context.Context, id string) (passwd, group []byte, err error) {
	name := newName()
	defer func() {
		err = errors.Join(err, e.removeContainer(ctx, name))
	}()
	cctx, cancel := cancelAfter(ctx)
	defer cancel()
	_, err = e.api.ContainerCreate(cctx, client.ContainerCreateOptions{
		Name: name,
		Config: &container.Config{Image: id, Entrypoint: []string{"/"}, NetworkDisabled: true,
			Labels: e.labels(sandbox.Labels{Role: "lookup"})},
		HostConfig: &container.HostConfig{NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"}},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("creating a container: %w", err)
	}
	if passwd, err = e.copyFile(ctx, name, "/etc/passwd"); err != nil {
		return nil, nil, err
	}
	group, err = e.copyFile(ctx, name, "/etc/group")
	return passwd, group, err
}

// maxAccounts bounds an account file in bytes.
const maxAccounts = 1 << 20

// copyFile reads one regular file; one that is missing is empty.
func (e *Engine) copyFile(ctx context.Context, name, path string) ([]byte, error) {
	res, err := e.api.CopyFromContainer(ctx, name, client.CopyFromContainerOptions{SourcePath: path})
	if cerrdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s of the image: %w", path, err)
	}
	defer res.Content.Close()
	b, err := onlyFile(res.Content, maxAccounts)
	if err != nil {
		return nil, fmt.Errorf("reading %s of the image: %w", path, err)
	}
	return b, nil
}

// onlyFile returns the content of an archive that is one regular file of at
// most limit bytes.
func onlyFile(archive io.Reader, limit int64) ([]byte, error) {
	tr := tar.NewReader(archive)
	h, err := tr.Next()
	if err != nil {
		return nil, fmt.Errorf("opening the archive: %w", err)
	}
	if h.Typeflag != tar.TypeReg {
		return nil, errors.New("it is no regular file")
	}
	if h.Size > limit {
		return nil, fmt.Errorf("it is larger than %d bytes", limit)
	}
	b, err := io.ReadAll(io.LimitReader(tr, limit))
	if err != nil {
		return nil, err
	}
	if _, err := tr.Next(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the archive holds more than one file")
	}
	return b, nil
}
