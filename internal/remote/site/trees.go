package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"securebench/internal/digest"
	"securebench/internal/pipeline/record"
	"securebench/internal/remote"
	"securebench/internal/sandbox"
)

// trees are what agents find in their sandboxes, on the engine.
type trees struct {
	engine sandbox.Engine
	all    []remote.Tree
	open   func(context.Context, record.AttemptKey, remote.Tree) (io.ReadCloser, error)

	mu sync.Mutex
	on map[string]sandbox.Overlay // by digest
}

func newTrees(e sandbox.Engine, all []remote.Tree, open func(context.Context, record.AttemptKey, remote.Tree) (io.ReadCloser, error)) *trees {
	return &trees{engine: e, all: all, open: open, on: map[string]sandbox.Overlay{}}
}

// of returns a tree for agents in an image that is on the engine.
func (t *trees) of(program string, image sandbox.Image) (sandbox.Overlay, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tree := range t.all {
		if there := t.on[tree.Digest]; there != nil && tree.Program == program && tree.For(image.ID) {
			return there, nil
		}
	}
	return nil, errors.New("what the agent needs beside its sandbox is not on this worker")
}

// bring puts the trees for an attempt's agent on the engine.
func (t *trees) bring(ctx context.Context, key record.AttemptKey, image sandbox.Image) error {
	for _, tree := range t.all {
		if !tree.For(image.ID) {
			continue
		}
		if err := t.lay(ctx, key, tree); err != nil {
			return fmt.Errorf("putting %s on the engine: %w", tree.Title, err)
		}
	}
	return nil
}

// lay puts a tree on the engine, once. Its key has the digest that was checked here, so
// that no run can put something else in the place of another's.
func (t *trees) lay(ctx context.Context, key record.AttemptKey, tree remote.Tree) error {
	t.mu.Lock()
	there := t.on[tree.Digest]
	t.mu.Unlock()
	if there != nil {
		return nil
	}
	engine, ok := t.engine.(sandbox.Overlays)
	sum, err := digest.Hex(tree.Digest)
	if !ok || err != nil {
		return errors.Join(err, errors.New("the engine cannot mount it"))
	}
	there, err = engine.Overlay(ctx, sandbox.OverlaySpec{Key: tree.Key + "_" + sum[:32], Title: tree.Title}, func(w io.Writer) error {
		in, err := t.open(ctx, key, tree)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, in)
		return errors.Join(err, in.Close())
	})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on[tree.Digest] = there
	return nil
}
