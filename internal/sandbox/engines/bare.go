package engines

import (
	"errors"
	"fmt"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/bare"
	"securebench/internal/sandbox/imagestore"
	"securebench/internal/sandbox/native/require"
)

// OpenBare opens what is below the named engine, for an image that the engine has. The
// caller closes it.
func OpenBare(engine string, img sandbox.Image, getenv func(string) string) (f bare.Floor, err error) {
	switch engine {
	case Docker:
		if f, err = bare.NewDocker(img.ID); err != nil {
			return nil, err // not a nil pointer in an interface
		}
		return f, nil
	case Native:
		return openBareNative(img, getenv)
	}
	return nil, fmt.Errorf("the engine %s has no bare runtime to compare with", engine)
}

// stored is a floor that keeps its image in use.
type stored struct {
	*bare.Native
	release func() error
	store   *imagestore.Store
}

func openBareNative(img sandbox.Image, getenv func(string) string) (_ bare.Floor, err error) {
	r, err := require.FindRuntime("", getenv)
	if err != nil {
		return nil, err
	}
	dir, err := imagestore.DefaultDir(getenv)
	if err != nil {
		return nil, err
	}
	s, err := imagestore.Open(dir)
	if err != nil {
		return nil, err
	}
	kept, release, err := s.Use(img.ID)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	f, err := bare.NewNative(r, kept.Layers, kept.Config.Config.Env)
	if err != nil {
		return nil, errors.Join(err, release(), s.Close())
	}
	return &stored{f, release, s}, nil
}

// Close implements [bare.Floor].
func (s *stored) Close() error { return errors.Join(s.Native.Close(), s.release(), s.store.Close()) }
