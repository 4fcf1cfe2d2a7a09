package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent"
	"securebench/internal/awaittest"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/record"
	"securebench/internal/porttest"
	"securebench/internal/redact"
	"securebench/internal/remote"
	"securebench/internal/remote/worker"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

const build = "sha256:build"

// site is a machine on which calls are functions.
type site struct {
	store   attempt.Store
	slots   int
	produce func(ctx context.Context, s *site, req agent.Request) (attempt.Produced, error)
	verify  func(ctx context.Context, s *site, req attempt.Verification) (family.Verdict, error)
}

func (*site) Ahead(context.Context, *agent.Request, *family.Case) {}
func (*site) Release(context.Context, record.AttemptKey) error    { return nil }
func (*site) Close(context.Context) error                         { return nil }
func (s *site) Slots() int                                        { return max(1, s.slots) }

func (s *site) Produce(ctx context.Context, req agent.Request) (attempt.Produced, error) {
	if s.produce != nil {
		return s.produce(ctx, s, req)
	}
	return s.answer(req)
}

// answer stores the id of a task as its candidate.
func (s *site) answer(req agent.Request) (attempt.Produced, error) {
	c, err := s.store.Put(task.Text, candidate.Stdout, strings.NewReader(req.View.ID()))
	return attempt.Produced{Candidate: &c, Metadata: verdict.Metadata{}}, err
}

func (s *site) Verify(ctx context.Context, req attempt.Verification) (family.Verdict, error) {
	if s.verify != nil {
		return s.verify(ctx, s, req)
	}
	c, err := s.store.Find(req.Candidate)
	if err != nil {
		return family.Verdict{}, err
	}
	b, err := c.Bytes()
	v := family.Verdict{Outcome: verdict.Failed, Reason: verdict.TestsFailed}
	if string(b) == req.Case.Sandbox.ID() {
		v = family.Verdict{Outcome: verdict.Passed}
	}
	return v, err
}

func (*site) Complete(context.Context, family.Case) (remote.Completed, error) {
	return remote.Completed{Found: true, Candidate: candidate.New(task.Code, candidate.Given, []byte("whole")), Data: []byte("whole")}, nil
}

// fleet is a hub and its workers.
type fleet struct {
	testing.TB
	keys    remote.Keys
	o       Options
	hub     *Hub
	journal string
	mu      sync.Mutex
	warned  []string
}

// newFleet makes a hub that a test has not opened yet.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{TB: t}
	f.prepare()
	return f
}

// brief is the lease of tests that wait for its end. In all others no worker can be silent
// for so long that it loses its job.
const brief = 4 * time.Second

