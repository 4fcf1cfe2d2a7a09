package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imagestore/layer"
)

// overlay is a folder on this machine.
type overlay struct {
	engine *Engine
	spec   sandbox.OverlaySpec
	dir    string
	users  int // boxes that are open
}

// OverlayKey implements [sandbox.Overlay].
func (o *overlay) OverlayKey() string { return o.spec.Key }

// Overlay implements [sandbox.Overlays]. Owners are not kept.
func (e *Engine) Overlay(ctx context.Context, spec sandbox.OverlaySpec, fill func(io.Writer) error) (sandbox.Overlay, error) {
	if err := spec.Check(); err != nil {
		return nil, fmt.Errorf("making an overlay: %w", err)
	}
	e.filling.Lock()
	defer e.filling.Unlock()
	e.mu.Lock()
	there := e.overlays[spec.Key]
	e.mu.Unlock()
	if there != nil {
		return there, nil
	}
	dir, err := os.MkdirTemp("", "sandboxtest-")
	if err != nil {
		return nil, fmt.Errorf("making an overlay: %w", err)
	}
	err = sandbox.FillOverlay(fill, func(content io.Reader) error {
		_, err := layer.Unpack(ctx, content, dir, layer.Options{Limits: layer.DefaultLimits()})
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("filling an overlay: %w", err), openUp(dir), os.RemoveAll(dir))
	}
	o := &overlay{engine: e, spec: spec, dir: dir}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.overlays[spec.Key] = o
	return o, nil
}

// Overlays implements [sandbox.Overlays].
func (e *Engine) Overlays(context.Context) (all []sandbox.OverlaySpec, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range e.overlays {
		all = append(all, o.spec)
	}
	slices.SortFunc(all, func(a, b sandbox.OverlaySpec) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}

// RemoveOverlay implements [sandbox.Overlays].
func (e *Engine) RemoveOverlay(_ context.Context, key string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	o := e.overlays[key]
	switch {
	case o == nil:
		return nil
	case o.users > 0:
		return fmt.Errorf("removing the overlay %s: a sandbox uses it", key)
	}
	delete(e.overlays, key)
	return errors.Join(openUp(o.dir), os.RemoveAll(o.dir))
}

// use counts the boxes that mount overlays.
func (e *Engine) use(mounts []sandbox.Mount, by int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range mounts {
		if o, ok := m.Overlay.(*overlay); ok {
			o.users += by
		}
	}
}
