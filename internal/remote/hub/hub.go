// Package hub lets workers on other machines make the calls of a run's attempts. The
// run directory is the truth: what is queued is a copy in memory of what is left to do,
// and losing it costs work, never a record. A job is given to one worker at a time. Each
// grant has a number, and what comes under a lower one changes nothing.
package hub

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"securebench/internal/agent"
	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/gateway/relay/distant"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/remote"
	"securebench/internal/remote/result"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// farewell is how long the end of a run waits for its workers to hear of it.
const farewell = 5 * time.Second

// Options configure a hub. All fields are required unless noted.
type Options struct {
	Addr   string // where workers connect
	Keys   remote.Keys
	Lease  time.Duration // how long a worker may be silent; 0 is the default
	RunID  string
	Salt   digest.Salt
	Build  string        // digest of this program, which workers must have
	Engine *sandbox.Info // that workers must have; nil for any
	// Orders are what the jobs of each role have in common.
	Orders map[remote.Role]remote.Order
	Files  family.Files // of the pack
	// Trees are the archives of the trees in the orders, by digest. The hub closes them.
	Trees map[string]*os.File
	Store attempt.Store
	// Here makes the calls of agents that need no sandbox; nil if the agent needs one.
	Here attempt.Worker
	// Secrets must not be in any candidate; nil means none.
	Secrets *redact.Registry
	// Desk leads agents to their provider; nil if they have none. Accounts keep what they
	// use there; nil keeps nothing.
	Desk     *distant.Desk
	Accounts produce.Accounts
	Journal  *os.File // of grants; nil keeps none
	// Starts is called when a call of an attempt begins; worker is "" in this process. Came
	// is called when a worker joins or answers again, and Gone when it leaves, or was lost.
	// All may be nil.
	Starts func(r remote.Role, key record.AttemptKey, worker string)
	Came   func(Worker)
	Gone   func(id string, lost bool, why string)
	// Met is called for each worker before it is let in; nil is not. Its error keeps the
	// worker out for now.
	Met  func(Worker) error
	Warn func(string)
	// Counted is called now and then with what [Hub.Seen] returns; nil is not.
	Counted func([]record.Worker)
	// Metrics is an address of this machine at which programs may read how the run is; ""
	// is none.
	Metrics string
	// Pools is into how many pools jobs are divided by their images; 0 is one. Share is how
	// long a worker is without jobs before it gets those of pools in which others work; 0 is
	// a second.
	Pools int
	Share time.Duration
	// Window is how many jobs of a role and a pool are in the queue at the same time; 0 is
	// 4096.
	Window int
	// Attempts counts those of the run, for its metrics; nil counts none.
	Attempts func() (planned, begun, recorded int)
}

// Hub is open for workers. It makes the calls of attempts by them.
type Hub struct {
	Options
	token   string
	broker  *broker
	blobs   *blobs
	meter   *meter // nil if nobody asked for one
	journal *journal
	stop    context.CancelFunc
	work    sync.WaitGroup

	mu      sync.Mutex
	jobs    map[string]*job
	workers map[string]*Worker // by name and instance
	invited map[string][]remote.Role
	tickets map[string]ticket
	by      map[record.AttemptKey]record.By
	tally   tally
	last    map[room]granted
	lines   map[room]*line
	files   map[remote.Role]map[string]packFile
	queued  map[remote.Role][]int // jobs that no worker has, by pool
	done    bool                  // the run has finished
	ended   bool                  // this part of it has
}

// Worker is a worker as the run has seen it.
type Worker struct {
	ID         string // its name and instance
	Name       string
	Roles      []remote.Role
	Build      string
	Engine     sandbox.Info
	First      time.Time // seen
	Last       time.Time
	Deliveries int
	left       bool
	silent     bool                      // for a lease
	draining   bool                      // it takes no more
	leaves     bool                      // it was told to, by the operator
	home       map[remote.Role]int       // the pools that it asks
	dry        map[remote.Role]time.Time // since when these have no jobs
}

var _ attempt.Fleet = (*Hub)(nil)

