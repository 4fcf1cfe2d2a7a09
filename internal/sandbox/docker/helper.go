package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/platform"
)

// tree is where the helper's image has the mount point of a workspace.
const tree = "/tree"

// helperBinary is the helper binary on one engine. It is safe for concurrent use.
type helperBinary struct {
	conn *conn
	file string
	arch string

	overlays bool // for each container

	mu     sync.Mutex
	image  string       // ID, once the image is there
	filled helperVolume // with the helper, once a box has asked for it
	empty  helperVolume // once a box has an overlay
}

// newHelper checks that file is a static binary for the engine's architecture. An
// empty name gives a helper that only fails. Driver is the engine's storage driver.
func newHelper(conn *conn, file, arch, driver string) (*helperBinary, error) {
	if file != "" {
		if err := platform.CheckHelper(file, arch); err != nil {
			return nil, err
		}
	}
	return &helperBinary{conn: conn, file: file, arch: arch, overlays: slices.Contains([]string{"overlay2", "overlayfs"}, driver)}, nil
}

// Image returns the ID of the image that contains only the helper, and imports
// it if the engine does not have it.
func (h *helperBinary) Image(ctx context.Context) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.imageLocked(ctx)
}

func (h *helperBinary) imageLocked(ctx context.Context) (string, error) {
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
func (h *helperBinary) load(ctx context.Context, tag string, program *os.File, want []byte) error {
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
		{Typeflag: tar.TypeDir, Name: tree[1:] + "/", Mode: 0o755},
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
func (h *helperBinary) Mount(ctx context.Context) (mount.Mount, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	image, err := h.imageLocked(ctx)
	if err != nil {
		return mount.Mount{}, err
	}
	if h.filled.name == "" {
		v, err := h.volume(ctx)
		if err == nil {
			err = h.fill(ctx, v.name, image)
		}
		if err != nil {
			return mount.Mount{}, errors.Join(fmt.Errorf("making the helper's volume: %w", err), h.remove(ctx, v))
		}
		h.filled = v
	}
	return h.own(ctx, mount.Mount{Type: mount.TypeVolume, Source: h.filled.name, Target: sandbox.HelperDir, ReadOnly: true,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true}}, h.filled.folder, h.conn.Labels(sandbox.Labels{Role: "helper"}))
}

// Own returns how a container mounts a volume as m says, but as its own: as an overlay
// over the volume's folder, if the engine makes overlays for its containers as well. A
// lock on a file that two containers have, or an event of it, is a message between them.
// The overlay is a volume that the engine makes with the container and removes with it,
// with these labels and those of an owner's object. Nothing else says that m's volume
// is in use then.
func (h *helperBinary) Own(ctx context.Context, m mount.Mount, folder string, labels map[string]string) (mount.Mount, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.conn.Labels(sandbox.Labels{Role: "overlay"})
	maps.Copy(all, labels)
	return h.own(ctx, m, folder, all)
}

func (h *helperBinary) own(ctx context.Context, m mount.Mount, folder string, labels map[string]string) (mount.Mount, error) {
	if !h.overlays {
		return m, nil
	}
	if h.empty.name == "" { // the kernel makes no overlay of a single folder
		v, err := h.volume(ctx)
		if err != nil {
			return m, errors.Join(fmt.Errorf("making an empty volume: %w", err), h.remove(ctx, v))
		}
		h.empty = v
	}
	// An overlay without an upper layer is read-only; the engine takes no other word for
	// it where it makes the volume itself.
	return mount.Mount{Type: mount.TypeVolume, Target: m.Target, VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: labels,
		DriverConfig: &mount.Driver{Name: "local", Options: map[string]string{
			"type": "overlay", "device": "overlay", "o": "ro,lowerdir=" + folder + ":" + h.empty.folder}}}}, nil
}

// helperVolume is one of the helper's volumes.
type helperVolume struct {
	name   string
	folder string // of the engine's
}

// volume makes a volume for the helper. After an error it may also be there.
func (h *helperBinary) volume(ctx context.Context) (helperVolume, error) {
	v := helperVolume{name: newName()}
	err := h.conn.createVolume(ctx, client.VolumeCreateOptions{Name: v.name, Driver: "local", Labels: h.conn.Labels(sandbox.Labels{Role: "helper"})})
	if err != nil {
		return v, err
	}
	res, err := h.conn.API.VolumeInspect(ctx, v.name, client.VolumeInspectOptions{})
	if err != nil {
		return v, fmt.Errorf("looking at volume %s: %w", v.name, err)
	}
	v.folder = res.Volume.Mountpoint
	return v, nil
}

// fill fills the helper's volume from its image.
func (h *helperBinary) fill(ctx context.Context, volume, image string) error {
	name := newName()
	err := h.conn.createContainer(ctx, client.ContainerCreateOptions{
		Name: name,
		Config: &container.Config{Image: image, Entrypoint: []string{sandbox.HelperPath}, WorkingDir: "/",
			NetworkDisabled: true, Labels: h.conn.Labels(sandbox.Labels{Role: "helper"})},
		HostConfig: &container.HostConfig{NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"},
			Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: volume, Target: sandbox.HelperDir}}},
	})
	if err != nil {
		return err
	}
	return h.conn.removeContainer(ctx, name)
}

// Volumes are the names of the volumes that last until Close.
func (h *helperBinary) Volumes() (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range []helperVolume{h.filled, h.empty} {
		if v.name != "" {
			names = append(names, v.name)
		}
	}
	return names
}

// Close removes the volumes. The image stays: other processes share it.
func (h *helperBinary) Close(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := errors.Join(h.remove(ctx, h.filled), h.remove(ctx, h.empty)); err != nil {
		return err
	}
	h.filled, h.empty = helperVolume{}, helperVolume{}
	return nil
}

func (h *helperBinary) remove(ctx context.Context, v helperVolume) error {
	if v.name == "" {
		return nil
	}
	return h.conn.removeVolume(ctx, v.name)
}
