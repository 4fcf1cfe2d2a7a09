package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"securebench/internal/agent"
	"securebench/internal/awaittest"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/remote"
	"securebench/internal/remote/result"
	"securebench/internal/remote/worker"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// wire is the network between a worker and its hub.
type wire struct {
	mu    sync.Mutex
	gone  bool          // nothing connects any more
	still chan struct{} // nothing moves until it is closed; nil is not
	every int64         // each so many reads, one connection ends; 0 is none
	reads atomic.Int64
	conns []net.Conn
}

// Dial connects over the wire.
func (w *wire) Dial(network, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return nil, errors.New("the network is gone")
	}
	c, err := net.DialTimeout(network, address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	w.conns = append(w.conns, c)
	return &wired{c, w}, nil
}

// cut ends all connections; with gone, there are no others.
func (w *wire) cut(gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = gone
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

// freeze stops everything on the wire until the function is called that it returns.
func (w *wire) freeze() (thaw func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	still := make(chan struct{})
	w.still = still
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.still = nil
		close(still)
	}
}

func (w *wire) pass() {
	w.mu.Lock()
	still := w.still
	w.mu.Unlock()
	if still != nil {
		<-still
	}
}

type wired struct {
	net.Conn
	w *wire
}

func (c *wired) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.w.pass()
	if every := c.w.every; every > 0 && c.w.reads.Add(1)%every == 0 {
		_ = c.Close()
		return 0, errors.New("the connection was lost")
	}
	return n, err
}

func (c *wired) Write(p []byte) (int, error) { c.w.pass(); return c.Conn.Write(p) }

// over lets a worker connect over a wire.
func over(w *wire) func(*worker.Options) { return func(o *worker.Options) { o.Dial = w.Dial } }

// gated is a site whose agents wait for the test, and counts them.
type gated struct {
	began  chan string
	finish chan struct{}
	ran    atomic.Int64
}

func newGated() *gated { return &gated{began: make(chan string, 1000), finish: make(chan struct{})} }

func (g *gated) site(slots int) site {
	return site{slots: slots, produce: func(ctx context.Context, s *site, req agent.Request) (attempt.Produced, error) {
		g.ran.Add(1)
		g.began <- req.View.ID()
		select {
		case <-g.finish:
			return s.answer(req)
		case <-ctx.Done():
			return attempt.Produced{}, context.Cause(ctx)
		}
	}}
}

// TestWorkerKilled: what a worker had that is gone is an error of the machine, not of the
// agent, and another worker does it when it is tried again.
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	f, g, w := newFleet(t), newGated(), &wire{}
	f.o.Lease = brief
	h := f.open()
	f.start(f.invite("first", remote.Produce), g.site(1), over(w))
	done := make(chan error, 1)
	go func() { _, err := f.attempt(t.Context(), h, "task"); done <- err }()
	<-g.began
	w.cut(true)
	err := <-done
	if err == nil || attempt.ClassOf(err) != attempt.Infrastructure || !strings.Contains(err.Error(), "the worker first.") {
		t.Fatalf("%v", err)
	}
	f.start(f.invite("second"), site{})
	f.attempts(h, 1)
	v, err := f.attempt(t.Context(), h, "task")
	if err != nil || v.Outcome != verdict.Passed {
		t.Errorf("%+v, %v", v, err)
	}
	if by := h.By(keyOf("task")); !strings.HasPrefix(by.Produce, "second.") || !strings.HasPrefix(by.Verify, "second.") {
		t.Errorf("by %+v", by)
	}
}

// TestFence: a worker that was frozen for longer than its lease has lost its job. What it
// sends afterwards changes nothing.
func TestFence(t *testing.T) {
	t.Parallel()
	f, g, w := newFleet(t), newGated(), &wire{}
	f.o.Lease = brief
	h := f.open()
	slow := g.site(1)
	slow.produce = func(_ context.Context, s *site, req agent.Request) (attempt.Produced, error) { // which nothing ends
		g.began <- req.View.ID()
		<-g.finish
		p, err := s.answer(req)
		p.Stdout = "from the first"
		return p, err
	}
	f.start(f.invite("first", remote.Produce), slow, over(w))
	produce := func() (attempt.Produced, error) {
		return h.Produce(t.Context(), agent.Request{View: newTask(t, "task").Agent(), Attempt: 1})
	}
	lost := make(chan error, 1)
	go func() { _, err := produce(); lost <- err }()
	<-g.began
	thaw := w.freeze()
	if err := <-lost; err == nil {
		t.Fatal("a frozen worker kept its job")
	}
	second := newGated()
	f.start(f.invite("second", remote.Produce), second.site(1))
	type out struct {
		p   attempt.Produced
		err error
	}
	got := make(chan out, 1)
	go func() { p, err := produce(); got <- out{p, err} }()
	<-second.began
	thaw()
	close(g.finish) // the first is done now, and offers what it has
	f.start(f.invite("third", remote.Produce), site{})
	if _, err := h.Produce(t.Context(), agent.Request{View: newTask(t, "other").Agent(), Attempt: 1}); err != nil {
		t.Fatal(err)
	}
	close(second.finish)
	if o := <-got; o.err != nil || o.p.Stdout != "" {
		t.Errorf("%+v", o)
	}
}

