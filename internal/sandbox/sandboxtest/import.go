package sandboxtest

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"securebench/internal/sandbox"
)

// importPrefix begins the IDs of imported images.
const importPrefix = "sha256:imported-"

func importedID(ref string) bool { return strings.HasPrefix(ref, importPrefix) }

// importedRoot is the folder of an imported image, "" if there is none.
func (e *Engine) importedRoot(id string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.imported[id]
}

// root is the root file system of an image.
func (e *Engine) root(image sandbox.Image) fs.FS {
	if dir := e.importedRoot(image.ID); dir != "" {
		return os.DirFS(dir)
	}
	return e.cfg.Root
}

// Import makes an image of an archive. Owners are not kept.
func (e *Engine) Import(ctx context.Context, _ sandbox.Labels, files io.Reader) (sandbox.Image, error) {
	if ctx.Err() != nil {
		return sandbox.Image{}, context.Cause(ctx)
	}
	dir, err := os.MkdirTemp("", "sandboxtest-")
	if err != nil {
		return sandbox.Image{}, fmt.Errorf("importing an image: %w", err)
	}
	if err := unpack(dir, files); err != nil {
		return sandbox.Image{}, errors.Join(fmt.Errorf("importing an image: %w", err), os.RemoveAll(dir))
	}
	id := importPrefix + strings.ToLower(rand.Text())
	e.mu.Lock()
	e.imported[id] = dir
	e.open++
	e.mu.Unlock()
	return e.Image(ctx, id)
}

// RemoveImage removes an imported image.
func (e *Engine) RemoveImage(_ context.Context, image sandbox.Image) error {
	if !importedID(image.ID) {
		return fmt.Errorf("removing image %q: it was not imported", image.ID)
	}
	dir := e.importedRoot(image.ID)
	if dir == "" {
		return nil
	}
	e.mu.Lock()
	delete(e.imported, image.ID)
	e.open--
	e.mu.Unlock()
	return errors.Join(openUp(dir), os.RemoveAll(dir))
}

// unpack lays an archive with links into a directory.
func unpack(dir string, files io.Reader) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for tr := tar.NewReader(files); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		if err := unpackOne(root, h, tr); err != nil {
			return fmt.Errorf("unpacking %q: %w", h.Name, err)
		}
	}
}

func unpackOne(root *os.Root, h *tar.Header, content io.Reader) error {
	name, mode := path.Clean(h.Name), h.FileInfo().Mode().Perm()
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return errors.Join(root.MkdirAll(name, 0o755), root.Chmod(name, mode))
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(path.Clean(h.Linkname), name)
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Chmod(mode), f.Close())
	}
	return fmt.Errorf("type %q", h.Typeflag)
}
