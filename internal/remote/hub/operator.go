package hub

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"securebench/internal/remote"
)

// listenOperator answers whoever the hub is of.
func (h *Hub) listenOperator() error {
	_, err := h.broker.conn.Subscribe(remote.OperatorSubject, func(m *nats.Msg) {
		h.reply(m, "the operator", func() (any, error) { return asked(m.Data, func(q remote.Question) any { return h.status(q) }) })
	})
	if err != nil {
		return fmt.Errorf("listening to the operator: %w", err)
	}
	return nil
}

// status says how the run is, after it has told workers to leave if it is to.
func (h *Hub) status(q remote.Question) remote.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := remote.Status{RunID: h.RunID, Queued: map[remote.Role]int{remote.Produce: 0, remote.Verify: 0}, Workers: []remote.WorkerStatus{}}
	held := map[string][]remote.JobStatus{}
	for _, j := range h.jobs {
		if j.holder == "" {
			out.Queued[j.role]++
			continue
		}
		held[j.holder] = append(held[j.holder], remote.JobStatus{Task: j.key.Task, Attempt: j.key.Attempt, Role: j.role, Age: time.Since(j.since)})
	}
	for id, w := range h.workers {
		if w.left || time.Since(w.Last) > h.Lease {
			continue
		}
		if q.Drain != "" && w.Name == q.Drain && !w.leaves {
			w.leaves = true
			out.Drained++
			_ = h.broker.conn.Publish(remote.Notice(id), nil) // it hears it with its next beat otherwise
		}
		jobs := append([]remote.JobStatus{}, held[id]...)
		slices.SortFunc(jobs, func(a, b remote.JobStatus) int { return cmp.Compare(b.Age, a.Age) })
		out.Workers = append(out.Workers, remote.WorkerStatus{ID: id, Roles: w.Roles, Silent: time.Since(w.Last), Leaves: w.leaves, Jobs: jobs})
	}
	slices.SortFunc(out.Workers, func(a, b remote.WorkerStatus) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
