package hub

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"securebench/internal/remote"
)

// The bounds of a status, which has to fit into a message.
const (
	shownWorkers = 1000
	shownJobs    = 500
)

// A job is a straggler if it has taken so many times as long as most, of which so many
// must have ended.
const (
	strangeTimes = 3
	strangeAfter = 5
)

// kept is of how many jobs the hub knows how long they took.
const kept = 255

// tally counts what the operator may want to know. It is guarded by the hub's lock.
type tally struct {
	deliveries, superseded, unread int
	in, out                        int64 // content, in bytes
	refused                        map[string]remote.Refusal
	took                           map[remote.Role]*took
	pulls                          took // of images by workers
}

// took is how long jobs of a role, or pulls of images, took.
type took struct {
	ended   int
	seconds float64
	within  [8]int // those that took no longer, by bound
	last    []time.Duration
}

// bounds are the limits of the histograms, in seconds.
func bounds() [len(took{}.within)]float64 {
	return [...]float64{1, 5, 15, 60, 300, 900, 3600, 14400}
}

func newTally() tally {
	return tally{refused: map[string]remote.Refusal{}, took: map[remote.Role]*took{remote.Produce: {}, remote.Verify: {}}}
}

// add counts one that has ended.
func (t *took) add(d time.Duration) {
	for i, most := range bounds() {
		if d.Seconds() <= most {
			t.within[i]++
		}
	}
	t.seconds += d.Seconds()
	if t.ended++; len(t.last) < kept {
		t.last = append(t.last, d)
	} else {
		t.last[t.ended%kept] = d
	}
}

// longest bounds how long a worker can say that a pull took.
const longest = 24 * time.Hour

// pull counts pulls of images, by how many milliseconds a worker says that they took.
func (t *tally) pull(took []int64) {
	for _, ms := range took[:min(len(took), remote.MostPulls)] {
		t.pulls.add(time.Duration(min(max(ms, 0), longest.Milliseconds())) * time.Millisecond)
	}
}

// typical is the median of the last jobs, 0 if there are too few.
func (t *took) typical() time.Duration {
	if len(t.last) < strangeAfter {
		return 0
	}
	return slices.Sorted(slices.Values(t.last))[len(t.last)/2]
}

// refuse notes that a worker was not let in. The caller holds the lock.
func (t *tally) refuse(name, why string) {
	r := t.refused[name]
	t.refused[name] = remote.Refusal{Name: name, Why: why, Times: r.Times + 1}
}

// condition says what a worker is doing, "" if it has left. The caller holds the lock.
func (w *Worker) condition(jobs int, lease time.Duration) remote.Condition {
	switch {
	case w.left:
		return ""
	case w.silent || time.Since(w.Last) >= lease:
		return remote.Silent
	case w.draining:
		return remote.Draining
	case jobs > 0:
		return remote.Busy
	}
	return remote.Idle
}

// Status says how the run is.
func (h *Hub) Status() remote.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := remote.Status{RunID: h.RunID, Workers: []remote.WorkerStatus{}, Jobs: []remote.JobStatus{},
		Refused: slices.SortedFunc(maps.Values(h.tally.refused), func(a, b remote.Refusal) int { return cmp.Compare(a.Name, b.Name) })}
	queued := map[remote.Role]*remote.Queue{}
	for _, r := range []remote.Role{remote.Produce, remote.Verify} {
		t := h.tally.took[r]
		queued[r] = &remote.Queue{Role: r, Ended: t.ended, Typical: t.typical().Milliseconds()}
	}
	has := map[string]*remote.WorkerStatus{}
	for id := range h.workers {
		has[id] = &remote.WorkerStatus{}
	}
	for _, j := range h.jobs {
		age, q, w := time.Since(j.since), queued[j.role], has[j.holder]
		switch typical := h.tally.took[j.role].typical(); {
		case j.taken:
		case j.holder == "":
			q.Queued, q.Oldest = q.Queued+1, max(q.Oldest, age.Milliseconds())
		default:
			if w != nil {
				w.Jobs, w.Oldest = w.Jobs+1, max(w.Oldest, age.Milliseconds())
			}
			out.Jobs = append(out.Jobs, remote.JobStatus{TaskID: j.key.Task, Attempt: j.key.Attempt, Role: j.role, Worker: j.holder, Age: age.Milliseconds(),
				Straggler: typical > 0 && age > strangeTimes*typical})
		}
	}
	slices.SortFunc(out.Jobs, func(a, b remote.JobStatus) int {
		return cmp.Or(cmp.Compare(b.Age, a.Age), cmp.Compare(a.TaskID, b.TaskID), cmp.Compare(a.Attempt, b.Attempt))
	})
	for _, id := range slices.Sorted(maps.Keys(has)) {
		w, s := h.workers[id], has[id]
		if s.State = w.condition(s.Jobs, h.Lease); s.State != "" {
			s.Worker, s.Roles, s.Given, s.Seen = id, w.Roles, w.Deliveries, time.Since(w.Last).Milliseconds()
			out.Workers = append(out.Workers, *s)
		}
	}
	for _, r := range []remote.Role{remote.Produce, remote.Verify} {
		if queued[r].Queued > 0 {
			queued[r].Nobody = h.nobody(r, out)
		}
		out.Queues = append(out.Queues, *queued[r])
	}
	out.WorkersLeftOut, out.JobsLeftOut = max(0, len(out.Workers)-shownWorkers), max(0, len(out.Jobs)-shownJobs)
	out.Workers, out.Jobs = out.Workers[:len(out.Workers)-out.WorkersLeftOut], out.Jobs[:len(out.Jobs)-out.JobsLeftOut]
	return out
}

// nobody says why no worker can take jobs of a role, or "". The caller holds the lock.
func (h *Hub) nobody(r remote.Role, s remote.Status) string {
	draining := false
	for _, w := range s.Workers {
		if slices.Contains(w.Roles, r) {
			if w.State == remote.Busy || w.State == remote.Idle {
				return ""
			}
			draining = draining || w.State == remote.Draining
		}
	}
	invited := false
	var refused []string
	for _, name := range slices.Sorted(maps.Keys(h.invited)) {
		if slices.Contains(h.invited[name], r) {
			invited = true
			if why, ok := h.tally.refused[name]; ok {
				refused = append(refused, fmt.Sprintf("%s was refused: %s", name, why.Why))
			}
		}
	}
	switch {
	case !invited:
		return fmt.Sprintf("no worker with the role %s is invited (securebench hub invite)", r)
	case draining:
		return fmt.Sprintf("all workers with the role %s are leaving", r)
	}
	return strings.Join(append([]string{fmt.Sprintf("no worker with the role %s is connected", r)}, refused...), "; ")
}
