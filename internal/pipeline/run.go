// Package pipeline drives tasks through the stages of a run: produce,
// capture, verify and record. It alone knows all of them; it owns the
// concurrency, the retries, the clean-up and what Ctrl-C means.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"securebench/internal/family"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// cleanupTime bounds the removal of one attempt's sandboxes.
const cleanupTime = 30 * time.Second

// ErrInterrupted is returned by [Run] when the operator cancelled the run.
// What was recorded stays.
var ErrInterrupted = errors.New("interrupted")

// ErrEngineDead is returned by [Run] when the sandbox engine stopped
// answering. What was recorded stays.
var ErrEngineDead = errors.New("the sandbox engine stopped answering")

// Config is what a run needs. All fields are required unless said otherwise.
type Config struct {
	RunID    string
	Families family.Registry
	// Tasks yields the tasks in pack order; an error ends the run.
	Tasks iter.Seq2[task.Task, error]
	Total int // attempts that are planned
	Agent Agent
	// Verifiers holds one verifier per family that has one.
	Verifiers map[string]family.Verifier
	Images    map[string]sandbox.Image // by reference
	Dir       *record.Dir
	Store     *capture.Store
	Digests   Binder
	// TaskDir names a task's folder; it is called in pack order by one
	// goroutine.
	TaskDir func(taskID string) string
	Verify  sandbox.Limits
	// VerifyTimeout overrides the families' own time limits; 0 does not.
	VerifyTimeout time.Duration
	Workers       int
	Attempts      int
	Retries       int // after infrastructure errors
	Progress      progress.Reporter
	// Observe returns what gets an agent's output while it runs; nil is
	// nobody.
	Observe func(taskID, stream string) io.WriteCloser
	// Probe asks the engine whether it is alive; nil never asks.
	Probe func(context.Context) error
}

// Binder makes the digests that bind a record to its inputs.
type Binder interface {
	Digests(t task.Task, image sandbox.Image) record.Digests
}

// Summary counts a run's final records.
type Summary struct {
	RunID    string
	Planned  int // attempts that the run set out to make
	Total    int // attempts recorded
	Verified int
	Passed   int
	Score    float64
	Failed   int
	Pending  int // without those that failed for our own fault:
	// Infrastructure counts attempts that we could not bring to an end.
	Infrastructure int
	// Failures are the first attempts that did not pass, in order of their
	// end: as many as a run lists.
	Failures []progress.Failure
}

// Status is complete when every planned attempt is verified, pending when
// none is, and partial otherwise.
func (s Summary) Status() string {
	switch s.Verified {
	case s.Planned:
		return "complete"
	case 0:
		return "pending"
	}
	return "partial"
}

// Run takes every task through the stages and returns the counts of what was
// recorded, also beside an error.
func Run(ctx context.Context, cfg Config) (Summary, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{Config: cfg, cancel: cancel, ready: make(chan *attempt)}
	r.summary.RunID, r.summary.Planned = cfg.RunID, cfg.Total

	jobs := make(chan job)
	var feed, prep, work sync.WaitGroup
	feed.Go(func() { defer close(jobs); r.feed(ctx, jobs) })
	for i := range cfg.Workers {
		if i%2 == 0 {
			prep.Go(func() { r.prepareAll(ctx, jobs) })
		}
		work.Go(func() { r.workAll(ctx) })
	}
	feed.Wait()
	prep.Wait()
	close(r.ready)
	work.Wait()
	r.cleanup.Wait()
	if err := context.Cause(ctx); err != nil {
		return r.summary, interruption(err)
	}
	return r.summary, nil
}

// interruption names what ended the run early.
func interruption(cause error) error {
	if errors.Is(cause, context.Canceled) {
		return ErrInterrupted
	}
	return cause
}

type job struct {
	task   task.Task
	number int
	dir    string
}

type run struct {
	Config
	cancel  context.CancelCauseFunc
	ready   chan *attempt // prepared, waiting for a worker
	cleanup sync.WaitGroup

	mu      sync.Mutex
	summary Summary
	started int
}

// feed yields every attempt of every task.
func (r *run) feed(ctx context.Context, jobs chan<- job) {
	for t, err := range r.Tasks {
		if err != nil {
			r.cancel(fmt.Errorf("reading the pack: %w", err))
			return
		}
		dir := r.TaskDir(t.ID())
		for n := 1; n <= r.Attempts; n++ {
			select {
			case jobs <- job{t, n, dir}:
			case <-ctx.Done():
				return
			}
		}
	}
}

