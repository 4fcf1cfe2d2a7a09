package hub

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"securebench/internal/attended"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/remote"
)

// defaultWindow is how many jobs of a room are in the queue at the same time. The others
// wait in this process, which takes less memory, and a run that goes on has soon queued
// what workers ask for.
const defaultWindow = 4096

// line is what waits in a room: how many jobs are in the queue, and in their order those
// that are not yet.
type line struct {
	out  int
	next []*job
}

// line returns the line of a room. The caller holds the lock.
func (h *Hub) line(at room) *line {
	l := h.lines[at]
	if l == nil {
		l = &line{}
		h.lines[at] = l
	}
	return l
}

// enqueue queues a job when it is its turn.
func (h *Hub) enqueue(ctx context.Context, j *job) {
	h.mu.Lock()
	l := h.line(j.waitsIn())
	if l.out >= h.Window || len(l.next) > 0 {
		l.next = append(l.next, j)
		h.mu.Unlock()
		return
	}
	h.goOut(j)
	h.mu.Unlock()
	h.publishes(ctx, j)
}

// goOut counts a job as queued, which the caller does next. The caller holds the lock.
func (h *Hub) goOut(j *job) {
	if j.queued = time.Now(); !j.out {
		j.out = true
		h.line(j.waitsIn()).out++
	}
}

// vacate counts a job as queued no more, and returns those whose turn it is now. The caller
// holds the lock.
func (h *Hub) vacate(j *job) (now []*job) {
	l := h.line(j.waitsIn())
	if j.out {
		j.out = false
		l.out--
	}
	for l.out < h.Window && len(l.next) > 0 && !h.ended {
		first := l.next[0]
		l.next[0], l.next = nil, l.next[1:]
		if h.jobs[first.id] == first && !first.taken && !first.isGone() {
			h.goOut(first)
			now = append(now, first)
		}
	}
	return now
}

// isGone reports whether the run does not wait any more.
func (j *job) isGone() bool {
	select {
	case <-j.gone:
		return true
	default:
		return false
	}
}

// publishes queues a job now. If that fails, it is queued again soon, unless its request is
// at fault.
func (h *Hub) publishes(ctx context.Context, j *job) {
	if err := h.arm(j); err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		j.end(ending{err: err})
		return
	}
	if err := h.publish(ctx, j); err != nil && ctx.Err() == nil && !h.closing() {
		h.warn("queueing a job: %v", err)
	}
}

// publishAll queues jobs. One that was given to a worker, or has ended, meanwhile is taken
// out again.
func (h *Hub) publishAll(ctx context.Context, now ...*job) {
	for _, j := range now {
		if h.publishes(ctx, j); !h.waiting(j) {
			h.unqueue(j)
		}
	}
}

// arm gives a job its nonce.
func (h *Hub) arm(j *job) error {
	h.mu.Lock()
	armed := j.nonce != ""
	h.mu.Unlock()
	if armed {
		return nil
	}
	encoded, err := attempt.Encode(j.request)
	if err != nil {
		return err
	}
	nonce := remote.Nonce(h.Salt, j.id, h.Orders[j.role].Inputs, encoded)
	h.mu.Lock()
	defer h.mu.Unlock()
	j.nonce, j.size = nonce, len(encoded)
	return nil
}

// subject is where a job is queued.
func (h *Hub) subject(j *job) string { return remote.Work(h.token, j.role, j.pool, j.id) }

// publish queues a job that is armed, unless it is queued.
func (h *Hub) publish(ctx context.Context, j *job) error {
	h.mu.Lock()
	leaves, nonce := j.leaves, j.nonce
	j.place = 0
	h.mu.Unlock()
	b, err := attempt.Encode(remote.Job{ID: j.id, Nonce: nonce})
	if err != nil {
		return err
	}
	if leaves != nil {
		<-leaves // it would be taken out again
	}
	ctx, stop := attended.WithTimeout(ctx, startTime)
	defer stop()
	done, err := h.broker.js.Publish(ctx, h.subject(j), b)
	if full := (*jetstream.APIError)(nil); errors.As(err, &full) && full.ErrorCode == tooMany {
		return nil
	}
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	j.place = done.Sequence
	return nil
}

// tooMany is the queue's answer to a second message of a job.
const tooMany = 10077

// unqueue takes a job out of the queue: no worker's acknowledgement decides that. It is
// deleted by its place. Purging its subject would let the queue forget to deliver others
// again, which stay in it and cannot be queued a second time. Where the queue was lost and
// made again meanwhile, another job may have the place: that is queued again soon.
func (h *Hub) unqueue(j *job) {
	ctx, stop := attended.WithTimeout(context.Background(), startTime)
	defer stop()
	queue := h.broker.queues[j.role]
	h.mu.Lock()
	place := j.place
	h.mu.Unlock()
	var err error
	if place == 0 {
		var m *jetstream.RawStreamMsg
		if m, err = queue.GetLastMsgForSubject(ctx, h.subject(j)); err == nil {
			place = m.Sequence
		}
	}
	if err == nil {
		err = queue.DeleteMsg(ctx, place)
	}
	if err != nil && !notThereAnyMore(err) && !h.closing() {
		h.warn("taking a job out of the queue: %v", err) // whoever gets it hears that nobody waits for it
	}
}

// notThereAnyMore reports whether the queue has no such message, or has it no more.
func notThereAnyMore(err error) bool {
	refused := (*jetstream.APIError)(nil)
	return errors.Is(err, jetstream.ErrMsgNotFound) || errors.As(err, &refused) && refused.ErrorCode == noMessage
}

// noMessage is the queue's answer to the deletion of a message that it does not have.
const noMessage = 10057

// reconcile queues jobs again that the queue should have, and that nobody has.
func (h *Hub) reconcile(ctx context.Context) {
	if err := h.broker.makeStreams(ctx, h.Lease); err != nil {
		h.warn("%v", err)
		return
	}
	h.mu.Lock()
	free := slices.DeleteFunc(slices.Collect(maps.Values(h.jobs)), func(j *job) bool { return !j.out || j.holder != "" || j.taken })
	h.mu.Unlock()
	slices.SortFunc(free, func(a, b *job) int { return a.since.Compare(b.since) }) // the order of the queue
	for _, j := range free {
		if h.stuck(j) {
			h.unqueue(j)
		}
		h.publishAll(ctx, j)
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
