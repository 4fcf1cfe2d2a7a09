package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"securebench/internal/pipeline/attempt"
	"securebench/internal/remote"
	"securebench/internal/remote/result"
	"securebench/internal/sandbox"
)

// listen answers what workers ask. The queue's server has seen to it that each asks in
// its own name.
func (h *Hub) listen() error {
	at := func(subject string, answer func(who, job string, data []byte) (any, error)) error {
		_, err := h.broker.conn.Subscribe(subject, func(m *nats.Msg) { h.answer(m, answer) })
		if err != nil {
			return fmt.Errorf("listening to workers: %w", err)
		}
		return nil
	}
	run := "sb." + h.token + "."
	return errors.Join(
		at("sb.hello.*.*", func(who, _ string, data []byte) (any, error) {
			return asked(data, func(m remote.Hello) any { return h.hello(who, m) })
		}),
		h.listenOperator(),
		at(run+"claim.*.*.*", func(who, job string, data []byte) (any, error) {
			return asked(data, func(m remote.Claim) any { return h.claim(who, job, m) })
		}),
		at(run+"beat.*.*", func(who, _ string, data []byte) (any, error) {
			return asked(data, func(m remote.Beat) any { return h.beat(who, m) })
		}),
		at(run+"result.*.*.*", func(who, job string, data []byte) (any, error) {
			return asked(data, func(m remote.Result) any { return h.result(who, job, m) })
		}))
}

// asked decodes a message and answers it.
func asked[M any](data []byte, answer func(M) any) (any, error) {
	var m M
	if err := attempt.Decode(data, &m); err != nil {
		return nil, err
	}
	return answer(m), nil
}

// answer answers one message. The last parts of its subject are the worker's name, its
// instance and the job, if there is one.
func (h *Hub) answer(m *nats.Msg, answer func(who, job string, data []byte) (any, error)) {
	parts := strings.Split(m.Subject, ".")
	from := 3 // sb.TOKEN.KIND.NAME.INSTANCE
	if parts[1] == "hello" {
		from = 2
	}
	job := ""
	if len(parts) > from+2 {
		job = parts[from+2]
	}
	who := parts[from] + "." + parts[from+1]
	h.reply(m, who, func() (any, error) { return answer(who, job, m.Data) })
}

// reply sends an answer, or that a message cannot be read.
func (h *Hub) reply(m *nats.Msg, who string, answer func() (any, error)) {
	v, err := answer()
	var b []byte
	if err == nil {
		b, err = attempt.Encode(v)
	}
	if err != nil {
		h.warn("a message of %s: %v", who, err)
		b, _ = attempt.Encode(remote.Answer{State: remote.Refused, Why: "the message cannot be read"}) // plain values
	}
	_ = m.Respond(b) // whoever hears nothing asks again
}

