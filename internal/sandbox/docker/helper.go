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
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// helperPath is where the helper lies in its image, and helperTree where the
// tree is mounted.
const (
	helperPath = "/securebench"
	helperTree = "/tree"
)

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
	sum := sha256.Sum256(program)
	tag := "securebench-helper:" + hex.EncodeToString(sum[:6])
	id, err := e.imageID(ctx, tag)
	if cerrdefs.IsNotFound(err) {
		if err = e.importHelper(ctx, tag, program); err == nil {
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

func (e *Engine) importHelper(ctx context.Context, tag string, program []byte) error {
	archive, err := helperArchive(program)
	if err != nil {
		return err
	}
	res, err := e.api.ImageImport(ctx,
		client.ImageImportSource{Source: archive, SourceName: "-"}, tag,
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

// helperArchive is a root file system: the program, and the mount point that
// a read-only root needs.
func helperArchive(program []byte) (io.Reader, error) {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: helperTree[1:] + "/", Mode: 0o755})
	if err == nil {
		err = tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: helperPath[1:], Mode: 0o755, Size: int64(len(program))})
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
	return &b, nil
}