// prepareAll makes sandboxes ahead: while a worker runs one attempt, the next
// one's are made.
func (r *run) prepareAll(ctx context.Context, jobs <-chan job) {
	for j := range jobs {
		if ctx.Err() != nil {
			return
		}
		a := r.newAttempt(j)
		a.prepare(ctx)
		select {
		case r.ready <- a:
		case <-ctx.Done():
			r.release(a)
			return
		}
	}
}

// workAll finishes prepared attempts until there are none.
func (r *run) workAll(ctx context.Context) {
	for a := range r.ready {
		if ctx.Err() != nil {
			r.release(a)
			continue
		}
		r.finish(ctx, a)
	}
}

// finish runs one attempt to its record, with retries after our own faults.
func (r *run) finish(ctx context.Context, a *attempt) {
	r.announce(a)
	a.turn = time.Now()
	line, err := a.run(ctx)
	for try := 1; err != nil && try <= r.Retries && r.retry(ctx, a, err); try++ {
		line, err = a.run(ctx)
	}
	r.release(a)
	if errors.Is(err, workspace.ErrChanged) {
		r.cancel(err) // what was recorded is of the pack that was loaded
	}
	if ctx.Err() != nil {
		return // an attempt that the operator cut short has no record
	}
	if err != nil {
		r.checkEngine(ctx, err)
		if ctx.Err() != nil {
			return
		}
		line = a.infrastructure(err)
		r.Progress.Event(progress.Infrastructure(a.task.ID(), line.FailureMessage))
	}
	r.record(line)
}

// retry throws the attempt's sandboxes away and makes it anew after a pause.
// It is false when the run ended meanwhile.
func (r *run) retry(ctx context.Context, a *attempt, err error) bool {
	if ctx.Err() != nil || errors.Is(err, workspace.ErrChanged) {
		return false
	}
	a.retries = append(a.retries, record.Retry{Error: firstLine(err), Phase: a.phase})
	r.Progress.Event(progress.Retry(a.task.ID(), len(a.retries), r.Retries, firstLine(err)))
	r.release(a)
	pause := time.Duration(len(a.retries)) * 500 * time.Millisecond
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return false
	}
	a.reset()
	a.prepare(ctx)
	return true
}

// checkEngine ends the run when the engine no longer answers: every further
// task would only fail the same way.
func (r *run) checkEngine(ctx context.Context, cause error) {
	if r.Probe == nil {
		return
	}
	ctx2, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	if err := r.Probe(ctx2); err != nil && ctx.Err() == nil {
		r.cancel(fmt.Errorf("%w: %w (last error: %w)", ErrEngineDead, err, cause))
	}
}

// record writes the line and then, when it is on disk, announces it.
func (r *run) record(line *record.Line) {
	if err := r.Dir.Append(line); err != nil {
		r.cancel(fmt.Errorf("the run cannot go on without its records: %w", err))
		return
	}
	r.mu.Lock()
	r.summary.count(line)
	r.mu.Unlock()
	r.Progress.Event(progress.TaskDone(line.TaskID, line.Attempt, line.Status, line.Score(), line.Outcome, line.FailureReason))
}

func (s *Summary) count(l *record.Line) {
	s.Total++
	switch l.Status {
	case "passed":
		s.Passed++
		s.Score++
		s.Verified++
	case "failed":
		s.Failed++
		s.Verified++
	default:
		s.Pending++
	}
	if l.Outcome == string(family.Infrastructure) {
		s.Infrastructure++
		s.Pending--
	}
	if !l.Passed && len(s.Failures) < progress.MaxFailures {
		s.Failures = append(s.Failures, progress.Failure{TaskID: l.TaskID, Attempt: l.Attempt, Outcome: l.Outcome, Reason: l.FailureReason})
	}
}

// release frees an attempt's sandboxes in the background: removing them costs
// as much as making them, and nothing waits for it but the end of the run.
func (r *run) release(a *attempt) {
	session, production := a.take()
	if session == nil && production == nil {
		return
	}
	r.cleanup.Go(func() {
		ctx, stop := context.WithTimeout(context.Background(), cleanupTime)
		defer stop()
		var errs []error
		if session != nil {
			errs = append(errs, session.Close(ctx))
		}
		if production != nil {
			errs = append(errs, production.Close(ctx))
		}
		if err := errors.Join(errs...); err != nil {
			r.Progress.Event(progress.Warning(fmt.Sprintf("cleaning up after %s: %v", a.task.ID(), err)))
		}
	})
}

// announce tells that an attempt begins.
func (r *run) announce(a *attempt) {
	r.mu.Lock()
	r.started++
	index := r.started
	r.mu.Unlock()
	r.Progress.Event(progress.TaskStart(index, r.Total, a.task.ID(), a.number, a.task.Family()))
}