// TestPartition: connections that are lost again and again cost time only: each call is
// made once, and its result arrives.
func TestPartition(t *testing.T) {
	t.Parallel()
	f, w := newFleet(t), &wire{every: 40}
	f.o.Lease = time.Minute
	h := f.open()
	var ran atomic.Int64
	f.start(f.invite("a"), site{slots: 4, produce: func(_ context.Context, s *site, req agent.Request) (attempt.Produced, error) {
		ran.Add(1)
		p, err := s.answer(req)
		p.Stdout = strings.Repeat("x", 2*remote.MaxInline) // which does not fit into a message
		return p, err
	}}, over(w))
	f.attempts(h, 20)
	if n := ran.Load(); n != 20 || w.reads.Load() < 2*w.every {
		t.Errorf("%d calls for 20 attempts, and %d reads", n, w.reads.Load())
	}
}

// kill ends a hub as the end of its process does: nothing is written any more, and nobody
// is told.
func (f *fleet) kill(h *Hub) {
	f.Helper()
	h.journal.mu.Lock()
	h.journal.file = nil
	h.journal.mu.Unlock()
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
	h.stop()
	h.work.Wait()
	if err := errors.Join(h.blobs.server.Close(), h.broker.close(), h.Journal.Close()); err != nil {
		f.Fatal(err)
	}
}

// TestHubKilled: a run that is killed and goes on, soon or later than a lease after, does
// nothing twice that workers still do.
func TestHubKilled(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		f, g := newFleet(t), newGated()
		if late {
			f.o.Lease = 2 * brief
		}
		const jobs, busy = 36, 12
		h := f.open()
		for i := range 3 {
			f.start(f.invite(fmt.Sprint("w", i)), g.site(busy/3))
		}
		all := func(h *Hub, ctx context.Context) *sync.WaitGroup {
			var wg sync.WaitGroup
			for i := range jobs {
				wg.Go(func() {
					v, err := f.attempt(ctx, h, fmt.Sprint("task ", i))
					if ctx.Err() == nil && (err != nil || v.Outcome != verdict.Passed) {
						t.Errorf("task %d: %+v, %v", i, v, err)
					}
				})
			}
			return &wg
		}
		ctx, stop := context.WithCancel(t.Context())
		first := all(h, ctx)
		for range busy {
			<-g.began
		}
		f.kill(h)
		stop()
		first.Wait()
		if killed := time.Now(); late {
			awaittest.Until(t, "the end of the lease", func() bool { return time.Since(killed) > f.o.Lease })
		}
		h = f.open()
		second := all(h, t.Context())
		awaittest.Until(t, "the workers' return", func() bool { return len(h.Workers()) == 3 })
		close(g.finish)
		second.Wait()
		if n := g.ran.Load(); n != jobs {
			t.Errorf("late %v: %d calls for %d jobs", late, n, jobs)
		}
		if t.Failed() {
			t.Log(f.warned)
		}
	}
}

