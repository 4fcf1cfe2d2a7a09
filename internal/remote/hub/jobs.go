package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

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
	id    string
	pool  int
	ended chan *ending
	gone  <-chan struct{} // closed when the run does not wait any more

	// What follows is guarded by the hub's lock.
	nonce    string // "" until the job is queued, or held from an earlier part of the run
	size     int    // of the request, once there is a nonce
	place    uint64 // in the queue, 0 if it is unknown
	out      bool   // it is in the queue, or about to be
	holder   string // "" for none
	grant    int64
	restored bool      // the holder has it from an earlier part of the run
	beat     time.Time // the last of its holder
	since    time.Time // it is queued, or its holder has it
	queued   time.Time // for the last time; zero before the first
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
func (h *Hub) newJob(ctx context.Context, o order) *job {
	return &job{order: o, id: jobID(o.key, o.kind), pool: h.poolOf(o.request), ended: make(chan *ending, 1), gone: ctx.Done()}
}

// call queues a job and waits until a worker has done it. An error is an
// [*attempt.Error].
func (h *Hub) call(ctx context.Context, o order) (remote.Outcome, error) {
	j := h.newJob(ctx, o)
	if err := h.add(j); err != nil {
		return remote.Outcome{}, attempt.Failed(err, o.phase)
	}
	defer h.remove(j)
	h.enqueue(ctx, j)
	select {
	case e := <-j.ended:
		return h.outcome(j, h.reached(j, *e))
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
func (h *Hub) add(j *job) error {
	g, known := h.journal.held(j.id)
	if known && g.Who != "" {
		if err := h.arm(j); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	j.since = time.Now()
	if known {
		j.grant = g.Grant
		if j.holder = g.Who; g.Who != "" {
			j.restored, j.beat = true, time.Now()
		}
	}
	h.jobs[j.id] = j
	h.settle(j)
	return nil
}

// remove forgets a job, once it is out of the queue: another try of it has its place there.
func (h *Hub) remove(j *job) {
	h.end(j)
	h.mu.Lock()
	delete(h.jobs, j.id)
	h.settle(j)
	delete(h.tickets, j.ticket)
	held, leaves, out := j.holder != "", j.leaves, j.out
	next := h.vacate(j)
	h.mu.Unlock()
	if held {
		h.note(grantLine{Job: j.id, Grant: j.grant})
	}
	if leaves != nil {
		<-leaves
	}
	if out {
		h.unqueue(j)
	}
	h.publishAll(context.Background(), next...)
}

// note writes a grant down.
func (h *Hub) note(g grantLine) {
	if err := h.journal.write(g); err != nil {
		h.warn("%v", err)
	}
}

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
		j.ended <- &e
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
