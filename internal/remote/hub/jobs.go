package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/record"
	"securebench/internal/remote"
	"securebench/internal/remote/result"
	"securebench/internal/verdict"
)

// order is a call that a worker is to make.
type order struct {
	role    remote.Role
	key     record.AttemptKey
	kind    string
	phase   verdict.Phase
	request remote.Request
	reads   *candidate.Candidate // that the worker may have
}

// job is a call that the run waits for.
type job struct {
	order
	id, nonce string
	pool      int
	ended     chan ending

	// What follows is guarded by the hub's lock.
	holder   string // "" for none
	grant    int64
	restored bool      // the holder has it from an earlier part of the run
	beat     time.Time // the last of its holder
	since    time.Time // it is queued, or its holder has it
	queued   time.Time // for the last time
	ticket   string
	visits   []*visit             // of agents at their provider, the holder's last
	stored   *candidate.Candidate // that the holder has put
	value    []byte               // that the holder has put
	taken    bool                 // it has ended
	waits    bool                 // it is counted among those that wait
	leaves   chan struct{}        // closed when it is out of the queue, after the last grant
}

// granted is when a job of a room was given to a worker for the last time, and the latest
// time at which one was queued that was.
type granted struct{ at, queued time.Time }

// ending is how a job ended.
type ending struct {
	outcome remote.Outcome
	who     string
	err     error
}

// jobID names the job of an attempt as one token of a subject.
func jobID(key record.AttemptKey, kind string) string {
	sum := sha256.Sum256([]byte(key.Task))
	return fmt.Sprintf("%s-%d-%s", hex.EncodeToString(sum[:12]), key.Attempt, kind)
}

// newJob makes a job that nobody knows yet.
func (h *Hub) newJob(o order) (*job, error) {
	encoded, err := attempt.Encode(o.request)
	if err != nil {
		return nil, err
	}
	id := jobID(o.key, o.kind)
	return &job{order: o, id: id, pool: h.poolOf(o.request), nonce: remote.Nonce(h.Salt, id, h.Orders[o.role].Inputs, encoded), ended: make(chan ending, 1)}, nil
}

// call queues a job and waits until a worker has done it. An error is an
// [*attempt.Error].
func (h *Hub) call(ctx context.Context, o order) (remote.Outcome, error) {
	j, err := h.newJob(o)
	if err != nil {
		return remote.Outcome{}, attempt.Failed(err, o.phase)
	}
	h.add(j)
	defer h.remove(j)
	if err := h.publish(ctx, j); err != nil {
		h.warn("queueing a job: %v", err) // it is queued again soon
	}
	select {
	case e := <-j.ended:
		return h.outcome(j, h.reached(j, e))
	case <-ctx.Done():
		return remote.Outcome{}, attempt.Failed(context.Cause(ctx), o.phase)
	}
}

// outcome returns what a job ended with, which is no error of this process.
func (h *Hub) outcome(j *job, e ending) (remote.Outcome, error) {
	if e.outcome.Failed != nil {
		return remote.Outcome{}, e.outcome.Failed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	by := h.by[j.key]
	switch j.kind {
	case result.Produce, result.Solve:
		by.Produce = e.who
	case result.Verify:
		by.Verify = e.who
	}
	h.by[j.key] = by
	return e.outcome, nil
}

// add makes a job known. A worker that had it before the run was interrupted still has
// it.
func (h *Hub) add(j *job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j.since, j.queued = time.Now(), time.Now()
	if g, ok := h.journal.held(j.id); ok {
		j.grant = g.Grant
		if j.holder = g.Who; g.Who != "" {
			j.restored, j.beat = true, time.Now()
		}
	}
	h.jobs[j.id] = j
	h.settle(j)
}

// remove forgets a job.
func (h *Hub) remove(j *job) {
	h.end(j)
	h.mu.Lock()
	delete(h.jobs, j.id)
	h.settle(j)
	delete(h.tickets, j.ticket)
	held := j.holder != ""
	h.mu.Unlock()
	if held {
		h.note(grantLine{Job: j.id, Grant: j.grant})
	} else {
		h.unqueue(j)
	}
}

// note writes a grant down.
func (h *Hub) note(g grantLine) {
	if err := h.journal.write(g); err != nil {
		h.warn("%v", err)
	}
}

// subject is where a job is queued.
func (h *Hub) subject(j *job) string { return remote.Work(h.token, j.role, j.pool, j.id) }

// publish queues a job, unless it is queued.
func (h *Hub) publish(ctx context.Context, j *job) error {
	b, err := attempt.Encode(remote.Job{ID: j.id, Nonce: j.nonce})
	if err != nil {
		return err
	}
	h.mu.Lock()
	leaves := j.leaves
	h.mu.Unlock()
	if leaves != nil {
		<-leaves // it would be taken out again
	}
	ctx, stop := attended.WithTimeout(ctx, startTime)
	defer stop()
	_, err = h.broker.js.Publish(ctx, h.subject(j), b)
	if full := (*jetstream.APIError)(nil); errors.As(err, &full) && full.ErrorCode == tooMany {
		return nil
	}
	return err
}

// tooMany is the queue's answer to a second message of a job.
const tooMany = 10077

// unqueue takes a job out of the queue: no worker's acknowledgement decides that. It is
// deleted by its place. Purging its subject would let the queue forget to deliver others
// again, which stay in it and cannot be queued a second time.
func (h *Hub) unqueue(j *job) {
	ctx, stop := attended.WithTimeout(context.Background(), startTime)
	defer stop()
	queue := h.broker.queues[j.role]
	m, err := queue.GetLastMsgForSubject(ctx, h.subject(j))
	if err == nil {
		err = queue.DeleteMsg(ctx, m.Sequence)
	}
	if err != nil && !isGone(err) && !h.closing() {
		h.warn("taking a job out of the queue: %v", err) // whoever gets it hears that nobody waits for it
	}
}

// isGone reports whether the queue has no such message, or has it no more.
func isGone(err error) bool {
	refused := (*jetstream.APIError)(nil)
	return errors.Is(err, jetstream.ErrMsgNotFound) || errors.As(err, &refused) && refused.ErrorCode == noMessage
}

// noMessage is the queue's answer to the deletion of a message that it does not have.
const noMessage = 10057

// closing reports whether this part of the run has ended.
func (h *Hub) closing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}

