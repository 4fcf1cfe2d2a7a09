package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"securebench/internal/sandbox"
)

// helperTree is where a holder's container has the tree.
const helperTree = "/tree"

// checkHelper refuses a helper that cannot run in an empty image on the
// engine's machine.
func checkHelper(file, arch string) error {
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("the workspace helper %s is no Linux program: %w", file, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("the workspace helper %s is dynamically linked: build it with CGO_ENABLED=0", file)
		}
	}
	if got := elfArch(f.Machine); got != arch {
		return fmt.Errorf("the workspace helper %s is for %s and the engine runs %s", file, got, arch)
	}
	return nil
}

// elfArch names a machine as Go does.
func elfArch(m elf.Machine) string {
	switch m {
	case elf.EM_X86_64:
		return "amd64"
	case elf.EM_AARCH64:
		return "arm64"
	}
	return m.String()
}

// helperImage returns the id of the image that holds the helper alone. It is
// imported when the engine does not hold it yet.
func (e *Engine) helperImage(ctx context.Context) (string, error) {
	e.helperMu.Lock()
	defer e.helperMu.Unlock()
	if e.helperID != "" {
		return e.helperID, nil
	}
	if e.helper == "" {
		return "", errors.New("the engine was configured without a workspace helper")
	}
	program, err := os.ReadFile(e.helper)
	if err != nil {
		return "", fmt.Errorf("reading the workspace helper: %w", err)
	}
	archive, err := helperArchive(program)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(archive)
	tag := "securebench-helper:" + hex.EncodeToString(sum[:6])
	id, err := e.imageID(ctx, tag)
	if cerrdefs.IsNotFound(err) {
		if err = e.importHelper(ctx, tag, archive); err == nil {
			id, err = e.imageID(ctx, tag)
		}
	}
	if err != nil {
		return "", fmt.Errorf("providing the image %s: %w", tag, err)
	}
	e.helperID = id
	return id, nil
}

func (e *Engine) imageID(ctx context.Context, ref string) (string, error) {
	res, err := e.api.ImageInspect(ctx, ref)
	return res.ID, err
}

func (e *Engine) importHelper(ctx context.Context, tag string, archive []byte) error {
	res, err := e.api.ImageImport(ctx,
		client.ImageImportSource{Source: bytes.NewReader(archive), SourceName: "-"}, tag,
		client.ImageImportOptions{Message: "workspace helper of securebench",
			Platform: ocispec.Platform{OS: "linux", Architecture: e.info.Arch}})
	if err != nil {
		return fmt.Errorf("importing it: %w", err)
	}
	defer res.Close()
	// The answer's end is the import's; its outcome shows in the image.
	if _, err := io.Copy(io.Discard, res); err != nil {
		return fmt.Errorf("importing it: %w", err)
	}
	return nil
}

// helperArchive is a root file system: the program in a folder of its own, and
// the mount point that a read-only root needs.
func helperArchive(program []byte) ([]byte, error) {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: helperTree[1:] + "/", Mode: 0o755})
	if err == nil {
		err = tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: sandbox.HelperDir[1:] + "/", Mode: 0o755})
	}
	if err == nil {
		err = tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: sandbox.HelperPath[1:], Mode: 0o755, Size: int64(len(program))})
	}
	if err == nil {
		_, err = tw.Write(program)
	}
	if err == nil {
		err = tw.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("archiving the helper: %w", err)
	}
	return b.Bytes(), nil
}

// helperMount mounts the folder of the helper read-only. The volume is made
// once per engine and filled by creating, never starting, a container of the
// helper's image. It belongs to this process like any other object: Close
// removes it, and Reap does so after the process has died.
func (e *Engine) helperMount(ctx context.Context) (mount.Mount, error) {
	m := mount.Mount{Type: mount.TypeVolume, Target: sandbox.HelperDir, ReadOnly: true,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true}}
	image, err := e.helperImage(ctx)
	if err != nil {
		return m, err
	}
	e.helperMu.Lock()
	defer e.helperMu.Unlock()
	if e.helperVolume == "" {
		name := newName()
		if err := e.fillHelperVolume(ctx, name, image); err != nil {
			return m, errors.Join(fmt.Errorf("making the helper's volume: %w", err), e.removeVolume(ctx, name))
		}
		e.helperVolume = name
	}
	m.Source = e.helperVolume
	return m, nil
}

func (e *Engine) fillHelperVolume(ctx context.Context, name, image string) error {
	labels := e.labels(sandbox.Labels{Role: "helper"})
	cctx, cancel := cancelAfter(ctx)
	defer cancel()
	if _, err := e.api.VolumeCreate(cctx, client.VolumeCreateOptions{Name: name, Driver: "local", Labels: labels}); err != nil {
		return fmt.Errorf("creating a volume: %w", err)
	}
	filler := newName()
	host := e.hardened(sandbox.Limits{}.WithDefaults())
	host.Mounts = []mount.Mount{{Type: mount.TypeVolume, Source: name, Target: sandbox.HelperDir}}
	err := e.create(ctx, client.ContainerCreateOptions{Name: filler, HostConfig: host, Config: &container.Config{
		Image: image, Entrypoint: []string{sandbox.HelperPath}, WorkingDir: "/", NetworkDisabled: true, Labels: labels}})
	if err != nil {
		return err
	}
	return e.removeContainer(ctx, filler)
}

// dropHelperVolume removes the helper's volume, if there is one.
func (e *Engine) dropHelperVolume(ctx context.Context) error {
	e.helperMu.Lock()
	defer e.helperMu.Unlock()
	if e.helperVolume == "" {
		return nil
	}
	err := e.removeVolume(ctx, e.helperVolume)
	if err == nil {
		e.helperVolume = ""
	}
	return err
}
