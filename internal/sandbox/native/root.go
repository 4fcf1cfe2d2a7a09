package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/upper"
)

var _ sandbox.RootReader = (*box)(nil)

// changedRoot is what is open of a root while it is read.
type changedRoot struct {
	upper.Layer
}

func (c *changedRoot) close() error {
	if c == nil {
		return nil
	}
	var errs []error
	for _, r := range append(c.Lower, c.Upper) {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}

// Changes implements [sandbox.RootReader].
func (b *box) Changes(ctx context.Context, limit int) ([]sandbox.Change, error) {
	layer, err := b.changedRoot()
	if err != nil {
		return nil, fmt.Errorf("listing the changes of a root: %w", err)
	}
	return layer.Changes(ctx, limit)
}

// Archive implements [sandbox.RootReader].
func (b *box) Archive(ctx context.Context, paths []string, limit int64, w io.Writer) error {
	layer, err := b.changedRoot()
	if err != nil {
		return fmt.Errorf("reading a root: %w", err)
	}
	return layer.Archive(ctx, paths, limit, w)
}

// changedRoot opens the layers of a root that nothing changes any more.
func (b *box) changedRoot() (*changedRoot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.spec.WritableRoot:
		return nil, errors.New("the sandbox has no writable root")
	case b.phase >= closed:
		return nil, os.ErrClosed
	case b.phase != over:
		return nil, errors.New("the command has not ended")
	case b.layer != nil:
		return b.layer, nil
	}
	c := &changedRoot{upper.Layer{Hidden: b.hidden, IDBase: b.engine.base()}}
	err := b.engine.ns.Do(func() (err error) {
		if c.Upper, err = os.OpenRoot(b.path("t", "u")); err != nil {
			return err
		}
		for _, dir := range b.image.image.Layers {
			lower, err := os.OpenRoot(dir)
			if err != nil {
				return err
			}
			c.Lower = append(c.Lower, lower)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	b.layer = c
	return c, nil
}
