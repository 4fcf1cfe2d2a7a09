package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"securebench/internal/agent"
	"securebench/internal/awaittest"
	"securebench/internal/fault"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/remote"
	"securebench/internal/remote/worker"
)

// produced is what a call for an agent returned.
type produced struct {
	attempt.Produced
	err error
}

// begin lets a worker run the agent of a task.
func (f *fleet) begin(h *Hub, id string) chan produced {
	out := make(chan produced, 1)
	go func() { p, err := f.produce(h, id); out <- produced{p, err} }()
	return out
}

// in gives a worker its cache, and a network.
func in(cache string, w *wire) func(*worker.Options) {
	return func(o *worker.Options) { o.Cache, o.Dial = cache, w.Dial }
}

// results are the files in a cache that the hub has not answered for.
func results(t *testing.T, cache string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(cache, "session-*", "results", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// dies ends a worker that nobody hears: it has neither returned nor sent what it has.
func (r *running) dies(t *testing.T) {
	t.Helper()
	r.stop()
	if err := r.ended(t); !errors.Is(err, worker.ErrDrained) {
		t.Fatal(err)
	}
}

// TestWorkerRestarted: what a worker had finished when it died is offered by its next
// process, and taken if nobody else was given the job. Without the cache it is done again.
func TestWorkerRestarted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cached bool
		large  bool                             // it does not fit into a message
		harm   func(t *testing.T, cache string) // before the restart
		runs   int64                            // of the agent
		fails  string
	}{
		"with its cache":        {cached: true, runs: 1},
		"a large result":        {cached: true, large: true, runs: 1},
		"without its cache":     {runs: 2},
		"a result cut short":    {cached: true, harm: truncate("results/*.json"), runs: 1, fails: "was killed"},
		"a candidate cut short": {cached: true, harm: truncate("candidates/*"), runs: 1, fails: "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, g, w := newFleet(t), newGated(), &wire{}
			f.o.Lease = brief
			if tt.cached { // nothing may depend on it
				f.o.Lease = time.Hour
			}
			h, cache, c := f.open(), t.TempDir(), f.invite("a", remote.Produce)
			s := g.site(1)
			if inner := s.produce; tt.large {
				s.produce = func(ctx context.Context, s *site, req agent.Request) (attempt.Produced, error) {
					p, err := inner(ctx, s, req)
					p.Raw = map[string][]byte{"stdout": make([]byte, 2*remote.MaxInline)}
					return p, err
				}
			}
			first := f.start(c, s, in(cache, w))
			got := f.begin(h, "task")
			<-g.began
			who := h.Workers()[0].ID
			w.cut(true)
			close(g.finish)
			awaittest.Until(t, "the result", func() bool { return len(results(t, cache)) == 1 })
			first.dies(t)
			if tt.harm != nil {
				tt.harm(t, cache)
			}
			if !tt.cached {
				cache = t.TempDir()
			}
			f.start(c, s, in(cache, &wire{}))
			p := <-got
			if !tt.cached {
				if p.err == nil || !strings.Contains(p.err.Error(), "stopped answering") {
					t.Fatalf("%+v", p)
				}
				p = <-f.begin(h, "task")
			}
			if tt.fails != "" {
				if p.err == nil || !strings.Contains(p.err.Error(), tt.fails) || attempt.ClassOf(p.err) != attempt.Infrastructure {
					t.Errorf("%v", p.err)
				}
				return
			}
			if p.err != nil || p.Candidate == nil || g.ran.Load() != tt.runs {
				t.Errorf("%+v after %d calls", p, g.ran.Load())
			}
			if by := h.By(keyOf("task")).Produce; (by == who) != tt.cached {
				t.Errorf("by %s, and the first was %s", by, who)
			}
			awaittest.Until(t, "the end of the folder", func() bool {
				all, _ := filepath.Glob(filepath.Join(cache, "session-*"))
				return len(all) == 1 && len(results(t, cache)) == 0
			})
		})
	}
}