// prepare makes what a hub needs.
func (f *fleet) prepare() {
	t := f.TB
	t.Helper()
	f.keys, f.journal = remote.Keys{Dir: filepath.Join(t.TempDir(), "hub")}, filepath.Join(t.TempDir(), "grants")
	if err := f.keys.Init(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	store, err := candidate.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	salt, err := digest.NewSalt()
	if err != nil {
		t.Fatal(err)
	}
	f.o = Options{Addr: porttest.Pair(t), Keys: f.keys, Lease: time.Minute, RunID: "run", Salt: salt, Build: build,
		Orders: map[remote.Role]remote.Order{}, Store: &commit.Committer{Store: store}, Warn: f.warn}
	o := remote.Order{RunID: "run"}
	o.Limits.Candidate = 1 << 20
	f.o.Orders[remote.Produce], f.o.Orders[remote.Verify] = o, o
}

func (f *fleet) warn(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.warned = append(f.warned, text)
}

// open opens the hub.
func (f *fleet) open() *Hub {
	f.Helper()
	var err error
	if f.o.Journal, err = os.OpenFile(f.journal, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		f.Fatal(err)
	}
	if f.hub, err = Open(f.Context(), f.o); err != nil {
		f.Fatal(err)
	}
	h := f.hub
	f.Cleanup(func() { _ = h.Close(context.Background(), true) })
	f.o.Addr = h.Addr()
	return h
}

// invite makes a credential.
func (f *fleet) invite(name string, roles ...remote.Role) remote.Credential {
	f.Helper()
	if len(roles) == 0 {
		roles = []remote.Role{remote.Produce, remote.Verify}
	}
	c, err := f.keys.Invite(name, roles)
	if err != nil {
		f.Fatal(err)
	}
	return c
}

// running is a worker in this process.
type running struct {
	stop context.CancelFunc
	done chan error
}

// start starts a worker.
func (f *fleet) start(c remote.Credential, s site, change ...func(*worker.Options)) *running {
	f.Helper()
	o := worker.Options{Hub: f.o.Addr, Credential: c, Roles: c.Roles, Build: build, Cache: f.TempDir(), Say: func(text string) { f.warn(c.Name + ": " + text) },
		Open: func(_ context.Context, set worker.Setting) (worker.Site, error) {
			here := s
			here.store = set.Store
			return &here, nil
		}}
	for _, do := range change {
		do(&o)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{stop: stop, done: make(chan error, 1)}
	go func() { r.done <- worker.Run(ctx, o) }()
	f.Cleanup(func() {
		stop()
		select {
		case <-r.done:
		case <-time.After(awaittest.Hung):
			f.Error("a worker does not end")
		}
	})
	return r
}

// ended waits for the end of a worker.
func (r *running) ended(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-time.After(awaittest.Hung):
		t.Fatal("the worker does not end")
		return nil
	}
}

func newTask(t testing.TB, id string) task.Task {
	t.Helper()
	tk, err := task.New(task.Config{ID: id, Family: "short_answer", Pack: task.Pack{ID: "pack", Version: 1}, Environment: task.Environment{Image: "img"}, Row: []byte(id),
		Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text},
		Resources: []task.Resource{{Name: "question", Lane: task.Public, Value: jsontext.Value(`"` + publicCanary + `"`)},
			{Name: "gold", Lane: task.Hidden, Value: jsontext.Value(`"` + hiddenCanary + `"`)}, {Name: "note", Lane: task.EvaluationInputs, Value: jsontext.Value(`"` + evaluationCanary + `"`)}}})
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

const (
	publicCanary     = "cnry6publqmzyxwv"
	hiddenCanary     = "cnry7hidqpwoeiru"
	evaluationCanary = "cnry8evalzmxncbv"
)

// attempt takes a task through both calls.
func (f *fleet) attempt(ctx context.Context, h *Hub, id string) (family.Verdict, error) {
	t := newTask(f.TB, id)
	p, err := h.Produce(ctx, agent.Request{View: t.Agent(), Attempt: 1, Dir: id, Image: sandbox.Image{Ref: "img", ID: "sha256:1"}})
	if err != nil {
		return family.Verdict{}, err
	}
	return h.Verify(ctx, attempt.Verification{Case: family.Case{Attempt: 1, Sandbox: t.TestSandbox(), Evaluator: t.Evaluator()}, Candidate: *p.Candidate})
}

// attempts takes tasks through both calls at the same time, and fails unless all pass.
func (f *fleet) attempts(h *Hub, n int) {
	f.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			v, err := f.attempt(f.Context(), h, fmt.Sprint("task ", i))
			if err != nil || v.Outcome != verdict.Passed {
				f.Errorf("task %d: %+v, %v", i, v, err)
			}
		})
	}
	wg.Wait()
}