// end ends a job, once. The caller holds the lock.
func (j *job) end(e ending) {
	if !j.taken {
		j.taken = true
		j.ended <- e
	}
}

// watch takes jobs from workers that are silent, queues again what the queue has lost,
// and sees who is invited.
func (h *Hub) watch(ctx context.Context) {
	every := time.NewTicker(min(h.Lease/8, time.Second))
	defer every.Stop()
	for reconciled, counted := time.Now(), 0; ; {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		h.expire()
		if err := h.readInvited(); err != nil {
			h.warn("%v", err)
		}
		if time.Since(reconciled) >= h.Lease {
			h.reconcile(ctx)
			counted = h.count(counted)
			reconciled = time.Now()
		}
	}
}

// count says what workers were given if that has changed since so many deliveries.
func (h *Hub) count(before int) int {
	h.mu.Lock()
	now := h.tally.deliveries
	h.mu.Unlock()
	if now != before && h.Counted != nil {
		h.Counted(h.Seen())
	}
	return now
}

// expire takes jobs from workers that have been silent for a lease. That counts as a
// try of the attempt, unless it was of an earlier part of the run.
func (h *Hub) expire() {
	var lost []string
	defer func() {
		for _, id := range lost {
			h.gone(id, true, "does not answer")
		}
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, w := range h.workers {
		if !w.left && !w.silent && time.Since(w.Last) >= h.Lease {
			w.silent = true
			lost = append(lost, id)
		}
	}
	for _, j := range h.jobs {
		if j.holder == "" || j.taken || time.Since(j.beat) < h.Lease {
			continue
		}
		if j.restored {
			j.holder, j.restored, j.since = "", false, time.Now()
			h.settle(j)
			continue
		}
		j.end(ending{err: fmt.Errorf("the worker %s stopped answering", j.holder)})
	}
}

// reconcile queues jobs that nobody has.
func (h *Hub) reconcile(ctx context.Context) {
	if err := h.broker.makeStreams(ctx, h.Lease); err != nil {
		h.warn("%v", err)
		return
	}
	h.mu.Lock()
	free := slices.DeleteFunc(slices.Collect(maps.Values(h.jobs)), func(j *job) bool { return j.holder != "" || j.taken })
	h.mu.Unlock()
	slices.SortFunc(free, func(a, b *job) int { return a.since.Compare(b.since) }) // the order of the queue
	for _, j := range free {
		if h.stuck(j) {
			h.unqueue(j)
		}
		if err := h.publish(ctx, j); err != nil && ctx.Err() == nil {
			h.warn("queueing a job: %v", err)
		}
		if !h.waiting(j) { // it was given to a worker, or has ended, meanwhile
			h.unqueue(j)
		}
	}
}

// stuck reports whether the queue has had a job for a lease and does not give it to
// anybody: others that came later were given, or none of its role was. A worker can have
// put it off, and the queue's server can have forgotten it.
func (h *Hub) stuck(j *job) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.last[j.waitsIn()]
	if time.Since(j.queued) < h.Lease || time.Since(last.at) < h.Lease && !last.queued.After(j.queued) {
		return false
	}
	j.queued = time.Now()
	return true
}

// waiting reports whether a job, or another try of it, waits for a worker.
func (h *Hub) waiting(j *job) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.jobs[j.id]
	return now != nil && now.holder == "" && !now.taken
}

// readInvited reads who is invited. A worker that is not any more is disconnected, and
// loses what it has.
func (h *Hub) readInvited() error {
	workers, err := h.Keys.Workers()
	if err != nil {
		return err
	}
	invited := map[string][]remote.Role{}
	for _, w := range workers {
		invited[w.Name] = w.Roles
	}
	h.mu.Lock()
	h.invited = invited
	for _, j := range h.jobs {
		name, _, _ := strings.Cut(j.holder, ".")
		if _, ok := invited[name]; j.holder != "" && !ok {
			j.end(ending{err: fmt.Errorf("the worker %s was revoked", j.holder)})
		}
	}
	var revoked []string
	for id, w := range h.workers {
		if _, ok := invited[w.Name]; !ok && !w.left {
			w.left = true
			revoked = append(revoked, id)
		}
	}
	h.mu.Unlock()
	for _, id := range revoked {
		h.gone(id, true, "was revoked")
	}
	return h.broker.refresh(workers)
}
