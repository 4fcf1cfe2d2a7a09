// Package pipeline takes tasks through the stages of a run: produce, capture,
// verify and record. It is the only package that knows all stages, and it
// handles concurrency, retries, clean-up and interruption.
package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"securebench/internal/agent"
	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/sandbox"
	"securebench/internal/task"
)

// The time limits of a run's own operations.
const (
	// cleanupTime bounds the removal of one attempt's sandboxes, and the end
	// of an interrupted run.
	cleanupTime = 30 * time.Second
	// deadTime is the same bound if the engine does not answer: the next run
	// removes what is left.
	deadTime = 2 * time.Second
	// probeTime is how long the engine may take to answer a probe.
	probeTime = 20 * time.Second
	// watchEvery is the interval between probes of the engine.
	watchEvery = 15 * time.Second
)

// ErrInterrupted is returned by [Run] if the operator cancelled the run. The
// records are kept.
var ErrInterrupted = errors.New("interrupted")

// ErrEngineDead is returned by [Run] if the sandbox engine stopped answering,
// or, joined to another error, if the engine kept the run from ending in time.
// The records are kept.
var ErrEngineDead = errors.New("the sandbox engine stopped answering")

// ErrOutput is returned by [Run] if the output directory could not be written.
// The records are kept.
var ErrOutput = commit.ErrOutput

// SpentError is returned by [Run] if attempts have no record because the run has used
// its budget. The records of the others are kept.
type SpentError struct{ Err error }

// Error says what is spent.
func (e *SpentError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the first attempt without a record.
func (e *SpentError) Unwrap() error { return e.Err }

// Config configures a run. All fields are required unless noted.
type Config struct {
	RunID    string
	Families family.Registry
	// Tasks yields the tasks in the order in which they run; an error ends the run.
	Tasks  iter.Seq2[task.Task, error]
	Total  int // number of planned attempts
	Judged int // of them, those at rows that ask for a judge
	// Kept are attempts that have a record from an earlier part of the run:
	// they are counted and not repeated.
	Kept []Final
	// Unverified are earlier records of attempts whose candidate is stored but
	// whose verification did not finish: these attempts start at verification.
	Unverified map[record.AttemptKey]*record.Line
	// Labels are added to every record.
	Labels []string
	Agent  agent.Agent
	// Worker makes the calls of attempts; nil makes them in this process, with
	// Agent, Verifiers, Store and Observe.
	Worker attempt.Worker
	// Verifiers holds one verifier per family that has one.
	Verifiers map[string]family.Verifier
	Images    map[string]sandbox.Image // by reference
	// Fault returns an error that wraps [sandbox.ErrUnusable] for a task that cannot be
	// run in its images, whatever its agent does; nil finds none.
	Fault   func(context.Context, task.Task) error
	Dir     *record.Dir
	Store   *candidate.Store
	Digests commit.Binding
	// TaskDir names a task's folder.
	TaskDir func(taskID string) string
	Verify  sandbox.Limits
	// VerifyTimeout is the operator's time limit for a verification; 0 means
	// none.
	VerifyTimeout time.Duration
	Workers       int
	// Control, unless nil, changes the run while it goes on.
	Control *Control
	// Plan admits tasks as far as the machine has room, and Load says what a task
	// needs of it. A nil plan admits all.
	Plan *capacity.Plan
	Load func(task.Task) capacity.Load
	// Room, unless nil, reports whether another attempt can be written. Its error
	// ends the run.
	Room     func() error
	Attempts int
	// Mine, unless nil, reports whether an attempt is to be made: others are another
	// shard's. Part says that this is a shard: that all its agents fail says nothing.
	Mine    func(task string, attempt int) bool
	Part    bool
	Retries int // after infrastructure errors
	// KeepGoing runs on if the first agents, or all, fail; otherwise that is a
	// [BrokenAgentError].
	KeepGoing bool
	Progress  progress.Reporter
	// Observe is called for each try of an attempt, and returns the function
	// that provides a writer for each of its agent's streams; nil discards
	// them.
	Observe func(taskID string, attempt int) func(stream string) io.WriteCloser
	// Probe checks that the engine answers; nil disables the check.
	Probe func(context.Context) error
	// ProbeTime and WatchEvery replace the probe's time limit and interval, unless 0.
	ProbeTime, WatchEvery time.Duration
}

// Run takes every task through the stages and returns the counts of the
// recorded attempts, even with an error.
func Run(ctx context.Context, cfg Config) (Summary, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := newRun(cfg, cancel)
	defer r.stopCleanup()
	beginning, last := context.WithCancelCause(ctx)
	defer last(nil)
	r.last = last
	pool := r.controlled(last, cancel)
	defer r.Control.end()

	jobs := make(chan commit.Attempt)
	var feed, prep, work, commits sync.WaitGroup
	unwatch := r.watch(ctx)
	feed.Go(func() { defer close(jobs); r.feed(beginning, jobs) })
	for range pool {
		prep.Go(func() { r.prepareAll(ctx, beginning, jobs) })
		work.Go(func() { r.workAll(ctx, beginning) })
	}
	commits.Go(r.commitAll)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		feed.Wait()
		prep.Wait()
		close(r.ready)
		work.Wait()
		close(r.finished)
		commits.Wait()
		r.keepUnverified()
		unwatch()
		r.cleanup.Wait()
	}()
	err := r.waitForEnd(ctx, ended)
	r.mu.Lock()
	defer r.mu.Unlock()
	if spent, ok := errors.AsType[*SpentError](context.Cause(beginning)); ok && err == nil {
		err = spent
	}
	if err == nil && r.left.Load() && errors.Is(context.Cause(beginning), ErrDrained) {
		err = ErrDrained
	}
	if err == nil {
		err = r.noneWorked()
	}
	return r.summary, err
}

