package codecompletion

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/task"
)

// Verifier scores Python candidates. The candidate runs in a worker sandbox,
// the tests in an oracle sandbox, and this process carries plain data between
// them: it never loads either.
//
// Oracles run no candidate code, so they are kept warm and serve one session
// after the other; there are as many as there were sessions at once.
type Verifier struct {
	resources family.Resources

	mu    sync.Mutex
	idle  map[poolKey][]*oracle
	plans map[planKey]plan
}

// poolKey says which oracles are alike.
type poolKey struct {
	image  string
	limits sandbox.Limits
}

func keyOf(c family.Case) poolKey { return poolKey{c.Image.ID, c.Limits} }

var _ family.Completer = (*Verifier)(nil)

// NewVerifier makes the family's verifier. It starts nothing.
func NewVerifier(r family.Resources) family.Verifier {
	return &Verifier{
		resources: r,
		idle:      make(map[poolKey][]*oracle),
		plans:     make(map[planKey]plan),
	}
}

// Open starts the worker and the oracle of a verification in the background.
func (v *Verifier) Open(ctx context.Context, c family.Case) family.Session {
	s := &session{verifier: v, c: c}
	s.row, s.refused = readRow(c)
	if s.refused == nil {
		s.bench = v.prepare(ctx, c, s.row, v.lease)
	}
	return s
}

// Close ends the oracles.
func (v *Verifier) Close(ctx context.Context) error {
	v.mu.Lock()
	idle := v.idle
	v.idle = make(map[poolKey][]*oracle)
	v.mu.Unlock()
	var errs []error
	for _, oracles := range idle {
		for _, o := range oracles {
			errs = append(errs, o.close(ctx))
		}
	}
	return errors.Join(errs...)
}

// Complete returns the row's reference as a whole module: behind the prompt
// where it does not parse alone, which an oracle finds out. It is false for a
// row without a reference.
func (v *Verifier) Complete(ctx context.Context, c family.Case) (family.Candidate, bool, error) {
	r, err := readRow(c)
	if err != nil || r.reference == nil {
		return family.Candidate{}, false, nil // there is nothing to complete
	}
	o, err := v.lease(ctx, c)
	if err != nil {
		return family.Candidate{}, false, err
	}
	p, err := v.planFor(ctx, o, r)
	if errors.Is(err, errBroken) {
		err = nil // the pack's fault, which the verdict on the reference shows
	}
	if err = errors.Join(err, v.giveBack(ctx, o)); err != nil {
		return family.Candidate{}, false, fmt.Errorf("completing the reference: %w", err)
	}
	return family.Candidate{Kind: task.Code, Data: r.completed(p)}, true, nil
}

// completed returns the reference as a module of its own.
func (r row) completed(p plan) []byte {
	if p.continues {
		return []byte(r.prompt + *r.reference)
	}
	return []byte(*r.reference)
}

// lease takes a warm oracle or starts one.
func (v *Verifier) lease(ctx context.Context, c family.Case) (*oracle, error) {
	key := keyOf(c)
	for {
		o := v.takeIdle(key)
		if o == nil {
			return v.fresh(ctx, c)
		}
		if o.alive() {
			return o, nil
		}
		if err := o.close(ctx); err != nil {
			return nil, err
		}
	}
}

// fresh starts an oracle.
func (v *Verifier) fresh(ctx context.Context, c family.Case) (*oracle, error) {
	return startOracle(ctx, v.resources.Engine, v.resources.RunID, c)
}

func (v *Verifier) takeIdle(key poolKey) *oracle {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := v.idle[key]
	if len(list) == 0 {
		return nil
	}
	o := list[len(list)-1]
	v.idle[key] = list[:len(list)-1]
	return o
}

// giveBack keeps an oracle that is between rows and closes any other.
func (v *Verifier) giveBack(ctx context.Context, o *oracle) error {
	if o.stale || !o.alive() {
		return o.close(ctx)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.idle[o.key] = append(v.idle[o.key], o)
	return nil
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
		return p, nil
	}
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
	return p, nil
}

// bench is what one try at a row needs: a worker, an oracle and the plan,
// made in the background.
type bench struct {
	cancel context.CancelFunc
	ready  sync.WaitGroup

	worker    *worker
	workerErr error
	oracle    *oracle
	plan      plan
	oracleErr error
}

// prepare starts to make a bench with an oracle from source. The bench is
// closed also when it never gets ready.
func (v *Verifier) prepare(ctx context.Context, c family.Case, r row, source func(context.Context, family.Case) (*oracle, error)) *bench {
	b := &bench{}
	ctx, b.cancel = context.WithCancel(ctx)
	b.ready.Go(func() {
		b.worker, b.workerErr = startWorker(ctx, v.resources.Engine, v.resources.RunID, c)
	})
	b.ready.Go(func() {
		if b.oracle, b.oracleErr = source(ctx, c); b.oracleErr == nil {
			b.plan, b.oracleErr = v.planFor(ctx, b.oracle, r)
		}
	})
	return b
}

// startLimit bounds the wait for sandboxes. Beyond it the engine is at fault.
const startLimit = 2 * time.Minute

// errSlow is the cause of a wait that took too long.
var errSlow = errors.New("the engine takes too long")

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
		return errors.Join(b.workerErr, b.oracleErr)
	case <-ctx.Done():
		return fmt.Errorf("waiting for the sandboxes: %w", context.Cause(ctx))
	}
}

// close removes the worker and hands the oracle back.
func (b *bench) close(ctx context.Context, v *Verifier) error {
	b.cancel()
	b.ready.Wait()
	var errs []error
	if b.worker != nil {
		errs = append(errs, b.worker.close(ctx))
	}
	if b.oracle != nil {
		errs = append(errs, v.giveBack(ctx, b.oracle))
	}
	return errors.Join(errs...)
}
