package imagestore

import (
	"context"
	"fmt"
)

// Pull adds an image from a registry. The error of one that is asked too much, or is out
// of order, wraps [sandbox.ErrBusy].
// Credentials are those of the Docker command.
func (s *Store) Pull(ctx context.Context, ref string, a Addition) (Image, error) {
	img, err := s.pull(ctx, ref, a)
	if err != nil {
		return Image{}, fmt.Errorf("pulling image %q: %w", ref, oneLine(busy(err)))
	}
	return img, nil
}

func (s *Store) pull(ctx context.Context, ref string, a Addition) (Image, error) {
	if err := a.valid(); err != nil {
		return Image{}, err
	}
	parsed, found, err := ask(ctx, ref, a.wanted())
	if err != nil {
		return Image{}, err
	}
	img, err := found.Image()
	if err != nil {
		return Image{}, err
	}
	c, err := fromRegistry(img)
	if err != nil {
		return Image{}, err
	}
	if a.Ref == "" {
		a.Ref = ref
	}
	if a.Origin == "" {
		a.Origin = "registry:" + ref
	}
	a.Digest = digestName(parsed, found)
	return s.working(a.Ref, func(w *work) (Image, error) { return s.addAll(ctx, w, c, a) })
}
