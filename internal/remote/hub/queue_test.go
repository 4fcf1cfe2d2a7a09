package hub

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"securebench/internal/agent"
	"securebench/internal/awaittest"
	"securebench/internal/remote"
	"securebench/internal/sandbox"
)

// queuedJobs counts the jobs of a role that are in the queue, and waiting those of the run.
func (f *fleet) queuedJobs(h *Hub, r remote.Role) (queued, waiting int) {
	f.Helper()
	info, err := h.broker.queues[r].Info(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.queued[r] {
		waiting += n
	}
	return int(info.State.Msgs), waiting
}

// TestWindow: the queue has a part of the jobs, and the next when one of these is given to
// a worker or is waited for no more. What is not queued yet has no nonce, with which it
// could be asked for.
func TestWindow(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.o.Window = 2
	h := f.open()
	const jobs = 7
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for i := range jobs {
		all.Go(func() {
			id := fmt.Sprint("task ", i)
			if p, err := h.Produce(ctx, agent.Request{View: newTask(t, id).Agent(), Attempt: 1, Dir: id, Image: sandbox.Image{Ref: "img", ID: "sha256:1"}}); err == nil {
				t.Errorf("%d: %+v", i, p)
			}
		})
	}
	full := func() bool {
		queued, waiting := f.queuedJobs(h, remote.Produce)
		return queued == 2 && waiting == jobs
	}
	awaittest.Until(t, "the queue", full)
	f.start(f.invite("idle", remote.Verify), site{})
	awaittest.Until(t, "a worker", func() bool { return len(h.Workers()) == 1 })
	who, later := h.Workers()[0].ID, ""
	h.mu.Lock()
	h.workers[who].Roles = []remote.Role{remote.Produce}
	for id, j := range h.jobs {
		if !j.out {
			later = id
		}
	}
	h.mu.Unlock()
	if g := h.claim(who, later, remote.Claim{}); g.State != remote.Cancelled {
		t.Errorf("a job that was never queued: %+v", g)
	}
	if p := h.beat(who, remote.Beat{Jobs: []remote.Held{{ID: later}}}); p.Jobs[later] != remote.Cancelled {
		t.Errorf("a job that was never queued: %+v", p)
	}
	if a := h.result(who, later, remote.Result{}); a.State != remote.Refused {
		t.Errorf("a job that was never queued: %+v", a)
	}
	if !full() {
		t.Error("the queue has changed")
	}
	stop()
	all.Wait()
	awaittest.Until(t, "the empty queue", func() bool {
		queued, waiting := f.queuedJobs(h, remote.Produce)
		return queued == 0 && waiting == 0
	})
	if l := h.line(room{remote.Produce, 0}); l.out != 0 {
		t.Errorf("%+v", l)
	}
}

// TestWindowMoves: every job of many has its turn, also one that a worker returns.
func TestWindowMoves(t *testing.T) {
	t.Parallel()
	f, g := newFleet(t), newGated()
	f.o.Window = 1
	h := f.open()
	first := f.start(f.invite("first", remote.Produce), g.site(1))
	const jobs = 7
	var all sync.WaitGroup
	for i := range jobs {
		all.Go(func() {
			if p, err := f.produce(h, fmt.Sprint("task ", i)); err != nil || p.Candidate == nil {
				t.Errorf("%d: %+v, %v", i, p, err)
			}
		})
	}
	<-g.began
	awaittest.Until(t, "the queue", func() bool {
		queued, waiting := f.queuedJobs(h, remote.Produce)
		return queued == 1 && waiting == jobs-1
	})
	first.dies(t) // it has no time to end its job, and returns it
	awaittest.Until(t, "the return", func() bool {
		queued, waiting := f.queuedJobs(h, remote.Produce)
		return queued == 2 && waiting == jobs // which does not wait for its turn again
	})
	f.start(f.invite("second", remote.Produce), site{})
	all.Wait()
	awaittest.Until(t, "the empty queue", func() bool {
		queued, waiting := f.queuedJobs(h, remote.Produce)
		return queued == 0 && waiting == 0
	})
}

// TestWindowRestart: a worker keeps the job that it has when the run goes on, though others
// fill the queue.
func TestWindowRestart(t *testing.T) {
	t.Parallel()
	f, g := newFleet(t), newGated()
	f.o.Window = 1
	h := f.open()
	f.start(f.invite("a", remote.Produce), g.site(1))
	f.begin(h, "held")
	<-g.began
	f.kill(h)
	h = f.open()
	other := f.begin(h, "other")
	awaittest.Until(t, "the queue", func() bool { n, _ := f.queuedJobs(h, remote.Produce); return n == 1 })
	held := f.begin(h, "held")
	awaittest.Until(t, "both jobs", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return len(h.jobs) == 2 })
	close(g.finish)
	for name, got := range map[string]chan produced{"held": held, "other": other} {
		if p := <-got; p.err != nil {
			t.Errorf("%s: %v", name, p.err)
		}
	}
	if ran := g.ran.Load(); ran != 2 {
		t.Errorf("%d calls", ran)
	}
}
