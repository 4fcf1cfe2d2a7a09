package scoring

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/checkout"
	"securebench/internal/family"
	"securebench/internal/fault"
)

// Score scores a candidate in an open session, or in one of its own if that is
// nil; after infrastructure errors again in fresh ones. An image whose checkout
// cannot be used stays as it is.
func Score(ctx context.Context, v family.Verifier, at family.Case, cand candidate.Candidate, s family.Session, retries int) (family.Verdict, error) {
	if s == nil {
		s = OpenSession(ctx, v, at, &cand)
	}
	got, err := score(ctx, s, cand)
	for try := 1; err != nil && !errors.Is(err, checkout.ErrUnusable) && try <= retries && ctx.Err() == nil; try++ {
		got, err = score(ctx, OpenSession(ctx, v, at, &cand), cand)
	}
	return got, err
}

// score scores a candidate in an open session and closes the session.
func score(ctx context.Context, s family.Session, c candidate.Candidate) (family.Verdict, error) {
	v, err := family.Verify(ctx, s, c)
	return v, errors.Join(err, Close(ctx, s))
}

// cleanupTime bounds the removal of a verification's sandboxes.
const cleanupTime = 30 * time.Second

// Close closes a session, also after ctx has ended.
func Close(ctx context.Context, s family.Session) error {
	ctx, stop := attended.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer stop()
	return s.Close(ctx)
}

// OpenSession begins the verification of a candidate; nil is none. Sandboxes
// are not made ahead for an empty one.
func OpenSession(ctx context.Context, v family.Verifier, at family.Case, cand *candidate.Candidate) family.Session {
	at.Lazy = cand == nil || cand.Size == 0
	return v.Open(ctx, at)
}

// Each calls do for every item, as many at a time as there are workers. The
// first error, of do or of items, ends it and is returned.
func Each[T any](ctx context.Context, workers int, items iter.Seq2[T, error], do func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	jobs := make(chan T)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for item := range jobs {
				if err := do(ctx, item); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	feed(ctx, items, jobs, cancel)
	close(jobs)
	wg.Wait()
	switch err := context.Cause(ctx); {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fault.Errorf(fault.Interrupted, "interrupted")
	default:
		return fault.As(fault.Infrastructure, err)
	}
}

func feed[T any](ctx context.Context, items iter.Seq2[T, error], jobs chan<- T, cancel context.CancelCauseFunc) {
	for item, err := range items {
		if err != nil {
			cancel(fmt.Errorf("reading the pack: %w", err))
			return
		}
		select {
		case jobs <- item:
		case <-ctx.Done():
			return
		}
	}
}
