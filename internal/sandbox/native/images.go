package native

import (
	"context"
	"io"

	"securebench/internal/sandbox"
)

var (
	_ sandbox.Importer = (*Engine)(nil)
	_ sandbox.Looker   = (*Engine)(nil)
)

// Image implements [sandbox.Images].
func (e *Engine) Image(ctx context.Context, ref string) (sandbox.Image, error) {
	return e.images.Image(ctx, ref)
}

// User implements [sandbox.Images].
func (e *Engine) User(ctx context.Context, image sandbox.Image, name string) (sandbox.User, error) {
	return e.images.User(ctx, image, name)
}

// Look implements [sandbox.Looker].
func (e *Engine) Look(ctx context.Context, image sandbox.Image, path string) (sandbox.Sight, error) {
	return e.images.Look(ctx, image, path)
}

// Import implements [sandbox.Importer].
func (e *Engine) Import(ctx context.Context, labels sandbox.Labels, files io.Reader) (sandbox.Image, error) {
	return e.images.Import(ctx, labels, files)
}

// RemoveImage implements [sandbox.Importer].
func (e *Engine) RemoveImage(ctx context.Context, image sandbox.Image) error {
	return e.images.RemoveImage(ctx, image)
}
