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
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imageconfig"
	"securebench/internal/sandbox/platform"
)

// imageStore is the images of an engine. It is safe for concurrent use.
type imageStore struct {
	conn *conn

	mu      sync.Mutex
	known   map[string]facts // by ID
	folders map[folder]bool  // whether it exists
}

// facts is what is known of an image.
type facts struct {
	Image   sandbox.Image
	Volumes []string // declared mount points, sorted
}

type folder struct{ image, path string }

// newImages makes a store.
func newImages(conn *conn) *imageStore {
	return &imageStore{conn: conn, known: make(map[string]facts), folders: make(map[folder]bool)}
}

// Image implements [sandbox.Images]. A user that the image names is looked up
// in the image's own /etc/passwd and /etc/group.
func (s *imageStore) Image(ctx context.Context, ref string) (sandbox.Image, error) {
	facts, err := s.inspect(ctx, ref)
	if err != nil && !errors.Is(err, sandbox.ErrUnusable) {
		return sandbox.Image{}, err
	}
	facts.Image.Ref = ref
	return facts.Image, err
}

// Facts returns what is known of an image by ID. It asks the engine once.
func (s *imageStore) Facts(ctx context.Context, id string) (facts, error) {
	s.mu.Lock()
	facts, ok := s.known[id]
	s.mu.Unlock()
	if ok {
		return facts, nil
	}
	return s.inspect(ctx, id)
}

func (s *imageStore) inspect(ctx context.Context, ref string) (facts, error) {
	res, err := s.conn.API.ImageInspect(ctx, ref)
	if cerrdefs.IsNotFound(err) {
		return facts{}, fmt.Errorf("image %q: %w", ref, sandbox.ErrImageMissing)
	}
	if err != nil {
		return facts{}, fmt.Errorf("inspecting image %q: %w", ref, err)
	}
	s.mu.Lock()
	facts, ok := s.known[res.ID]
	s.mu.Unlock()
	if ok {
		return facts, nil
	}
	on := platform.New(res.Os, res.Architecture, res.Variant)
	facts.Image = sandbox.Image{ID: res.ID, OS: on.OS, Arch: on.Arch, Variant: on.Variant}
	if len(res.RepoDigests) > 0 {
		facts.Image.Digest = slices.Min(res.RepoDigests)
	}
	user := ""
	if res.Config != nil {
		user = res.Config.User
		facts.Volumes = slices.Sorted(maps.Keys(res.Config.Volumes))
		facts.Image.Env = imageconfig.VariableNames(res.Config.Env)
		facts.Image.Path = imageconfig.SearchPath(res.Config.Env)
	}
	if res.Config != nil {
		err = imageconfig.CheckVariables(res.Config.Env)
	}
	if err == nil {
		facts.Image.User, err = s.User(ctx, facts.Image, user)
	}
	if err != nil {
		facts.Image.User = sandbox.Nobody
		return facts, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[res.ID] = facts
	return facts, nil
}

// User implements [sandbox.Images].
func (s *imageStore) User(ctx context.Context, image sandbox.Image, name string) (sandbox.User, error) {
	if u, ok := imageconfig.NumericUser(name); ok {
		return u, nil
	}
	var passwd, group []byte
	err := s.read(ctx, image.ID, func(container string) (err error) {
		if passwd, err = s.copyFile(ctx, container, "/etc/passwd"); err != nil {
			return err
		}
		group, err = s.copyFile(ctx, container, "/etc/group")
		return err
	})
	var u sandbox.User
	if err == nil {
		u, err = imageconfig.LookupUser(name, passwd, group)
	}
	if err != nil {
		return sandbox.User{}, fmt.Errorf("looking up user %q of image %s: %w", name, image.ID, err)
	}
	return u, nil
}

// hasFolder reports whether an image has a folder. It asks the engine once.
func (s *imageStore) hasFolder(ctx context.Context, id, path string) (bool, error) {
	key := folder{id, path}
	s.mu.Lock()
	has, ok := s.folders[key]
	s.mu.Unlock()
	if ok {
		return has, nil
	}
	err := s.read(ctx, id, func(container string) error {
		res, err := s.conn.API.ContainerStatPath(ctx, container, client.ContainerStatPathOptions{Path: path})
		if err != nil && !cerrdefs.IsNotFound(err) {
			return fmt.Errorf("looking for %s: %w", path, err)
		}
		has = err == nil && res.Stat.Mode.IsDir()
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("reading image %s: %w", id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folders[key] = has
	return has, nil
}

// Look implements [sandbox.Looker].
func (s *imageStore) Look(ctx context.Context, image sandbox.Image, path string) (seen sandbox.Sight, err error) {
	err = s.read(ctx, image.ID, func(container string) error {
		res, err := s.conn.API.ContainerStatPath(ctx, container, client.ContainerStatPathOptions{Path: path})
		switch {
		case cerrdefs.IsNotFound(err):
			return nil
		case err != nil && s.loops(ctx, container, path):
			seen.Type = sandbox.Symlink
			return nil
		case err != nil:
			return fmt.Errorf("looking at %s: %w", path, err)
		}
		seen.Type = sandbox.TypeOf(res.Stat.Mode)
		if seen.Type == sandbox.Symlink {
			seen.Link = res.Stat.LinkTarget
		}
		return nil
	})
	if err != nil {
		return sandbox.Sight{}, fmt.Errorf("reading image %s: %w", image.ID, err)
	}
	return seen, nil
}

// loops reports whether the engine cannot look at a link because it leads back to
// itself. There is no code for that, and answers to looks have no text.
func (s *imageStore) loops(ctx context.Context, container, path string) bool {
	res, err := s.conn.API.CopyFromContainer(ctx, container, client.CopyFromContainerOptions{SourcePath: path})
	if err == nil {
		_ = res.Content.Close()
		return false
	}
	return strings.Contains(err.Error(), "too many links")
}

// read calls f with a container of the image, which is never started.
func (s *imageStore) read(ctx context.Context, id string, f func(container string) error) error {
	name := newName()
	err := s.conn.createContainer(ctx, client.ContainerCreateOptions{
		Name: name,
		Config: &container.Config{Image: id, Entrypoint: []string{"/"}, WorkingDir: "/", NetworkDisabled: true,
			Labels: s.conn.Labels(sandbox.Labels{Role: "lookup"})},
		HostConfig: &container.HostConfig{NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"}},
	})
	if err != nil {
		return err
	}
	return errors.Join(f(name), s.conn.removeContainer(ctx, name))
}

// maxAccounts bounds an account file in bytes: the image may be hostile.
const maxAccounts = 1 << 20

// copyFile reads one regular file. A missing one is empty.
func (s *imageStore) copyFile(ctx context.Context, container, path string) ([]byte, error) {
	res, err := s.conn.API.CopyFromContainer(ctx, container, client.CopyFromContainerOptions{SourcePath: path})
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
		return nil, sandbox.Unusable(errors.New("it is not a regular file"))
	}
	if h.Size > limit {
		return nil, sandbox.Unusable(fmt.Errorf("it is larger than %d bytes", limit))
	}
	b, err := io.ReadAll(io.LimitReader(tr, limit))
	if err != nil {
		return nil, err
	}
	if _, err := tr.Next(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the archive has more than one file")
	}
	return b, nil
}
