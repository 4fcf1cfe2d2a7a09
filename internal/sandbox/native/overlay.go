package native

import (
	"errors"

	"securebench/internal/sandbox/mountns"
)

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
		dir, release, err := e.keep(m.Overlay)
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
