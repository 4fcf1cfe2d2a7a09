package pipeline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"securebench/internal/attended"
	"securebench/internal/pipeline/commit"
)

// checkEngine ends the run if the engine no longer answers: every further task
// would fail in the same way.
func (r *run) checkEngine(ctx context.Context, cause error) {
	if r.Probe == nil {
		return
	}
	if err := r.probe(ctx); err != nil && ctx.Err() == nil {
		r.engineDead(fmt.Errorf("%w (last error: %s)", err, commit.Line(cause)))
	}
}

func (r *run) probe(ctx context.Context) error {
	ctx, stop := attended.WithTimeout(ctx, r.ProbeTime)
	defer stop()
	return r.Probe(ctx)
}

func (r *run) engineDead(cause error) {
	r.cancel(fmt.Errorf("%w: %w", ErrEngineDead, cause))
	time.AfterFunc(deadTime, r.stopCleanup)
}

// watch detects an engine that hangs: its calls would never fail by
// themselves. The caller calls stop at the end of the run.
func (r *run) watch(ctx context.Context) (stop func()) {
	if r.Probe == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for failed := 0; ; {
			if attended.Pause(ctx, r.WatchEvery) != nil {
				return
			}
			err := r.probe(ctx)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				failed = 0
			} else if failed++; failed > 1 { // one failure may be a busy machine
				r.engineDead(err)
				return
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}
