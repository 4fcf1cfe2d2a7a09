package hub

import (
	"slices"
	"time"

	"securebench/internal/remote"
)

// defaultShare is how long a worker is without jobs before it gets those of pools in which
// others work.
const defaultShare = time.Second

// poolOf returns the pool of a call, by its image.
func (h *Hub) poolOf(r remote.Request) int {
	id := ""
	switch {
	case r.Produce != nil:
		id = r.Produce.Image.ID
	case r.Verify != nil:
		id = r.Verify.Case.Image.ID
	case r.Complete != nil:
		id = r.Complete.Image.ID
	}
	return remote.PoolOf(id, h.Pools)
}

// room is where jobs of a role and a pool wait, which are given in their order.
type room struct {
	role remote.Role
	pool int
}

func (j *job) waitsIn() room { return room{j.role, j.pool} }

// settle counts whether a job waits for a worker. The caller holds the lock.
func (h *Hub) settle(j *job) {
	queued := h.queued[j.role]
	waits := j.holder == "" && !j.taken && h.jobs[j.id] == j
	switch {
	case j.pool >= len(queued) || waits == j.waits:
	case waits:
		queued[j.pool]++
	default:
		queued[j.pool]--
	}
	j.waits = waits
}

// settled returns the pools that a worker asks at first, those with the fewest others. The
// caller holds the lock.
func (h *Hub) settled(w *Worker) map[remote.Role]int {
	for _, r := range w.Roles {
		if _, ok := w.home[r]; !ok {
			others := h.others(w, r)
			w.home[r] = slices.Index(others, slices.Min(others))
		}
	}
	return w.home
}

// others counts the workers in each pool of a role besides one. The caller holds the lock.
func (h *Hub) others(w *Worker, r remote.Role) []int {
	others := make([]int, h.Pools)
	for _, o := range h.workers {
		if at, ok := o.home[r]; ok && o != w && !o.left && !o.silent {
			others[at]++
		}
	}
	return others
}

// rehome finds another pool for a worker whose own has no job of a role: one in which
// nobody works, or for a worker that has waited for a while any, the one with the fewest
// workers and then the most jobs. So images stay where they are, and nobody idles. The
// caller holds the lock.
func (h *Hub) rehome(w *Worker, r remote.Role) (pool int, found bool) {
	queued := h.queued[r]
	if !slices.Contains(w.Roles, r) || slices.Max(queued) == 0 {
		return 0, false
	}
	if w.dry[r].IsZero() {
		w.dry[r] = time.Now()
	}
	others, long := h.others(w, r), time.Since(w.dry[r]) >= h.Share
	for p, n := range queued {
		if n == 0 || others[p] > 0 && !long {
			continue
		}
		if !found || others[p] < others[pool] || others[p] == others[pool] && n > queued[pool] {
			pool, found = p, true
		}
	}
	if found {
		w.home[r] = pool
	}
	return pool, found
}