// TestWorkers: attempts are made by workers of one role each and of both, and all leave
// when the run has finished.
func TestWorkers(t *testing.T) {
	f := newFleet(t)
	h := f.open()
	var ws []*running
	ws = append(ws, f.start(f.invite("a", remote.Produce), site{slots: 4}), f.start(f.invite("b", remote.Verify), site{slots: 4}), f.start(f.invite("c"), site{slots: 2}))
	f.attempts(h, 60)
	c, found, err := h.Complete(t.Context(), family.Case{Attempt: 1, Sandbox: newTask(t, "x").TestSandbox(), Evaluator: newTask(t, "x").Evaluator()})
	if err != nil || !found {
		t.Errorf("completed: %v, %v", found, err)
	}
	if b, err := c.Bytes(); err != nil || string(b) != "whole" {
		t.Errorf("completed %q, %v", b, err)
	}
	if err := h.Close(t.Context(), true); err != nil {
		t.Error(err)
	}
	for i, w := range ws {
		if err := w.ended(t); err != nil {
			t.Errorf("worker %d: %v", i, err)
		}
	}
	if len(h.Workers()) != 3 {
		t.Errorf("%+v", h.Workers())
	}
	if t.Failed() {
		t.Log(f.warned)
	}
}

// TestHello: another build, another engine and a credential that was revoked, or is of
// another hub, are refused.
func TestHello(t *testing.T) {
	f := newFleet(t)
	f.o.Engine = &sandbox.Info{Name: "native", Version: "1", Seccomp: "sha256:x"}
	f.open()
	ok := f.invite("ok")
	other := newFleet(t)
	gone := f.invite("gone")
	if err := f.keys.Revoke("gone"); err != nil {
		t.Fatal(err)
	}
	engine := *f.o.Engine
	for name, tt := range map[string]struct {
		c      remote.Credential
		change func(*worker.Options)
		want   string
	}{
		"another build":    {ok, func(o *worker.Options) { o.Build = "sha256:other" }, "another build"},
		"another engine":   {ok, func(o *worker.Options) { o.Engine.Name = "docker" }, `its engine is "docker"`},
		"another filter":   {ok, func(o *worker.Options) { o.Engine.Seccomp = "sha256:y" }, "system call filter"},
		"no role":          {f.invite("p", remote.Produce), func(o *worker.Options) { o.Roles = []remote.Role{remote.Verify} }, "none of the roles"},
		"revoked":          {gone, func(*worker.Options) {}, "Authorization"},
		"of another hub":   {other.invite("ok"), func(*worker.Options) {}, "certificate"},
		"its name's hub's": {remote.Credential{Name: "ok", Roles: ok.Roles, CA: ok.CA, Seed: other.invite("x").Seed}, func(*worker.Options) {}, "Authorization"},
	} {
		w := f.start(tt.c, site{}, func(o *worker.Options) { o.Engine = engine }, tt.change)
		if err := w.ended(t); fault.KindOf(err) != fault.Integrity || !errors.Is(err, worker.ErrRefused) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v (%s)", name, err, fault.KindOf(err))
		}
	}
}

