package imagestore

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Pull adds an image from a registry.
// Credentials are those of the Docker command.
func (s *Store) Pull(ctx context.Context, ref string, a Addition) (Image, error) {
	img, err := s.pull(ctx, ref, a)
	if err != nil {
		return Image{}, fmt.Errorf("pulling image %q: %w", ref, oneLine(err))
	}
	return img, nil
}

func (s *Store) pull(ctx context.Context, ref string, a Addition) (Image, error) {
	if err := a.valid(); err != nil {
		return Image{}, err
	}
	parsed, err := name.ParseReference(ref, name.WeakValidation)
	if err != nil {
		return Image{}, err
	}
	found, err := remote.Get(parsed, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(libraryPlatform(a.wanted())), remote.WithUserAgent("securebench"))
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
	// As with Docker: what the name means in the registry, which can be an index.
	a.Digest = familiarRepository(parsed.Context()) + "@" + found.Digest.String()
	return s.working(a.Ref, func(w *work) (Image, error) { return s.addAll(ctx, w, c, a) })
}
