package wheels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"securebench/internal/fault"
	"securebench/internal/sandbox"
)

// Store puts sets on an engine when they are first needed. It is safe for concurrent
// use.
type Store struct {
	engine sandbox.Engine
	getenv func(string) string
	say    func(string)

	mu    sync.Mutex
	trees map[string]sandbox.Overlay // by key
}

// NewStore makes a store of an engine. say gets a line before anything is fetched.
func NewStore(engine sandbox.Engine, getenv func(string) string, say func(string)) *Store {
	return &Store{engine: engine, getenv: getenv, say: say, trees: map[string]sandbox.Overlay{}}
}

// Tree returns the read-only tree of a set on the engine, and fetches it if neither
// the engine nor the cache has it.
func (s *Store) Tree(ctx context.Context, set Set) (sandbox.Overlay, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tree := s.trees[set.Key()]; tree != nil {
		return tree, nil
	}
	engine, ok := s.engine.(sandbox.Overlays)
	if !ok {
		return nil, fault.Errorf(fault.Config, "the engine cannot mount %s: use the engine docker or native", set.Title())
	}
	var failed error
	tree, err := engine.Overlay(ctx, sandbox.OverlaySpec{Key: set.Key(), Title: set.Title()}, func(w io.Writer) error {
		failed = s.WriteTar(ctx, set, w)
		return failed
	})
	switch {
	case failed != nil:
		return nil, failed
	case err != nil:
		return nil, fault.As(fault.Engine, fmt.Errorf("putting %s on the engine: %w", set.Title(), err))
	}
	s.trees[set.Key()] = tree
	return tree, nil
}

// WriteTar writes the tree of a set, which it fetches first where the cache lacks it.
func (s *Store) WriteTar(ctx context.Context, set Set, w io.Writer) (err error) {
	c, err := OpenCache("", s.getenv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Fetch(ctx, set, s.say); err != nil {
		return err
	}
	return c.WriteTar(set, w)
}