// controlled begins the control of the run, and returns how many workers it can have.
func (r *run) controlled(last, cancel context.CancelCauseFunc) int {
	most := r.Workers
	if r.Control == nil {
		r.Control = &Control{}
	} else {
		most = max(most, MaxWorkers)
	}
	r.preparing, r.working = r.Control.begin(r.Workers, most, last, cancel)
	return most
}

// waitForEnd waits until everything that the run started has ended, and
// returns why the run ended early. After an early end the wait is bounded,
// because a call to a hanging engine may never return.
func (r *run) waitForEnd(ctx context.Context, ended <-chan struct{}) error {
	select {
	case <-ended:
		return interruption(context.Cause(ctx))
	case <-ctx.Done():
	}
	err, bound := interruption(context.Cause(ctx)), cleanupTime
	if errors.Is(err, ErrEngineDead) {
		bound = deadTime
	}
	select {
	case <-ended:
		return err
	case <-time.After(bound):
	}
	if !errors.Is(err, ErrEngineDead) {
		err = fmt.Errorf("%w; and %w", err, ErrEngineDead)
	}
	return err
}

func newRun(cfg Config, cancel context.CancelCauseFunc) *run {
	r := &run{Config: cfg, cancel: cancel, ready: make(chan *ongoing), finished: make(chan finished, cfg.Workers), kept: map[record.AttemptKey]bool{}}
	r.committer = &commit.Committer{RunID: cfg.RunID, Agent: cfg.Agent.Name(), Labels: cfg.Labels, Families: cfg.Families,
		Dir: cfg.Dir, Store: cfg.Store, Digests: cfg.Digests}
	r.cleanupCtx, r.stopCleanup = context.WithCancel(context.Background())
	if r.Worker == nil {
		r.Worker = &attempt.Local{Agent: cfg.Agent, Verifiers: cfg.Verifiers, Store: r.committer, Observe: cfg.Observe, Starts: r.reportStart}
	}
	r.ProbeTime, r.WatchEvery = cmp.Or(r.ProbeTime, probeTime), cmp.Or(r.WatchEvery, watchEvery)
	for _, f := range cfg.Kept {
		r.kept[record.AttemptKey{Task: f.TaskID, Attempt: f.Attempt}] = true
		r.agents.seen(f, "")
	}
	r.summary = Summarise(cfg.RunID, Planned{cfg.Total, cfg.Judged}, cfg.Kept)
	r.started, r.unverified = len(cfg.Kept), maps.Clone(cfg.Unverified)
	return r
}