// Open begins to serve workers. The caller closes the hub.
func Open(ctx context.Context, o Options) (_ *Hub, err error) {
	if o.Lease == 0 {
		o.Lease = remote.DefaultLease
	}
	o.Pools, o.Share, o.Window = max(o.Pools, 1), cmp.Or(o.Share, defaultShare), cmp.Or(o.Window, defaultWindow)
	h := &Hub{Options: o, token: remote.Token(o.RunID, digest.Bytes(o.Salt[:])), jobs: map[string]*job{}, workers: map[string]*Worker{},
		invited: map[string][]remote.Role{}, tickets: map[string]ticket{}, tally: newTally(), last: map[room]granted{}, lines: map[room]*line{}, by: map[record.AttemptKey]record.By{},
		queued: map[remote.Role][]int{remote.Produce: make([]int, o.Pools), remote.Verify: make([]int, o.Pools)}}
	h.files = map[remote.Role]map[string]packFile{}
	for r, order := range o.Orders {
		h.files[r] = packFiles(order, o.Files)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close(ctx, false))
		}
	}()
	if h.journal, err = openJournal(o.Journal); err != nil {
		return nil, err
	}
	if h.broker, err = openBroker(ctx, o.Addr, o.Keys, h.token, o.Pools); err != nil {
		return nil, err
	}
	if err = h.broker.makeStreams(ctx, o.Lease); err != nil {
		return nil, err
	}
	if h.blobs, err = openBlobs(ctx, h); err != nil {
		return nil, err
	}
	if o.Metrics != "" {
		if h.meter, err = openMeter(ctx, h); err != nil {
			return nil, err
		}
	}
	if err = h.readInvited(); err != nil {
		return nil, err
	}
	if err = h.listen(); err != nil {
		return nil, err
	}
	ctx, h.stop = context.WithCancel(context.WithoutCancel(ctx))
	h.work.Go(func() { h.watch(ctx) })
	return h, nil
}

// Addr is where workers connect.
func (h *Hub) Addr() string { return h.broker.addr() }

// MetricsAddr is where programs on this machine read metrics, "" for nowhere.
func (h *Hub) MetricsAddr() string {
	if h.meter == nil {
		return ""
	}
	return h.meter.addr
}

