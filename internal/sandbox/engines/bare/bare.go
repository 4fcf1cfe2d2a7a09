// Package bare opens the bare runtime below each engine, for benchmarks.
package bare

import (
	"context"
	"errors"
	"fmt"

	"securebench/internal/sandbox"
	docker "securebench/internal/sandbox/docker/floor"
	"securebench/internal/sandbox/engines"
	"securebench/internal/sandbox/imagestore"
	native "securebench/internal/sandbox/native/floor"
	"securebench/internal/sandbox/native/require"
)

// Floor is a bare runtime. Its methods are safe for concurrent use.
type Floor interface {
	// Name says what it is.
	Name() string
	// Cycle makes, runs and removes one sandbox whose command does nothing.
	Cycle(ctx context.Context) error
	// Task makes, runs and removes a workspace and one sandbox after another for
	// the commands. The first one mounts the workspace.
	Task(ctx context.Context, commands ...[]string) error
	// Close releases what it holds.
	Close() error
}

// Open opens what is below the named engine, for an image that the engine has. The
// caller closes it.
func Open(engine string, img sandbox.Image, getenv func(string) string) (f Floor, err error) {
	switch engine {
	case engines.Docker:
		if f, err = docker.New(img.ID); err != nil {
			return nil, err // not a nil pointer in an interface
		}
		return f, nil
	case engines.Native:
		return openNative(img, getenv)
	}
	return nil, fmt.Errorf("the engine %s has no bare runtime to compare with", engine)
}

// stored is a floor that keeps its image in use.
type stored struct {
	*native.Floor
	release func() error
	store   *imagestore.Store
}

func openNative(img sandbox.Image, getenv func(string) string) (_ Floor, err error) {
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
	f, err := native.New(r, kept.Layers, kept.Config.Config.Env)
	if err != nil {
		return nil, errors.Join(err, release(), s.Close())
	}
	return &stored{f, release, s}, nil
}

// Close implements [Floor].
func (s *stored) Close() error { return errors.Join(s.Floor.Close(), s.release(), s.store.Close()) }