// truncate cuts a file of a session short.
func truncate(pattern string) func(*testing.T, string) {
	return func(t *testing.T, cache string) {
		all, err := filepath.Glob(filepath.Join(cache, "session-*", pattern))
		if err != nil || len(all) != 1 {
			t.Fatalf("%q, %v", all, err)
		}
		if err := os.Truncate(all[0], 3); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRestartedTooLate: what another worker was given meanwhile stays with that.
func TestRestartedTooLate(t *testing.T) {
	t.Parallel()
	f, g, w := newFleet(t), newGated(), &wire{}
	f.o.Lease = brief
	h, cache, c := f.open(), t.TempDir(), f.invite("a", remote.Produce)
	slow := g.site(1)
	answer := slow.produce
	slow.produce = func(ctx context.Context, s *site, req agent.Request) (attempt.Produced, error) {
		p, err := answer(ctx, s, req)
		p.Stdout = "from the first"
		return p, err
	}
	first := f.start(c, slow, in(cache, w))
	got := f.begin(h, "task")
	<-g.began
	w.cut(true)
	close(g.finish)
	awaittest.Until(t, "the result", func() bool { return len(results(t, cache)) == 1 })
	first.dies(t)
	if p := <-got; p.err == nil {
		t.Fatal("a worker that died kept its job")
	}
	second := newGated()
	f.start(f.invite("b", remote.Produce), second.site(1))
	got = f.begin(h, "task")
	<-second.began
	f.start(c, site{}, in(cache, &wire{}))
	awaittest.Until(t, "the answer", func() bool { return len(results(t, cache)) == 0 })
	close(second.finish)
	if p := <-got; p.err != nil || p.Stdout != "" {
		t.Errorf("%+v", p)
	}
}

// TestRestartedHalf: of what a worker had when it died, the next process offers what was
// finished. The rest is lost at once, and counts as a try.
func TestRestartedHalf(t *testing.T) {
	t.Parallel()
	f, g, w := newFleet(t), newGated(), &wire{}
	f.o.Lease = time.Hour
	gone := make(chan string, 8)
	f.o.Gone = func(_ string, lost bool, why string) { gone <- fmt.Sprint(lost, " ", why) }
	h, cache, c := f.open(), t.TempDir(), f.invite("a", remote.Produce)
	s := g.site(2)
	wait := s.produce
	s.produce = func(ctx context.Context, s *site, req agent.Request) (attempt.Produced, error) {
		if req.View.ID() == "endless" {
			g.began <- "endless"
			<-ctx.Done()
			return attempt.Produced{}, context.Cause(ctx)
		}
		return wait(ctx, s, req)
	}
	first := f.start(c, s, in(cache, w))
	short, endless := f.begin(h, "short"), f.begin(h, "endless")
	<-g.began
	<-g.began
	w.cut(true)
	close(g.finish)
	awaittest.Until(t, "the result", func() bool { return len(results(t, cache)) == 1 })
	first.dies(t)
	f.start(c, site{}, in(cache, &wire{}))
	if p := <-short; p.err != nil {
		t.Error(p.err)
	}
	if p := <-endless; p.err == nil || !strings.Contains(p.err.Error(), "was killed") || attempt.ClassOf(p.err) != attempt.Infrastructure {
		t.Errorf("%v", p.err)
	}
	if p := <-f.begin(h, "endless"); p.err != nil {
		t.Error(p.err)
	}
	if what := <-gone; what != "true was killed" {
		t.Errorf("the first %s", what)
	}
}

// TestBothRestarted: the run and its worker both die, the run first, and what was finished
// counts for the run that goes on.
func TestBothRestarted(t *testing.T) {
	t.Parallel()
	f, g := newFleet(t), newGated()
	f.o.Lease = time.Hour
	h, cache, c := f.open(), t.TempDir(), f.invite("a", remote.Produce)
	first := f.start(c, g.site(1), in(cache, &wire{}))
	f.begin(h, "task")
	<-g.began
	f.kill(h)
	close(g.finish)
	awaittest.Until(t, "the result", func() bool { return len(results(t, cache)) == 1 })
	first.dies(t)
	next := f.start(c, site{}, in(cache, &wire{}))
	h = f.open()
	awaittest.Until(t, "the workers", func() bool { return len(h.Workers()) == 2 })
	if p := <-f.begin(h, "task"); p.err != nil || g.ran.Load() != 1 {
		t.Errorf("%+v after %d calls", p, g.ran.Load())
	}
	if err := h.Close(t.Context(), true); err != nil {
		t.Error(err)
	}
	if err := next.ended(t); err != nil {
		t.Error(err)
	}
	if all, _ := filepath.Glob(filepath.Join(cache, "session-*")); len(all) != 0 {
		t.Errorf("left: %q", all)
	}
}

// TestAlone: a worker that has nothing to do waits for a run as long as it was told; one
// with a result waits until that is answered. On a busy machine the wait can be over before
// the run has answered at all.
func TestAlone(t *testing.T) {
	t.Parallel()
	f, g := newFleet(t), newGated()
	f.o.Lease = time.Hour
	waits := func(o *worker.Options) { o.Wait = time.Second }
	h := f.open()
	credential := f.invite("busy", remote.Produce)
	idle, busy := f.start(f.invite("idle", remote.Verify), site{}, waits), f.start(credential, g.site(1), waits)
	f.begin(h, "task")
	awaittest.Until(t, "the agent's begin", func() bool {
		if len(busy.done) > 0 {
			busy = f.start(credential, g.site(1), waits)
		}
		return len(g.began) > 0
	})
	awaittest.Until(t, "both", func() bool { return len(h.Workers()) == 2 || len(idle.done) > 0 })
	f.kill(h)
	killed := time.Now()
	close(g.finish)
	late := f.start(f.invite("late"), site{}, waits)
	for _, r := range []*running{idle, late} {
		if err := r.ended(t); fault.KindOf(err) != fault.Refused || !strings.Contains(err.Error(), "no run has answered") {
			t.Errorf("%v", err)
		}
	}
	awaittest.Until(t, "the end of the wait", func() bool { return time.Since(killed) > 3*time.Second })
	h = f.open()
	if p := <-f.begin(h, "task"); p.err != nil || g.ran.Load() != 1 {
		t.Errorf("%+v after %d calls", p, g.ran.Load())
	}
	if err := h.Close(t.Context(), true); err != nil {
		t.Error(err)
	}
	if err := busy.ended(t); err != nil && fault.KindOf(err) != fault.Refused {
		t.Error(err)
	}
}

// TestOrdersFirst: a worker that greets a run with orders of other inputs is told so, and
// gets no job until it has the right ones: what it does by the old ones would count as done
// by the new.
func TestOrdersFirst(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	order := f.o.Orders[remote.Produce]
	order.Inputs = "new"
	f.o.Orders[remote.Produce] = order
	h := f.open()
	f.invite("a", remote.Produce)
	if err := h.readInvited(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = f.attempt(ctx, h, "task") }()
	defer func() { stop(); <-ended }()
	var id, nonce string
	awaittest.Until(t, "the job", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, j := range h.jobs {
			id, nonce = j.id, j.nonce
		}
		return nonce != ""
	})
	for _, tt := range []struct {
		has  map[remote.Role]string
		want remote.State
	}{{map[remote.Role]string{remote.Produce: "old"}, remote.Later}, {nil, remote.OK}, {map[remote.Role]string{remote.Produce: "new"}, remote.OK}} {
		w := h.hello("a.b", remote.Hello{Build: build, Roles: []remote.Role{remote.Produce}, Slots: 1, Inputs: tt.has})
		if got := h.claim("a.b", id, remote.Claim{Nonce: nonce}); w.Refused != "" || w.Inputs[remote.Produce] != "new" || got.State != tt.want {
			t.Errorf("with %v: %+v, %s; want %s", tt.has, w, got.State, tt.want)
		}
	}
}

// TestOtherInputs: a run that goes on with other inputs takes nothing that was made with
// the former ones, and its workers, which have waited for it, begin with those it has. With
// the same inputs, what a worker does meanwhile counts.
func TestOtherInputs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		inputs string
		agents string // of which inputs had one
	}{"the same": {"old", "old"}, "others": {"new", "old new"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, g := newFleet(t), newGated()
			order := f.o.Orders[remote.Produce]
			order.Inputs = "old"
			f.o.Orders[remote.Produce] = order
			f.o.Lease = 20 * time.Second // what is returned comes again after an eighth of it
			h := f.open()
			var has, ran []string // of the worker
			s := g.site(1)
			wait := s.produce
			s.produce = func(ctx context.Context, s *site, req agent.Request) (attempt.Produced, error) {
				made := has[len(has)-1]
				ran = append(ran, made)
				p, err := wait(ctx, s, req)
				p.Stdout = made
				return p, err
			}
			f.start(f.invite("a", remote.Produce), s, func(o *worker.Options) {
				open := o.Open
				o.Open = func(ctx context.Context, set worker.Setting) (worker.Site, error) {
					has = append(has, set.Orders[remote.Produce].Inputs)
					return open(ctx, set)
				}
			})
			f.begin(h, "task")
			<-g.began
			f.kill(h)
			order.Inputs = tt.inputs
			f.o.Orders[remote.Produce] = order
			h = f.open()
			got := f.begin(h, "task")
			awaittest.Until(t, "the worker", func() bool { return len(h.Workers()) == 1 })
			if tt.inputs == "new" {
				<-g.began
			}
			close(g.finish)
			if p := <-got; p.err != nil || p.Stdout != tt.inputs || strings.Join(ran, " ") != tt.agents {
				t.Errorf("%q, %v; agents ran with %q", p.Stdout, p.err, ran)
			}
		})
	}
}