// hello lets a worker in that runs the same program and an equal engine.
func (h *Hub) hello(who string, m remote.Hello) remote.Welcome {
	name, _, _ := strings.Cut(who, ".")
	var here *Worker // that was not before
	defer func() { h.came(here) }()
	h.mu.Lock()
	roles := slices.DeleteFunc(slices.Clone(m.Roles), func(r remote.Role) bool { return !slices.Contains(h.invited[name], r) })
	w := h.workers[who]
	h.mu.Unlock()
	switch {
	case m.Build != h.Build:
		return h.refuse(name, "it is another build of securebench: install the one that the run has")
	case len(roles) == 0:
		return h.refuse(name, "its credential allows none of the roles that it asks for")
	}
	if why := unequal(h.Engine, m.Engine); why != "" {
		return h.refuse(name, why)
	}
	if slices.ContainsFunc(roles, func(r remote.Role) bool { was, has := m.Inputs[r]; return has && was != h.Orders[r].Inputs }) {
		return remote.Welcome{Token: h.token, Inputs: h.inputs(roles)} // it gets no job before it has the new orders
	}
	if w == nil { // greetings are heard one after the other
		w = &Worker{ID: who, Name: name, Roles: roles, Engine: m.Engine, First: time.Now(), Last: time.Now(), home: map[remote.Role]int{}, dry: map[remote.Role]time.Time{}}
		if h.Met != nil {
			if err := h.Met(*w); err != nil {
				h.warn("%v", err)
				return remote.Welcome{Refused: "the run cannot write down that it is there"}
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.workers[who] = w
	joins := w.Build == "" || w.left || w.silent
	w.Roles, w.Build, w.Engine, w.Last, w.left, w.silent = roles, m.Build, m.Engine, time.Now(), false, false
	if joins {
		here = new(*w)
	}
	out := remote.Welcome{RunID: h.RunID, Token: h.token, Lease: h.Lease, Port: h.blobs.port, Tickets: map[remote.Role]string{}, Inputs: h.inputs(roles), Roles: roles, Pools: h.Pools, Home: maps.Clone(h.settled(w))}
	for _, r := range roles {
		t := random()
		h.tickets[t] = ticket{role: r, who: who}
		out.Tickets[r] = t
	}
	return out
}

// inputs are those of the orders for roles.
func (h *Hub) inputs(roles []remote.Role) map[remote.Role]string {
	out := map[remote.Role]string{}
	for _, r := range roles {
		out[r] = h.Orders[r].Inputs
	}
	return out
}

// refuse does not let a worker in.
func (h *Hub) refuse(name, why string) remote.Welcome {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tally.refuse(name, why)
	return remote.Welcome{Refused: why}
}

// came reports a worker that joins or answers again, if there is one.
func (h *Hub) came(w *Worker) {
	if w != nil && h.Came != nil {
		h.Came(*w)
	}
}

// gone reports a worker that leaves, or was lost.
func (h *Hub) gone(id string, lost bool, why string) {
	if h.Gone != nil {
		h.Gone(id, lost, why)
	}
}

// unequal says how a worker's engine differs from the run's in what a score can depend
// on, or "". Kernels may differ.
func unequal(want *sandbox.Info, is sandbox.Info) string {
	if want == nil {
		return ""
	}
	if own, others := is.Unlike(*want); own != others {
		return fmt.Sprintf("its %s is %q, and the run's is %q", own.What, own.Value, others.Value)
	}
	return ""
}

// claim gives a job to a worker, unless another has it.
func (h *Hub) claim(who, id string, c remote.Claim) remote.Grant {
	h.mu.Lock()
	j, again, state := h.claimed(who, id, c)
	if state != remote.OK {
		h.mu.Unlock()
		return remote.Grant{State: state}
	}
	var next []*job
	if !again {
		next = h.give(j, who)
	}
	delete(h.tickets, j.ticket)
	j.beat, j.ticket = time.Now(), random()
	h.tickets[j.ticket] = ticket{role: j.role, who: who, job: j}
	out := remote.Grant{State: remote.OK, Grant: j.grant, Ticket: j.ticket, Relay: h.admit(j, again)}
	leaves, small := j.leaves, j.size <= maxInGrant
	h.mu.Unlock()
	if !again {
		h.note(grantLine{Job: id, Grant: out.Grant, Who: who})
		h.work.Go(func() {
			h.unqueue(j)
			close(leaves)
			h.publishAll(context.Background(), next...)
		})
		h.starts(j, who)
	}
	if c.Grant == 0 && small {
		out.Request, _ = attempt.Encode(j.request) // whoever does not get it here asks for it
		out.Candidate = j.smallCandidate()
	}
	return out
}

// claimed finds a job that a worker asks for, and says whether it has it already. The
// caller holds the lock.
func (h *Hub) claimed(who, id string, c remote.Claim) (j *job, again bool, state remote.State) {
	w, j := h.workers[who], h.jobs[id]
	name, _, _ := strings.Cut(who, ".")
	switch {
	case h.done:
		return nil, false, remote.Done
	case h.invited[name] == nil: // it was revoked, and is about to be disconnected
		return nil, false, remote.Cancelled
	case w == nil, j == nil && h.awaited(who, id, c.Grant): // it introduces itself again with its next beat
		return nil, false, remote.Later
	case j == nil, h.ended, j.taken, !j.named(c.Nonce), !slices.Contains(w.Roles, j.role):
		return nil, false, remote.Cancelled
	}
	again = j.holder == who && (c.Grant == j.grant || c.Grant == 0) // the answer was lost, or the ticket
	switch {
	case !again && (j.holder != "" || w.draining && c.Grant == 0):
		return nil, false, remote.Later
	case !again && c.Grant > 0:
		return nil, false, remote.Fenced
	}
	return j, again, remote.OK
}

// give makes a worker the holder of a job, and returns those whose turn it is in the queue.
// The caller holds the lock, and takes the job out of the queue then.
func (h *Hub) give(j *job, who string) (next []*job) {
	w := h.workers[who]
	j.grant++
	j.holder, j.since, j.leaves = who, time.Now(), make(chan struct{})
	h.settle(j)
	delete(w.dry, j.role)
	w.Deliveries++
	last := granted{at: time.Now(), queued: j.queued}
	if former := h.last[j.waitsIn()].queued; former.After(j.queued) {
		last.queued = former
	}
	h.last[j.waitsIn()] = last
	h.tally.deliveries++
	return h.vacate(j)
}

// maxInGrant bounds a request, and the candidate of one, that come with the answer to a
// claim. One message is cheaper than two requests over HTTPS, as long as it is short.
const maxInGrant = 64 << 10

// smallCandidate is the candidate that a worker may have with a job, nil if there is none,
// it is large, or it cannot be read: whoever asks for it then hears why.
func (j *job) smallCandidate() []byte {
	if j.reads == nil {
		return nil
	}
	in, err := j.reads.Open()
	if err != nil {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(in, maxInGrant+1))
	if err = errors.Join(err, in.Close()); err != nil || len(b) > maxInGrant {
		return nil
	}
	return b
}

// named reports whether a nonce is that of the job. Nobody knows one of a job that was never
// queued.
func (j *job) named(nonce string) bool { return j.nonce != "" && j.nonce == nonce }

// starts reports that a call of an attempt begins.
func (h *Hub) starts(j *job, who string) {
	switch {
	case h.Starts == nil || j.kind == result.Complete:
	case j.kind == result.Verify:
		h.Starts(remote.Verify, j.key, who)
	default:
		h.Starts(remote.Produce, j.key, who)
	}
}

// beat notes that a worker lives and what it has.
func (h *Hub) beat(who string, b remote.Beat) remote.Pulse {
	var here *Worker // that was silent
	leaves, why := false, "has left"
	if b.Lost {
		why = killed
	}
	defer func() {
		if h.came(here); leaves {
			h.gone(who, b.Lost, why)
		}
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	out := remote.Pulse{Jobs: map[string]remote.State{}, Home: map[remote.Role]int{}, Done: h.done, Ended: h.ended}
	if w := h.workers[who]; w != nil {
		leaves = b.Leaving && !w.left
		if w.silent && !b.Leaving {
			here = new(*w)
		}
		w.Last, w.left, w.silent, w.draining = time.Now(), b.Leaving, false, w.leaves || b.Draining
		out.Drain = w.leaves
		h.tally.pull(b.Pulls)
		for _, r := range b.Dry[:min(len(b.Dry), len(w.Roles))] {
			if pool, ok := h.rehome(w, r); ok {
				out.Home[r] = pool
			}
		}
	} else {
		out.Hello = true
	}
	for _, held := range b.Jobs {
		out.Jobs[held.ID] = h.has(who, held)
	}
	if b.Leaving {
		h.takeBack(who, b.Jobs, b.Lost)
	}
	return out
}

// killed is what became of a worker whose next process has said so.
const killed = "was killed"

// takeBack takes from a worker that leaves what it does not have any more. Others get
// it as soon as it is queued again; what is lost counts as a try of its attempt, as a job
// that kills workers must. The caller holds the lock.
func (h *Hub) takeBack(who string, has []remote.Held, lost bool) {
	for id, j := range h.jobs {
		if j.holder != who || j.taken || slices.ContainsFunc(has, func(held remote.Held) bool { return held.ID == id }) {
			continue
		}
		if lost {
			j.end(ending{err: fmt.Errorf("the worker %s %s", who, killed)})
			continue
		}
		j.holder, j.since = "", time.Now()
		h.settle(j)
		h.dismiss(j)
		delete(h.tickets, j.ticket)
		h.goOut(j)
		h.work.Go(func() { h.publishAll(context.Background(), j) })
	}
}

// has says whether a worker still has a job. The caller holds the lock.
func (h *Hub) has(who string, held remote.Held) remote.State {
	j := h.jobs[held.ID]
	switch {
	case h.done:
		return remote.Done
	case h.ended:
		return remote.Cancelled
	case j == nil && h.awaited(who, held.ID, held.Grant):
		return remote.OK
	case j == nil:
		return remote.Cancelled
	case !j.named(held.Nonce):
		return remote.Cancelled
	case j.holder == "" && h.awaited(who, held.ID, held.Grant): // it was silent for a while, and nobody else has it
		j.holder, j.since = who, time.Now()
		h.settle(j)
	case j.holder != who || j.grant != held.Grant:
		return remote.Fenced
	}
	j.beat, j.restored = time.Now(), false
	return remote.OK
}

// awaited reports whether a worker was the last that was given a job, and that has not
// ended. A run that goes on may wait for it only later.
func (h *Hub) awaited(who, id string, grant int64) bool {
	g, ok := h.journal.held(id)
	return ok && g.Who == who && g.Grant == grant
}

// result takes what came of a job, if the worker has it. Everything else changes
// nothing.
func (h *Hub) result(who, id string, r remote.Result) remote.Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := h.jobs[id]
	switch {
	case j == nil && h.awaited(who, id, r.Grant) && !h.ended:
		return remote.Answer{State: remote.Later}
	case j == nil, h.ended, j.taken:
		h.tally.superseded++
		return remote.Answer{State: remote.Superseded}
	}
	out, err := result.Job{Kind: j.kind, Nonce: j.nonce, Holder: j.holder, Grant: j.grant, Stored: j.stored, Value: j.value}.Read(who, r)
	switch {
	case errors.Is(err, result.ErrLate):
		h.tally.superseded++
		h.warn("a result of the worker %s comes too late: another one has the job", who)
		return remote.Answer{State: remote.Superseded}
	case err != nil:
		h.tally.unread++
		if !errors.Is(err, result.ErrOther) {
			j.end(ending{err: fmt.Errorf("the worker %s: %w", who, err)})
		}
		return remote.Answer{State: remote.Refused, Why: err.Error()}
	}
	h.tally.took[j.role].add(time.Since(j.since))
	j.end(ending{outcome: out, who: who})
	return remote.Answer{State: remote.Committed}
}