// TestDrain: a worker that is told to leave finishes what it has, within its grace.
func TestDrain(t *testing.T) {
	f := newFleet(t)
	h := f.open()
	began, finish := make(chan struct{}, 8), make(chan struct{})
	slow := site{produce: func(ctx context.Context, s *site, req agent.Request) (attempt.Produced, error) {
		began <- struct{}{}
		select {
		case <-finish:
			return s.answer(req)
		case <-ctx.Done():
			return attempt.Produced{}, context.Cause(ctx)
		}
	}}
	first := f.start(f.invite("first", remote.Produce), slow, func(o *worker.Options) { o.Grace = time.Minute })
	done := make(chan error, 1)
	go func() { _, err := f.attempt(t.Context(), h, "task"); done <- err }()
	<-began
	first.stop()
	f.start(f.invite("v", remote.Verify), site{})
	close(finish)
	if err := first.ended(t); !errors.Is(err, worker.ErrDrained) {
		t.Errorf("the worker ended with %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	// Without any grace, what it has goes to another at once, long before a lease is over.
	finish = make(chan struct{})
	second := f.start(f.invite("second", remote.Produce), site{produce: func(ctx context.Context, _ *site, _ agent.Request) (attempt.Produced, error) {
		began <- struct{}{}
		<-ctx.Done()
		return attempt.Produced{}, context.Cause(ctx)
	}})
	go func() { _, err := f.attempt(t.Context(), h, "again"); done <- err }()
	<-began
	second.stop()
	if err := second.ended(t); !errors.Is(err, worker.ErrDrained) {
		t.Errorf("the worker ended with %v", err)
	}
	f.start(f.invite("third", remote.Produce), site{})
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func keyOf(id string) record.AttemptKey { return record.AttemptKey{Task: id, Attempt: 1} }

func secretOf(t *testing.T, value string) *redact.Registry {
	t.Helper()
	r := &redact.Registry{}
	if err := r.Add("KEY", []byte(value)); err != nil {
		t.Fatal(err)
	}
	return r
}

func fmtPort(h *Hub) string { return fmt.Sprint(h.blobs.port) }

// TestComeAndGo: what a worker does is reported with its name, its coming and going, too.
func TestComeAndGo(t *testing.T) {
	f := newFleet(t)
	var said []string
	var mu sync.Mutex
	say := func(id string, words ...any) {
		mu.Lock()
		defer mu.Unlock()
		name, _, _ := strings.Cut(id, ".")
		said = append(said, name+" "+strings.TrimSpace(fmt.Sprintln(words...)))
	}
	f.o.Starts = func(r remote.Role, key record.AttemptKey, worker string) { say(worker, r, key.Task) }
	f.o.Came = func(w Worker) { say(w.ID, "came", w.Roles) }
	f.o.Gone = func(id string, lost bool, why string) { say(id, lost, why) }
	h := f.open()
	w := f.start(f.invite("w"), site{})
	f.attempts(h, 1)
	w.stop()
	if err := w.ended(t); !errors.Is(err, worker.ErrDrained) {
		t.Error(err)
	}
	revoked := f.start(f.invite("v"), site{})
	f.attempts(h, 1)
	if err := f.keys.Revoke("v"); err != nil {
		t.Fatal(err)
	}
	_ = revoked.ended(t)
	want := []string{"w came [produce verify]", "w produce task 0", "w verify task 0", "w false has left",
		"v came [produce verify]", "v produce task 0", "v verify task 0", "v true was revoked"}
	awaittest.Until(t, "the last report", func() bool { mu.Lock(); defer mu.Unlock(); return len(said) >= len(want) })
	if got := strings.Join(said, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("reported:\n%s", got)
	}
}

// TestOperator: whoever the hub is of sees workers and what they have, and can let them
// leave; a worker can do neither.
func TestOperator(t *testing.T) {
	t.Parallel()
	f, g := newFleet(t), newGated()
	h := f.open()
	first := f.start(f.invite("first", remote.Produce), g.site(1), func(o *worker.Options) { o.Grace = time.Minute })
	done := make(chan error, 2)
	for _, id := range []string{"one", "two"} {
		go func() { _, err := f.attempt(t.Context(), h, id); done <- err }()
	}
	id := <-g.began
	s, err := f.keys.Ask(t.Context(), h.Addr(), remote.Question{})
	if err != nil || s.RunID != "run" || len(s.Workers) != 1 || len(s.Jobs) != 1 || s.Jobs[0].TaskID != id || len(s.Drained) != 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	awaittest.Until(t, "the queue", func() bool {
		s, err = f.keys.Ask(t.Context(), h.Addr(), remote.Question{})
		return err == nil && s.Queues[0].Queued == 1
	})
	if s, err := f.keys.Ask(t.Context(), h.Addr(), remote.Question{Drain: "nobody"}); err != nil || len(s.Drained) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := f.keys.Ask(t.Context(), h.Addr(), remote.Question{Drain: "first"}); err != nil || len(s.Drained) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	close(g.finish)
	if err := first.ended(t); !errors.Is(err, worker.ErrDrained) {
		t.Errorf("the worker ended with %v", err)
	}
	f.start(f.invite("second"), site{})
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if other := newFleet(t); true {
		if _, err := other.keys.Ask(t.Context(), h.Addr(), remote.Question{}); !errors.Is(err, remote.ErrNoRun) {
			t.Errorf("another hub's operator: %v", err)
		}
	}
}
