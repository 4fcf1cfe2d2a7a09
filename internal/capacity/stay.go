package capacity

import (
	"context"
	"fmt"
)

// Stay is the time that a task has sandboxes. It is not safe for concurrent use.
type Stay struct {
	plan   *Plan
	needs  needs
	grants []*Grant
	ahead  bool // the room for both parts is held
}

// Enter waits until the machine has room for a task, which then can end without
// waiting for any other. A nil plan has room for everything.
func (p *Plan) Enter(ctx context.Context, l Load) (*Stay, error) {
	if p == nil {
		return nil, nil
	}
	s := &Stay{plan: p, needs: p.needs(l)}
	if s.needs.alone() == (Amount{}) {
		return s, nil
	}
	if !s.needs.alone().within(p.room.whole) {
		return nil, fmt.Errorf("%w: %s", errUnplanned, s.needs.alone())
	}
	g, err := p.room.acquire(ctx, s.needs.alone())
	if err != nil {
		return nil, err
	}
	s.grants = append(s.grants, g)
	return s, nil
}

// Ahead reports whether there is room to prepare the verification beside the
// agent's sandbox, and takes it. It may be asked again when the task is repeated.
func (s *Stay) Ahead() bool {
	if s == nil || s.ahead || s.needs.together() == s.needs.alone() {
		return true
	}
	g := s.plan.room.try(s.needs.together().minus(s.needs.alone()))
	if g == nil {
		return false
	}
	s.grants, s.ahead = append(s.grants, g), true
	return true
}

// Cores waits until the machine has cores for a verification, so that its time
// limit does not run out because of others.
func (s *Stay) Cores(ctx context.Context) (*Grant, error) {
	if s == nil || s.needs.Verify == (Amount{}) {
		return nil, nil
	}
	return s.plan.cores.acquire(ctx, Amount{CPUs: int64(s.plan.limits.CPUs * core)})
}

// Leave ends the stay. It is idempotent.
func (s *Stay) Leave() {
	if s == nil {
		return
	}
	for _, g := range s.grants {
		g.Release()
	}
}