// TestQueueLost: without its queue, the run queues again what it waits for.
func TestQueueLost(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.o.Lease = brief
	h := f.open()
	done := make(chan struct{})
	go func() { defer close(done); f.attempts(h, 5) }()
	name := remote.Stream(h.token, remote.Produce)
	awaittest.Until(t, "the queue", func() bool {
		s, err := h.broker.js.Stream(t.Context(), name)
		return err == nil && s.CachedInfo().State.Msgs == 5
	})
	if err := h.broker.js.DeleteStream(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	f.start(f.invite("a"), site{})
	<-done
}

// TestUnqueued: taking one job out of the queue, also twice, leaves it another one that it
// is about to deliver again.
func TestUnqueued(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.o.Lease = time.Hour
	h, ctx := f.open(), t.Context()
	all, err := h.broker.queues[remote.Produce].UpdateConsumer(ctx, jetstream.ConsumerConfig{Durable: remote.Consumer(0), FilterSubject: remote.Work(h.token, remote.Produce, 0, "*"),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour, MaxDeliver: -1, MaxAckPending: 100_000, MaxWaiting: 4096, MemoryStorage: true})
	if err != nil {
		t.Fatal(err)
	}
	taken := &job{order: order{role: remote.Produce}, id: "taken"}
	for _, j := range []*job{{order: taken.order, id: "returned"}, taken, {order: taken.order, id: "last"}} {
		if err := h.publish(ctx, j); err != nil {
			t.Fatal(err)
		}
	}
	got, err := all.Fetch(3) // it may not know of all of them yet
	if err != nil {
		t.Fatal(err)
	}
	returned, _, last := <-got.Messages(), <-got.Messages(), <-got.Messages()
	if err := errors.Join(returned.Nak(), last.DoubleAck(ctx)); err != nil { // these are heard in their order
		t.Fatal(err)
	}
	h.unqueue(taken)
	h.unqueue(taken)
	if got, err = all.FetchNoWait(3); err != nil {
		t.Fatal(err)
	}
	var again []string
	for m := range got.Messages() {
		again = append(again, m.Subject())
	}
	if want := []string{returned.Subject()}; !slices.Equal(again, want) {
		t.Errorf("the queue delivers %v again, want %v", again, want)
	}
}

// TestForeignAck: a worker that acknowledges what it does not do delays it only.
func TestForeignAck(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.o.Lease = brief
	h := f.open()
	done := make(chan struct{})
	go func() { defer close(done); f.attempts(h, 5) }()
	s, err := h.broker.js.Stream(t.Context(), remote.Stream(h.token, remote.Produce))
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Consumer(t.Context(), remote.Consumer(0))
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 5; {
		got, err := all.Fetch(5, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for m := range got.Messages() {
			n++
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	f.start(f.invite("a"), site{})
	<-done
}

// TestForeignDelay: a worker that returns jobs to the queue for longer than the run takes
// delays each by a lease at most, like a queue that forgets to deliver; the others pass
// them by.
func TestForeignDelay(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.o.Lease = brief
	h := f.open()
	done := make(chan struct{})
	go func() { defer close(done); f.attempts(h, 6) }()
	all, err := h.broker.queues[remote.Produce].Consumer(t.Context(), remote.Consumer(0))
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 5; {
		got, err := all.Fetch(5-n, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for m := range got.Messages() {
			n++
			if err := m.NakWithDelay(24 * time.Hour); err != nil {
				t.Error(err)
			}
		}
	}
	f.start(f.invite("a"), site{})
	<-done
	for _, r := range []remote.Role{remote.Produce, remote.Verify} {
		info, err := h.broker.queues[r].Info(t.Context())
		if err != nil || info.State.Msgs != 0 {
			t.Errorf("%s: %+v, %v", r, info, err)
		}
	}
}

// TestCounted: what workers were given is written down while the run goes on, and counts
// all of its parts, also one that was killed.
func TestCounted(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.o.Lease = brief
	counted := make(chan []record.Worker, 100)
	f.o.Counted = func(all []record.Worker) { counted <- all }
	h := f.open()
	w := f.start(f.invite("a"), site{})
	f.attempts(h, 3)
	if all := <-counted; len(all) != 1 || all[0].Jobs < 1 || all[0].Jobs > 6 {
		t.Errorf("%+v", all)
	}
	f.kill(h)
	w.stop()
	_ = w.ended(t)
	h = f.open()
	f.start(f.invite("b"), site{})
	f.attempts(h, 2)
	all := h.Seen()
	slices.SortFunc(all, func(a, b record.Worker) int { return strings.Compare(a.ID, b.ID) })
	if len(all) != 2 || all[0].Jobs != 6 || all[1].Jobs != 4 || all[0].Last != "" || all[1].Last == "" {
		t.Errorf("%+v", all)
	}
}

// TestSkew: workers whose clocks are off by an hour, or behind by less than two days, do
// their jobs as others. Only the dates of the hub's certificate are compared with a clock.
func TestSkew(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	h := f.open()
	by := func(d time.Duration) func(*worker.Options) {
		return func(o *worker.Options) { o.Now = func() time.Time { return time.Now().Add(d) } }
	}
	for name, d := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour, "yesterday": -47 * time.Hour, "weeks": 24 * 20 * time.Hour} {
		w := f.start(f.invite(name), site{}, by(d))
		f.attempts(h, 2)
		if who := h.By(keyOf("task 1")); !strings.HasPrefix(who.Produce, name+".") || !strings.HasPrefix(who.Verify, name+".") {
			t.Errorf("%s: made by %+v", name, who)
		}
		w.stop()
		if err := w.ended(t); !errors.Is(err, worker.ErrDrained) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, d := range map[string]time.Duration{"before": -49 * time.Hour, "after": 11 * 365 * 24 * time.Hour} {
		if err := f.start(f.invite(name), site{}, by(d)).ended(t); !errors.Is(err, worker.ErrRefused) || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPoison: a job that kills each worker that has it ends with an error each time, and
// the workers' other jobs are done.
func TestPoison(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.o.Lease = brief
	h := f.open()
	for i := range 3 {
		w := &wire{}
		f.start(f.invite(fmt.Sprint("w", i), remote.Produce), site{produce: func(ctx context.Context, s *site, req agent.Request) (attempt.Produced, error) {
			if req.View.ID() != "poison" {
				return s.answer(req)
			}
			w.cut(true)
			<-ctx.Done()
			return attempt.Produced{}, context.Cause(ctx)
		}}, over(w))
		if _, err := h.Produce(t.Context(), agent.Request{View: newTask(t, "poison").Agent(), Attempt: 1}); err == nil || attempt.ClassOf(err) != attempt.Infrastructure {
			t.Errorf("worker %d: %v", i, err)
		}
	}
	f.start(f.invite("last"), site{})
	f.attempts(h, 2)
}

// TestRevoke: a worker that is not invited any more is disconnected and ends, and what it
// had is done by another.
func TestRevoke(t *testing.T) {
	t.Parallel()
	f, g := newFleet(t), newGated()
	h := f.open()
	first := f.start(f.invite("first", remote.Produce), g.site(1))
	done := make(chan error, 1)
	go func() { _, err := f.attempt(t.Context(), h, "task"); done <- err }()
	<-g.began
	if err := f.keys.Revoke("first"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("%v", err)
	}
	if err := first.ended(t); !errors.Is(err, worker.ErrRefused) {
		t.Errorf("the worker ended with %v", err)
	}
	f.start(f.invite("second"), site{})
	f.attempts(h, 1)
}

// TestUnsound: a result of which no record can be made is an error of the machine, ends
// no run, and puts no file anywhere; what it says of streams is escaped.
func TestUnsound(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	h := f.open()
	var left attempt.Produced
	f.start(f.invite("a", remote.Produce), site{produce: func(_ context.Context, s *site, req agent.Request) (attempt.Produced, error) {
		p, err := s.answer(req)
		p.Raw, p.Stdout, p.Metadata = left.Raw, left.Stdout, left.Metadata
		return p, err
	}})
	long := verdict.NewMetadata(map[string]any{"x": strings.Repeat("y", result.MaxSaid)})
	for what, p := range map[string]attempt.Produced{"a path": {Raw: map[string][]byte{"../../salt": {1}}}, "a folder": {Raw: map[string][]byte{"a/b": {1}}},
		"no name": {Raw: map[string][]byte{"": {1}}}, "much": {Metadata: long}} {
		left = p
		if _, err := h.Produce(t.Context(), agent.Request{View: newTask(t, "task").Agent(), Attempt: 1}); err == nil || attempt.ClassOf(err) != attempt.Infrastructure {
			t.Errorf("%s: %v", what, err)
		}
	}
	left = attempt.Produced{Raw: map[string][]byte{"stdout": {1}, "network.jsonl": {2}}, Stdout: "a\x1b[2Jb"}
	if p, err := h.Produce(t.Context(), agent.Request{View: newTask(t, "task").Agent(), Attempt: 1}); err != nil || strings.Contains(p.Stdout, "\x1b") || !strings.HasPrefix(p.Stdout, "a") {
		t.Errorf("%q, %v", p.Stdout, err)
	}
}

// TestUnfit: a call that a worker cannot make is an error of the machine with what the
// worker says, and the worker goes on.
func TestUnfit(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	h := f.open()
	full := errors.New("the disk is full")
	var failing atomic.Bool
	failing.Store(true)
	f.start(f.invite("a"), site{produce: func(_ context.Context, s *site, req agent.Request) (attempt.Produced, error) {
		if failing.Load() {
			return attempt.Produced{}, attempt.Failed(full, verdict.PhasePrepare)
		}
		return s.answer(req)
	}, verify: func(context.Context, *site, attempt.Verification) (family.Verdict, error) {
		return family.Verdict{}, full
	}})
	if _, err := f.attempt(t.Context(), h, "task"); err == nil || err.Error() != full.Error() || attempt.ClassOf(err) != attempt.Infrastructure {
		t.Errorf("%v", err)
	}
	failing.Store(false)
	if _, err := f.attempt(t.Context(), h, "task"); err == nil || err.Error() != full.Error() {
		t.Errorf("%v", err)
	}
}

// TestDamagedContent: a stored candidate that is damaged before a worker has it ends the
// run, and is scored by nobody.
func TestDamagedContent(t *testing.T) {
	t.Parallel()
	for what, damaged := range map[string]string{"changed": strings.Repeat("u", 700<<10), "shorter": strings.Repeat("t", 600<<10), "longer": strings.Repeat("t", 800<<10)} {
		f := newFleet(t)
		dir := t.TempDir()
		store, err := candidate.OpenStore(dir)
		if err != nil {
			t.Fatal(err)
		}
		f.o.Store = &commit.Committer{Store: store}
		h := f.open()
		f.start(f.invite("a"), site{produce: func(_ context.Context, s *site, _ agent.Request) (attempt.Produced, error) {
			c, err := s.store.Put(task.Text, candidate.Stdout, strings.NewReader(strings.Repeat("t", 700<<10)))
			return attempt.Produced{Candidate: &c, Metadata: verdict.Metadata{}}, err
		}, verify: func(context.Context, *site, attempt.Verification) (family.Verdict, error) {
			t.Errorf("%s: it is scored", what)
			return family.Verdict{}, nil
		}})
		p, err := f.produce(h, "task")
		if err != nil {
			t.Fatal(err)
		}
		overwrite(t, dir, p.Candidate.Digest, damaged)
		v := newTask(t, "task")
		_, err = h.Verify(t.Context(), attempt.Verification{Case: family.Case{Attempt: 1, Sandbox: v.TestSandbox(), Evaluator: v.Evaluator()}, Candidate: *p.Candidate})
		if !errors.Is(err, candidate.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

// overwrite gives a stored candidate another content.
func overwrite(t *testing.T, store, sum, content string) {
	t.Helper()
	name, err := digest.Hex(sum)
	if err == nil {
		err = os.Remove(filepath.Join(store, name))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(store, name), []byte(content), 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestDoubt: a worker ends no run, whatever it says of a call that failed. That a stored
// candidate is damaged ends the run, as on one machine, if the run's own copy is.
func TestDoubt(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	dir := t.TempDir()
	store, err := candidate.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	f.o.Store = &commit.Committer{Store: store}
	h := f.open()
	var failed error
	var harm func()
	f.start(f.invite("a"), site{verify: func(ctx context.Context, s *site, req attempt.Verification) (family.Verdict, error) {
		harm()
		return family.Verdict{}, attempt.Failed(failed, verdict.PhaseVerify)
	}})
	damage := func() { overwrite(t, dir, digest.Bytes([]byte("task")), "tusk") }
	for _, tt := range []struct {
		what   string
		failed error
		harm   func()
		ends   bool
	}{
		{"the worker's copy is damaged", candidate.ErrDamaged, func() {}, false},
		{"the output directory", fmt.Errorf("%w: full", record.ErrOutput), func() {}, false},
		{"the salt", record.ErrIntegrity, func() {}, false},
		{"the provider rejects", produce.ErrRejected, func() {}, false},
		{"the budget is spent", produce.ErrSpent, func() {}, false},
		{"the machine, and the copy is damaged", errors.New("the engine is busy"), damage, false},
		{"the run's copy is damaged", candidate.ErrDamaged, damage, true},
	} {
		_ = os.RemoveAll(filepath.Join(dir, strings.TrimPrefix(digest.Bytes([]byte("task")), "sha256:")))
		failed, harm = tt.failed, tt.harm
		_, err := f.attempt(t.Context(), h, "task")
		ends := errors.Is(err, candidate.ErrDamaged) || errors.Is(err, record.ErrOutput) || errors.Is(err, record.ErrIntegrity)
		if err == nil || attempt.ClassOf(err) != attempt.Infrastructure || ends != tt.ends {
			t.Errorf("%s: %v (%s), ends the run: %v", tt.what, err, attempt.ClassOf(err), ends)
		}
	}
}
