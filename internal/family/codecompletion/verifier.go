package codecompletion

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/task"
)

// Verifier scores Python candidates. The candidate runs in a worker sandbox,
// the tests in an oracle sandbox, and this process carries plain data between
// them: it never loads either.
//
// Oracles run no candidate code, so they are kept warm and serve one row after
// the other. A session has one only while it verifies.
type Verifier struct {
	resources family.Resources
	oracles   *pool

	mu    sync.Mutex
	plans map[planKey]plan
}

var _ family.Completer = (*Verifier)(nil)

// NewVerifier makes the family's verifier. It starts nothing.
func NewVerifier(r family.Resources) family.Verifier {
	return &Verifier{
		resources: r,
		oracles: newPool(r.Workers, func(ctx context.Context, c family.Case) (*oracle, error) {
			return startOracle(ctx, r.Engine, r.RunID, c)
		}),
		plans: make(map[planKey]plan),
	}
}

// Open starts the worker of a verification in the background, and an oracle
// if there is none for it and room for one.
func (v *Verifier) Open(ctx context.Context, c family.Case) family.Session {
	s := &session{verifier: v, c: c}
	s.row, s.refused = readRow(c)
	if s.refused == nil && !c.Lazy {
		s.bench = v.prepare(ctx, c, s.row, true)
	}
	return s
}

// Close ends the oracles.
func (v *Verifier) Close(ctx context.Context) error { return v.oracles.close(ctx) }

// Complete returns the row's reference as a whole module: behind the prompt
// where it does not parse alone, which an oracle finds out. It is false for a
// row without a reference.
func (v *Verifier) Complete(ctx context.Context, c family.Case) (candidate.Candidate, bool, error) {
	r, err := readRow(c)
	if err != nil || r.reference == nil {
		return candidate.Candidate{}, false, nil // there is nothing to complete
	}
	p, err := v.planAlone(ctx, c, r)
	if err != nil {
		return candidate.Candidate{}, false, fmt.Errorf("completing the reference: %w", err)
	}
	return candidate.New(task.Code, candidate.Given, r.completed(p)), true, nil
}

// planAlone analyses a row that is not about to be verified. Tests that do not
// parse have an empty plan: that is the pack's fault, which the verdict on the
// reference shows.
func (v *Verifier) planAlone(ctx context.Context, c family.Case, r row) (plan, error) {
	o, err := v.oracles.lease(ctx, c)
	if err != nil {
		return plan{}, err
	}
	p, err := v.planFor(ctx, o, r)
	if errors.Is(err, errBroken) {
		err = nil
	}
	return p, errors.Join(err, v.oracles.release(ctx, o))
}

// alwaysEqual makes all objects of a class equal, which the tests of a row
// with operators must notice.
const alwaysEqual = `

def _always_equal(cls):
    cls.__eq__ = lambda self, other: True
    cls.__ne__ = lambda self, other: False
    cls.__hash__ = lambda self: 0

_always_equal(%s)
`

var _ family.Twinner = (*Verifier)(nil)

// Twins returns, for each class that a row with operators uses, the reference
// with that class always equal.
func (v *Verifier) Twins(ctx context.Context, c family.Case) ([]family.Twin, error) {
	r, err := readRow(c)
	if err != nil || r.reference == nil || !r.operators {
		return nil, nil // nobody is asked whether objects are equal
	}
	p, err := v.planAlone(ctx, c, r)
	if err != nil {
		return nil, fmt.Errorf("looking for classes: %w", err)
	}
	var out []family.Twin
	for _, n := range p.names {
		if n.kind == "class" {
			source := string(r.completed(p)) + fmt.Sprintf(alwaysEqual, n.name)
			out = append(out, family.Twin{What: "every " + n.name + " equals every other",
				Candidate: candidate.New(task.Code, candidate.Given, []byte(source))})
		}
	}
	return out, nil
}

// completed returns the reference as a module of its own.
func (r row) completed(p plan) []byte {
	if p.continues {
		return []byte(r.prompt + *r.reference)
	}
	return []byte(*r.reference)
}

// maxPlans bounds what is kept of analyses.
const maxPlans = 4096

// planFor analyses a row once.
func (v *Verifier) planFor(ctx context.Context, o *oracle, r row) (plan, error) {
	key := r.key()
	v.mu.Lock()
	p, ok := v.plans[key]
	v.mu.Unlock()
	if ok {
		return p.with(r), nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errSlow)
	defer cancel()
	p, err := o.analyse(ctx, r)
	if err != nil {
		return plan{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.plans) >= maxPlans {
		clear(v.plans) // an analysis costs milliseconds; a huge pack costs memory
	}
	v.plans[key] = p
	return p.with(r), nil
}

// bench is what one try at a row needs beside an oracle: a worker, made in the
// background.
type bench struct {
	cancel context.CancelFunc
	ready  sync.WaitGroup

	worker    *worker
	workerErr error
	spareErr  error // of putting a spare oracle away
}

// prepare starts to make a bench. It is closed also when it never gets ready.
// If it is to warm one, it sees to it that there is an oracle, too.
func (v *Verifier) prepare(ctx context.Context, c family.Case, r row, warm bool) *bench {
	b := &bench{}
	ctx, b.cancel = context.WithCancel(ctx)
	b.ready.Go(func() {
		b.worker, b.workerErr = startWorker(ctx, v.resources.Engine, v.resources.RunID, c, r.prompt)
	})
	if warm {
		b.ready.Go(func() { b.spareErr = v.warm(ctx, c, r) })
	}
	return b
}

// warm starts an oracle for whoever needs one next, if there is room, and
// analyses the row in it. What fails at that is met again, if it lasts, when
// the row is verified.
func (v *Verifier) warm(ctx context.Context, c family.Case, r row) error {
	o, err := v.oracles.spare(ctx, c)
	if o == nil || err != nil {
		return nil
	}
	_, _ = v.planFor(ctx, o, r)
	return v.oracles.release(ctx, o)
}

// wait blocks until the bench is ready.
func (b *bench) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errSlow)
	defer cancel()
	done := make(chan struct{})
	go func() {
		b.ready.Wait()
		close(done)
	}()
	select {
	case <-done:
		return b.workerErr
	case <-ctx.Done():
		return fmt.Errorf("waiting for the sandboxes: %w", context.Cause(ctx))
	}
}

// close removes the worker.
func (b *bench) close(ctx context.Context) error {
	b.cancel()
	b.ready.Wait()
	if b.worker == nil {
		return b.spareErr
	}
	return errors.Join(b.spareErr, b.worker.close(ctx))
}