// Close ends the service; done says that the run has finished, and workers leave.
func (h *Hub) Close(ctx context.Context, done bool) error {
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		return nil
	}
	h.done, h.ended = done, true
	h.mu.Unlock()
	if h.stop != nil {
		h.sayGoodbye(ctx)
		h.stop()
	}
	h.work.Wait()
	var errs []error
	if h.meter != nil {
		errs = append(errs, h.meter.close())
	}
	if h.blobs != nil {
		errs = append(errs, h.blobs.close())
	}
	if h.broker != nil {
		errs = append(errs, h.broker.close())
	}
	if h.Journal != nil {
		errs = append(errs, h.Journal.Close())
	}
	for _, f := range h.Trees {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// sayGoodbye tells the workers that the run has ended, and waits until they know.
func (h *Hub) sayGoodbye(ctx context.Context) {
	ctx, stop := attended.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer stop()
	for {
		h.mu.Lock()
		var there []string
		for id, w := range h.workers {
			if !w.left && time.Since(w.Last) < h.Lease {
				there = append(there, id)
			}
		}
		h.mu.Unlock()
		if len(there) == 0 {
			return
		}
		for _, id := range there {
			_ = h.broker.conn.Publish(remote.Notice(id), nil) // it hears it with its next beat otherwise
		}
		if attended.Pause(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
}

// Record describes a worker in run.json.
func (w Worker) Record() record.Worker {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	out := record.Worker{ID: w.ID, Kernel: w.Engine.Kernel, First: at(w.First), Last: at(w.Last)}
	for _, r := range w.Roles {
		out.Roles = append(out.Roles, string(r))
	}
	return out
}

// Workers lists the workers that the run has seen, by name.
func (h *Hub) Workers() []Worker {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Worker
	for _, id := range slices.Sorted(maps.Keys(h.workers)) {
		out = append(out, *h.workers[id])
	}
	return out
}

// Seen describes, for run.json, the workers that the run has seen, with the jobs that they
// were given in all of its parts. Of those that this part has not seen it says no more.
func (h *Hub) Seen() (out []record.Worker) {
	given := h.journal.counts()
	for _, w := range h.Workers() {
		r := w.Record()
		r.Jobs = given[w.ID]
		out = append(out, r)
		delete(given, w.ID)
	}
	for id, n := range given {
		out = append(out, record.Worker{ID: id, Jobs: n})
	}
	return out
}

// By says which workers made the calls of an attempt.
func (h *Hub) By(key record.AttemptKey) record.By {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.by[key]
}

// Ahead prepares what this process does itself: workers prepare when they have a job.
func (h *Hub) Ahead(ctx context.Context, req *agent.Request, _ *family.Case) {
	if h.Here != nil && req != nil && !isProgram(*req) {
		h.Here.Ahead(ctx, req, nil)
	}
}

// isProgram reports whether a row's own solution is asked for, and is a program.
func isProgram(req agent.Request) bool { return req.Solution != nil && req.Solution.Command != nil }

// Produce lets a worker run the agent, if that needs a sandbox. The program of a solution
// is hidden, so a worker that verifies runs it, which may see what is.
func (h *Hub) Produce(ctx context.Context, req agent.Request) (attempt.Produced, error) {
	o := order{role: remote.Produce, kind: result.Produce, phase: verdict.PhaseProduce, request: remote.Request{Produce: &req},
		key: record.AttemptKey{Task: req.View.ID(), Attempt: req.Attempt}}
	switch {
	case isProgram(req):
		o.role, o.kind = remote.Verify, result.Solve
	case h.Here != nil:
		return h.Here.Produce(ctx, req)
	case req.Solution != nil:
		return attempt.Produced{}, attempt.Failed(errors.New("the solution of a row stays in this process"), verdict.PhasePrepare)
	}
	out, err := h.call(ctx, o)
	if err != nil {
		return attempt.Produced{}, err
	}
	return *out.Produced, nil
}

// Verify lets a worker score a candidate.
func (h *Hub) Verify(ctx context.Context, req attempt.Verification) (family.Verdict, error) {
	c, err := h.Store.Find(req.Candidate)
	if err != nil {
		return family.Verdict{}, attempt.Failed(err, verdict.PhaseVerify)
	}
	key := record.AttemptKey{Task: req.Case.Sandbox.ID(), Attempt: req.Case.Attempt}
	out, err := h.call(ctx, order{role: remote.Verify, key: key, kind: result.Verify, phase: verdict.PhaseVerify, request: remote.Request{Verify: &req}, reads: &c})
	if err != nil {
		return family.Verdict{}, err
	}
	return *out.Verdict, nil
}

// Release lets go of what this process has of an attempt.
func (h *Hub) Release(ctx context.Context, key record.AttemptKey) error {
	h.mu.Lock()
	delete(h.by, key)
	h.mu.Unlock()
	if h.Here == nil {
		return nil
	}
	return h.Here.Release(ctx, key)
}

// random returns a ticket that nobody can guess.
func random() string { return rand.Text() }

// warn reports what does not stop the run.
func (h *Hub) warn(format string, args ...any) { h.Warn(fmt.Sprintf(format, args...)) }

// Complete lets a worker find out a row's whole reference, of a family that is a
// [family.Completer].
func (h *Hub) Complete(ctx context.Context, c family.Case) (candidate.Candidate, bool, error) {
	key := record.AttemptKey{Task: c.Sandbox.ID(), Attempt: c.Attempt}
	out, err := h.call(ctx, order{role: remote.Verify, key: key, kind: result.Complete, phase: verdict.PhasePrepare, request: remote.Request{Complete: &c}})
	if err != nil || !out.Completed.Found {
		return candidate.Candidate{}, false, err
	}
	done := out.Completed.Candidate
	return candidate.New(done.Kind, done.Origin, out.Completed.Data), true, nil
}
