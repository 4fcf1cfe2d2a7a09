// Package helper puts the helper binary on a Docker engine: as an image of its
// own, in which it serves workspaces, and as a volume, from which other
// containers start it.
package helper

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/docker/dockerapi"
	"securebench/internal/sandbox/helperfile"
)

// Tree is where the helper's image has the mount point of a workspace.
const Tree = "/tree"

// Helper is the helper binary on one engine. It is safe for concurrent use.
type Helper struct {
	conn *dockerapi.Conn
	file string
	arch string

	mu     sync.Mutex
	image  string // ID, once the image is there
	volume string // name, once a box has asked for it
}

// New checks that file is a static binary for the engine's architecture. An
// empty name gives a helper that only fails.
func New(conn *dockerapi.Conn, file, arch string) (*Helper, error) {
	if file != "" {
		if err := helperfile.Check(file, arch); err != nil {
			return nil, err
		}
	}
	return &Helper{conn: conn, file: file, arch: arch}, nil
}

// Image returns the ID of the image that contains only the helper, and imports
// it if the engine does not have it.
func (h *Helper) Image(ctx context.Context) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.imageLocked(ctx)
}

func (h *Helper) imageLocked(ctx context.Context) (string, error) {
	if h.image != "" {
		return h.image, nil
	}
	if h.file == "" {
		return "", errors.New("the engine was configured without a helper")
	}
	program, err := os.Open(h.file)
	if err != nil {
		return "", fmt.Errorf("reading the helper: %w", err)
	}
	defer program.Close()
	sum := sha256.New()
	if err := archive(sum, program); err != nil {
		return "", err
	}
	tag := "securebench-helper:" + hex.EncodeToString(sum.Sum(nil)[:6])
	res, err := h.conn.API.ImageInspect(ctx, tag)
	if cerrdefs.IsNotFound(err) {
		if err = h.load(ctx, tag, program, sum.Sum(nil)); err == nil {
			res, err = h.conn.API.ImageInspect(ctx, tag)
		}
	}
	if err != nil {
		return "", fmt.Errorf("providing the image %s: %w", tag, err)
	}
	h.image = res.ID
	return h.image, nil
}

// load imports the image. It is streamed: the binary would otherwise stay in memory
// twice.
func (h *Helper) load(ctx context.Context, tag string, program *os.File, want []byte) error {
	root, w := io.Pipe()
	ended, sum := make(chan struct{}), sha256.New()
	go func() {
		defer close(ended)
		err := archive(io.MultiWriter(w, sum), program)
		if err == nil && !bytes.Equal(sum.Sum(nil), want) {
			err = errors.New("the helper has changed meanwhile")
		}
		_ = w.CloseWithError(err) // never fails
	}()
	defer func() {
		_ = root.Close() // an import that failed has not read everything
		<-ended
	}()
	res, err := h.conn.API.ImageImport(ctx, client.ImageImportSource{Source: root, SourceName: "-"}, tag,
		client.ImageImportOptions{Message: "helper of securebench",
			Platform: ocispec.Platform{OS: "linux", Architecture: h.arch}})
	if err != nil {
		return fmt.Errorf("importing it: %w", err)
	}
	defer res.Close()
	// The import ends with the response; whether it worked shows in the image.
	if _, err := io.Copy(io.Discard, res); err != nil {
		return fmt.Errorf("importing it: %w", err)
	}
	return nil
}

// archive writes a root file system: the program in a folder of its own, and the
// mount point that a read-only root needs.
func archive(w io.Writer, program *os.File) error {
	info, err := program.Stat()
	if err == nil {
		_, err = program.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("reading the helper: %w", err)
	}
	tw := tar.NewWriter(w)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: Tree[1:] + "/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: sandbox.HelperDir[1:] + "/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: sandbox.HelperPath[1:], Mode: 0o755, Size: info.Size()},
	} {
		if err := tw.WriteHeader(&h); err != nil {
			return fmt.Errorf("archiving the helper: %w", err)
		}
	}
	if _, err := io.Copy(tw, program); err != nil {
		return fmt.Errorf("archiving the helper: %w", err)
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("archiving the helper: %w", err)
	}
	return nil
}

// Mount mounts the helper's folder read-only at [sandbox.HelperDir]. Its
// volume is made once per engine and filled by creating, never starting, a
// container of the helper's image. It belongs to this process like any other
// object: Close removes it, and reaping does if the process dies. A volume
// shared by processes could be half filled or removed by one of them.
func (h *Helper) Mount(ctx context.Context) (mount.Mount, error) {
	m := mount.Mount{Type: mount.TypeVolume, Target: sandbox.HelperDir, ReadOnly: true,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true}}
	h.mu.Lock()
	defer h.mu.Unlock()
	image, err := h.imageLocked(ctx)
	if err != nil {
		return m, err
	}
	if h.volume == "" {
		name := dockerapi.NewName()
		if err := h.fill(ctx, name, image); err != nil {
			return m, errors.Join(fmt.Errorf("making the helper's volume: %w", err), h.conn.RemoveVolume(ctx, name))
		}
		h.volume = name
	}
	m.Source = h.volume
	return m, nil
}

func (h *Helper) fill(ctx context.Context, volume, image string) error {
	labels := h.conn.Labels(sandbox.Labels{Role: "helper"})
	if err := h.conn.CreateVolume(ctx, client.VolumeCreateOptions{Name: volume, Driver: "local", Labels: labels}); err != nil {
		return err
	}
	name := dockerapi.NewName()
	err := h.conn.CreateContainer(ctx, client.ContainerCreateOptions{
		Name: name,
		Config: &container.Config{Image: image, Entrypoint: []string{sandbox.HelperPath}, WorkingDir: "/",
			NetworkDisabled: true, Labels: labels},
		HostConfig: &container.HostConfig{NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"},
			Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: volume, Target: sandbox.HelperDir}}},
	})
	if err != nil {
		return err
	}
	return h.conn.RemoveContainer(ctx, name)
}

// Volume is the name of the volume, "" if there is none.
func (h *Helper) Volume() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.volume
}

// Close removes the volume. The image stays: other processes share it.
func (h *Helper) Close(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.volume == "" {
		return nil
	}
	if err := h.conn.RemoveVolume(ctx, h.volume); err != nil {
		return err
	}
	h.volume = ""
	return nil
}
