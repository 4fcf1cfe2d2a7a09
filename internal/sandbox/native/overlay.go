package native

import (
	"context"
	"errors"
	"io"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/mountns"
)

var _ sandbox.Overlays = (*Engine)(nil)

// Overlay implements [sandbox.Overlays].
func (e *Engine) Overlay(ctx context.Context, spec sandbox.OverlaySpec, fill func(io.Writer) error) (sandbox.Overlay, error) {
	return e.overlays.Overlay(ctx, spec, fill)
}

// Overlays implements [sandbox.Overlays].
func (e *Engine) Overlays(ctx context.Context) ([]sandbox.OverlaySpec, error) {
	return e.overlays.Overlays(ctx)
}

// RemoveOverlay implements [sandbox.Overlays].
func (e *Engine) RemoveOverlay(ctx context.Context, key string) error {
	return e.overlays.RemoveOverlay(ctx, key)
}

// program is the folder of an overlay that a box uses.
type program struct {
	dir     string // of the host
	at      string // in the namespace
	release func() error
}

// useOverlays keeps the overlays of the box from being removed, and mounts their
// folders.
func (b *box) useOverlays() error {
	e := b.engine
	for _, m := range b.spec.Mounts {
		if m.Overlay == nil {
			continue
		}
		dir, release, err := e.overlays.Use(m.Overlay)
		if err != nil {
			return err
		}
		p := program{dir: dir, release: release}
		if p.at, err = e.shared.Use(dir); err != nil {
			return errors.Join(err, release())
		}
		b.programs = append(b.programs, p)
	}
	return nil
}

// mountOverlay mounts the next overlay for the box, without a trace of where it is.
// It runs in the namespace.
func (b *box) mountOverlay(at string) error {
	p := b.programs[b.overlaid]
	b.overlaid++
	return mountns.Overlay(at, []string{b.engine.path(emptyDir), p.at}, "", "")
}

// dropOverlays ends the use of overlays, whose mounts are gone.
func (b *box) dropOverlays() error {
	var errs []error
	for _, p := range b.programs {
		errs = append(errs, b.engine.shared.Drop(p.dir), p.release())
	}
	b.programs = nil
	return errors.Join(errs...)
}
