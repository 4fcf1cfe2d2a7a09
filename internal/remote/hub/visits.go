package hub

import (
	"cmp"
	"time"

	"securebench/internal/gateway/relay/distant"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/remote"
	"securebench/internal/verdict"
)

// visit is an agent's way to its provider, by one grant of its job.
type visit struct {
	*distant.Visit
	ticket string
}

// admit gives the agent of a job a way to its provider, and ends that of an earlier grant:
// what is fenced spends nothing. It returns the ticket, "" if the agent has no provider.
// The caller holds the lock.
func (h *Hub) admit(j *job, again bool) string {
	if h.Desk == nil || j.role != remote.Produce {
		return ""
	}
	if again && len(j.visits) > 0 {
		return j.visits[len(j.visits)-1].ticket
	}
	h.dismiss(j)
	ticket, key := random(), j.key
	for range j.agents() {
		j.visits = append(j.visits, &visit{ticket: ticket, Visit: h.Desk.Admit(ticket, func() (map[string]int64, func(map[string]int64) error) {
			if h.Accounts == nil {
				return nil, nil
			}
			return h.Accounts.Begin(key.Task, key.Attempt)
		})})
	}
	return ticket
}

// agents is how many agents a job runs, one after the other: one for each presentation
// of its task.
func (j *job) agents() int {
	n := 0
	if j.request.Produce != nil {
		for _, v := range j.request.Produce.Shown {
			if v != nil {
				n++
			}
		}
	}
	return max(n, 1)
}

// latest returns the visits of the last grant of a job.
func (j *job) latest() (out []*visit) {
	for _, v := range j.visits {
		if v.ticket == j.visits[len(j.visits)-1].ticket {
			out = append(out, v)
		}
	}
	return out
}

// dismiss ends the way to the provider of a job's agent, whose worker has the job no more.
// The caller holds the lock.
func (h *Hub) dismiss(j *job) {
	for _, v := range j.latest() {
		h.work.Go(func() { v.End() })
	}
}

// known is what the run knows of the visits of a job, which counts all of them.
type known struct {
	visits []*distant.Known
	// Of the last grant with a visit: its ticket, whether the budget is spent, and why the
	// provider failed.
	ticket string
	spent  bool
	err    error
}

// end ends a job's visits.
func (h *Hub) end(j *job) (k known) {
	h.mu.Lock()
	visits := j.visits
	h.mu.Unlock()
	for _, v := range visits {
		of := v.End()
		if of == nil {
			continue
		}
		k.visits = append(k.visits, of)
		if k.ticket != v.ticket {
			k.ticket, k.spent, k.err = v.ticket, false, nil
		}
		k.spent = k.spent || of.Spent()
		k.err = cmp.Or(k.err, of.Err())
	}
	return k
}

// ran notes that the agent of a job has run, if it has a visit.
func (h *Hub) ran(j *job) {
	h.mu.Lock()
	latest := j.latest()
	h.mu.Unlock()
	if len(latest) > 0 {
		latest[0].Ran()
	}
}

// Usage counts what the visits used.
func (k known) Usage() (sum map[string]int64) {
	for _, v := range k.visits {
		sum = record.SumUsage(sum, v.Usage())
	}
	return sum
}

// Words are the refusal of the last visit with one, and how the last one ended.
func (k known) Words() (refusal, cut string) {
	for _, v := range k.visits {
		last, end := v.Words()
		refusal, cut = cmp.Or(last, refusal), end
	}
	return refusal, cut
}

// Held is how long the agents stood still.
func (k known) Held() (sum time.Duration) {
	for _, v := range k.visits {
		sum += v.Held()
	}
	return sum
}

// Trace is the visits' exchanges and steps, one after the other.
func (k known) Trace() (exchanges, steps []byte) {
	for _, v := range k.visits {
		some, did := v.Trace()
		exchanges, steps = append(exchanges, some...), append(steps, did...)
	}
	return exchanges, steps
}

// reached adds what the run's relay knows of an agent to the end of its job.
func (h *Hub) reached(j *job, e ending) ending {
	switch {
	case e.err != nil:
		e.outcome, e.err = remote.Outcome{Failed: attempt.Failed(e.err, j.phase)}, nil
	case e.outcome.Failed != nil:
		h.doubt(j, e.outcome.Failed)
	}
	if f := e.outcome.Failed; e.outcome.Produced != nil || f != nil && f.Phase == verdict.PhaseCapture {
		h.ran(j)
	}
	k := h.end(j)
	if len(k.visits) == 0 {
		return e
	}
	r := attempt.Reached{Reached: produce.Reached{Provider: k}, Spent: k.spent, Err: k.err, Secrets: h.Secrets}
	for _, v := range k.visits {
		r.Lines, r.Counts = append(r.Lines, v.Network...), record.SumUsage(r.Counts, v.Counts)
	}
	switch {
	case e.outcome.Failed != nil:
		r.AddToError(e.outcome.Failed)
	case e.outcome.Produced != nil:
		r.AddTo(e.outcome.Produced)
	}
	return e
}
