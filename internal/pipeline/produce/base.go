package produce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"securebench/internal/candidate"
	"securebench/internal/piped"
	"securebench/internal/sandbox"
	"securebench/internal/task"
)

// readBase reads what the workspace holds before the agent comes. The change of
// it will be the candidate.
func (s *Session) readBase(ctx context.Context, p *Producer, spec sandbox.Spec, how begun) (err error) {
	if s.plan.Extract.Mode != task.FromWorkspace {
		return nil
	}
	if s.base = p.bases.get(how); s.base != nil {
		return nil
	}
	bounds := candidate.Bounds{Bytes: spec.Limits.Disk, Files: spec.Limits.Files}
	err = piped.Run(func(w io.Writer) error { return s.space.Get(ctx, ".", bounds.ArchiveSize(), w) }, func(r io.Reader) (err error) {
		s.base, err = candidate.ReadBase(r, bounds)
		return err
	})
	switch {
	case errors.Is(err, sandbox.ErrTooLarge): // files with holes
		return fmt.Errorf("%w: %w", ErrFolder, err)
	case err != nil:
		return fmt.Errorf("reading the prepared workspace: %w", err)
	}
	p.bases.put(how, s.base)
	return nil
}

// maxBases is how many bases are kept.
const maxBases = 16

// bases keeps the bases of the last workspaces: attempts at one task, or at
// tasks that begin alike, share one. It is safe for concurrent use.
type bases struct {
	mu   sync.Mutex
	keys []begun // oldest first
	kept map[begun]*candidate.Base
}

func (b *bases) get(how begun) *candidate.Base {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept[how]
}

func (b *bases) put(how begun, base *candidate.Base) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept == nil {
		b.kept = map[begun]*candidate.Base{}
	}
	if b.kept[how] == nil {
		b.keys = append(b.keys, how)
	}
	b.kept[how] = base
	if len(b.keys) > maxBases {
		delete(b.kept, b.keys[0])
		b.keys = b.keys[1:]
	}
}
