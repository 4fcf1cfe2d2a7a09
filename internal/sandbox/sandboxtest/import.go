package sandboxtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imagestore/layer"
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
	if _, err := layer.Unpack(ctx, files, dir, layer.Options{Limits: layer.DefaultLimits()}); err != nil {
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
