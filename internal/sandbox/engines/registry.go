package engines

import (
	"context"
	"errors"
	"io"
	"strings"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imagestore"
	"securebench/internal/sandbox/platform"
)

// registered is an engine on which no sandbox is made: of images that it does not have,
// it knows what their registries say.
type registered struct{ sandbox.Engine }

var _ sandbox.Looker = registered{}

// WithRegistries returns an engine that also knows images which it does not have, from
// their registries. It pulls none of them, and can make no sandbox of them: see
// [sandbox.Image.Absent].
func WithRegistries(e sandbox.Engine) sandbox.Engine {
	if trees, ok := e.(sandbox.Overlays); ok {
		return mounting{registered{e}, trees}
	}
	return registered{e}
}

// mounting is such an engine that keeps overlays.
type mounting struct {
	registered
	trees sandbox.Overlays
}

var _ sandbox.Overlays = mounting{}

// Overlay implements [sandbox.Overlays].
func (m mounting) Overlay(ctx context.Context, spec sandbox.OverlaySpec, fill func(io.Writer) error) (sandbox.Overlay, error) {
	return m.trees.Overlay(ctx, spec, fill)
}

// Overlays implements [sandbox.Overlays].
func (m mounting) Overlays(ctx context.Context) ([]sandbox.OverlaySpec, error) {
	return m.trees.Overlays(ctx)
}

// RemoveOverlay implements [sandbox.Overlays].
func (m mounting) RemoveOverlay(ctx context.Context, key string) error {
	return m.trees.RemoveOverlay(ctx, key)
}

// ours begins the names of images that no registry has.
const ours = "securebench-"

// AbsentError is the error for an image that neither the engine nor its registry has.
type AbsentError struct {
	error
	Registry error // why it is not known from there
}

// Unwrap returns what the engine says.
func (e *AbsentError) Unwrap() error { return e.error }

// Image implements [sandbox.Images].
func (e registered) Image(ctx context.Context, ref string) (sandbox.Image, error) {
	img, err := e.Engine.Image(ctx, ref)
	if !errors.Is(err, sandbox.ErrImageMissing) || strings.HasPrefix(ref, "sha256:") || strings.HasPrefix(ref, ours) && !strings.Contains(ref, "/") {
		return img, err
	}
	info := e.Info()
	d, why := imagestore.Describe(ctx, ref, platform.New(info.OS, info.Arch, ""))
	if why != nil && !errors.Is(why, sandbox.ErrUnusable) {
		return img, &AbsentError{err, why}
	}
	if info.ByManifest {
		d.ID = d.Manifest
	}
	return d.Image, why
}

// Look implements [sandbox.Looker]. In an image that the engine does not have, it sees
// nothing.
func (e registered) Look(ctx context.Context, image sandbox.Image, path string) (sandbox.Sight, error) {
	if looker, ok := e.Engine.(sandbox.Looker); ok && !image.Absent {
		return looker.Look(ctx, image, path)
	}
	return sandbox.Sight{}, nil
}