// interruption returns the error that ended the run early, or nil.
func interruption(cause error) error {
	if errors.Is(cause, context.Canceled) {
		return ErrInterrupted
	}
	return cause
}

type run struct {
	Config
	committer *commit.Committer
	cancel    context.CancelCauseFunc
	last      context.CancelCauseFunc // no other attempt begins
	kept      map[record.AttemptKey]bool
	ready     chan *ongoing // prepared, waiting for a worker
	finished  chan finished // waiting to be written
	cleanup   sync.WaitGroup
	// preparing and working let as many attempts be prepared and made as there are
	// workers, and left says that attempts were left out because none is to begin.
	preparing, working *gate
	left               atomic.Bool
	// cleanupCtx remains valid after the run's end, unless the engine is dead.
	cleanupCtx  context.Context
	stopCleanup context.CancelFunc

	mu         sync.Mutex
	summary    Summary
	started    int
	agents     agents
	unverified map[record.AttemptKey]*record.Line // without a new record
}

// feed yields every attempt of every task.
func (r *run) feed(ctx context.Context, jobs chan<- commit.Attempt) {
	for t, err := range r.Tasks {
		if err != nil {
			r.cancel(fmt.Errorf("reading the pack: %w", err))
			return
		}
		dir := r.TaskDir(t.ID())
		for n := 1; n <= r.Attempts; n++ {
			if r.kept[record.AttemptKey{Task: t.ID(), Attempt: n}] || r.Mine != nil && !r.Mine(t.ID(), n) {
				continue
			}
			select {
			case jobs <- commit.Attempt{Task: t, Number: n, Dir: dir, Image: r.Images[t.Environment().Image]}:
			case <-ctx.Done():
				r.left.Store(true)
				return
			}
		}
	}
}

// prepareAll creates sandboxes ahead of time: while a worker runs one attempt,
// those of the next one are created. None is when beginning has ended.
func (r *run) prepareAll(ctx, beginning context.Context, jobs <-chan commit.Attempt) {
	for r.preparing.enter(beginning) {
		j, ok := <-jobs
		again := ok && r.prepareOne(ctx, beginning, j)
		r.preparing.leave()
		if !again {
			return
		}
	}
}

// prepareOne prepares an attempt, and reports whether others can follow.
func (r *run) prepareOne(ctx, beginning context.Context, j commit.Attempt) bool {
	if !r.Control.unpaused(beginning) || beginning.Err() != nil {
		r.left.Store(true)
		return false
	}
	a := r.begin(j)
	if !a.enter(ctx) {
		return false
	}
	if beginning.Err() != nil {
		r.left.Store(true)
		r.release(a)
		return false
	}
	a.prepare(ctx)
	select {
	case r.ready <- a:
		return true
	case <-beginning.Done():
		r.left.Store(true)
		r.release(a)
		return false
	}
}

// workAll finishes prepared attempts until none are left, or beginning has ended.
func (r *run) workAll(ctx, beginning context.Context) {
	for r.working.enter(beginning) {
		a, ok := <-r.ready
		if ok {
			r.workOne(ctx, beginning, a)
		}
		r.working.leave()
		if !ok {
			return
		}
	}
	for a := range r.ready { // which nobody else takes
		r.left.Store(true)
		r.release(a)
	}
}

// workOne finishes a prepared attempt, unless none is to begin.
func (r *run) workOne(ctx, beginning context.Context, a *ongoing) {
	if !r.Control.unpaused(beginning) || beginning.Err() != nil {
		r.left.Store(true)
		r.release(a)
		return
	}
	defer r.Control.start()()
	r.finish(ctx, a)
}

// finish runs one attempt until it is recorded, with retries after
// infrastructure errors.
func (r *run) finish(ctx context.Context, a *ongoing) {
	r.announce(a)
	a.draft.Begin()
	if r.Room != nil {
		if err := r.Room(); err != nil {
			r.release(a)
			r.cancel(err)
			return
		}
	}
	line, err := a.run(ctx)
	for try := 1; err != nil && try <= r.Retries && r.retry(ctx, a, err); try++ {
		line, err = a.run(ctx)
	}
	spent := attempt.ClassOf(err) == attempt.Spent
	if spent {
		r.last(&SpentError{err})
	}
	r.release(a)
	if attempt.ClassOf(err) == attempt.PackFault {
		line, err = a.draft.PackFault(err, a.phase), nil
		r.Progress.Event(progress.Warning{Message: fmt.Sprintf("task %s: %s", a.id(), line.FailureMessage)})
	}
	if errors.Is(err, ErrOutput) || Rejected(err) {
		r.cancel(err)
	}
	if ctx.Err() != nil || spent {
		return // an attempt that was interrupted, or cut short, has no record
	}
	if err != nil {
		r.checkEngine(ctx, err)
		if ctx.Err() != nil {
			return
		}
		line = a.draft.Infrastructure(err, a.phase)
		r.Progress.Event(progress.Infrastructure{TaskID: a.id(), Attempt: a.draft.Number, Message: line.FailureMessage})
	}
	r.record(a.draft, line)
}

// Rejected reports whether a run ended because a provider refuses its configuration.
func Rejected(err error) bool { return attempt.ClassOf(err) == attempt.Rejected }

// final reports whether a retry would fail in the same way, or the record cannot be
// stored.
func final(err error) bool {
	return attempt.ClassOf(err) != attempt.Infrastructure || errors.Is(err, ErrOutput) || errors.Is(err, record.ErrIntegrity)
}

// retry removes the attempt's sandboxes and, after a pause, creates new ones
// for what is repeated: the whole attempt, or only the verification of a
// stored candidate. Of an agent that has ended, only the capture is repeated, as
// long as what it left can be read. It returns false if the run ended meanwhile.
func (r *run) retry(ctx context.Context, a *ongoing, err error) bool {
	if ctx.Err() != nil || final(err) {
		return false
	}
	a.draft.Retry(err, a.phase, a.stands)
	r.Progress.Event(progress.Retry{TaskID: a.id(), Attempt: a.draft.Number, Retry: a.draft.Retries(), Limit: r.Retries, Message: commit.Line(err)})
	var removed <-chan struct{}
	if !a.stands {
		removed = r.remove(a, nil) // the room stays the attempt's
	}
	pause := time.Duration(a.draft.Retries()) * 500 * time.Millisecond
	if attended.Pause(ctx, pause) != nil {
		return false
	}
	if !a.stands {
		select {
		case <-removed:
		case <-ctx.Done():
			return false
		}
		a.prepare(ctx)
	}
	return true
}

// release removes an attempt's sandboxes in the background, and then leaves their
// room on the machine to others: removing them takes as long as creating them, and
// only the end of the run waits for it.
func (r *run) release(a *ongoing) {
	stay := a.stay
	a.stay = nil
	r.remove(a, stay)
}

// remove removes an attempt's sandboxes in the background and then ends a stay.
// The channel is closed when that is done.
func (r *run) remove(a *ongoing, stay *capacity.Stay) <-chan struct{} {
	removed := make(chan struct{})
	if !a.held {
		stay.Leave()
		close(removed)
		return removed
	}
	a.held = false
	r.cleanup.Go(func() {
		defer close(removed)
		defer stay.Leave()
		ctx, stop := attended.WithTimeout(r.cleanupCtx, cleanupTime)
		defer stop()
		if err := r.Worker.Release(ctx, a.key()); err != nil {
			r.Progress.Event(progress.Warning{Message: fmt.Sprintf("cleaning up after %s: %v", a.id(), err)})
		}
	})
	return removed
}

// announce reports that an attempt begins.
func (r *run) announce(a *ongoing) {
	r.mu.Lock()
	r.started++
	index := r.started
	r.mu.Unlock()
	r.Progress.Event(progress.TaskStart{Index: index, Total: r.Total, TaskID: a.id(), Attempt: a.draft.Number, Family: a.draft.Task.Family()})
}
