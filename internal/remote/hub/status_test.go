package hub

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/agent"
	"securebench/internal/awaittest"
	"securebench/internal/family"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/remote"
	"securebench/internal/remote/worker"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// ask asks the hub with the operator's credential.
func (f *fleet) ask(q remote.Question) remote.Status {
	f.Helper()
	s, err := f.keys.Ask(f.Context(), f.hub.Addr(), q)
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// status returns the hub's status, once that is as it should be.
func (f *fleet) status(what string, is func(remote.Status) bool) (s remote.Status) {
	f.Helper()
	awaittest.Until(f, what, func() bool { s = f.ask(remote.Question{}); return is(s) })
	return s
}

// produce lets a worker run the agent of a task.
func (f *fleet) produce(h *Hub, id string) (attempt.Produced, error) {
	return h.Produce(f.Context(), agent.Request{View: newTask(f.TB, id).Agent(), Attempt: 1, Dir: id, Image: sandbox.Image{Ref: "img", ID: "sha256:1"}})
}

// TestStatus: the operator sees who has what, the oldest first, a straggler, and why
// nobody can take what is queued; no secret and no value of a task.
func TestStatus(t *testing.T) {
	t.Parallel()
	f, g := newFleet(t), newGated()
	h := f.open()
	f.start(f.invite("p", remote.Produce), site{slots: 2})
	for i := range strangeAfter {
		if _, err := f.produce(h, string(rune('a'+i))); err != nil {
			t.Fatal(err)
		}
	}
	f.start(f.invite("slow", remote.Produce), g.site(2))
	f.ask(remote.Question{Drain: "p"})
	f.status("the end of the first worker", func(s remote.Status) bool { return len(s.Workers) == 1 && s.Workers[0].State == remote.Idle })
	done := make(chan error, 3)
	for _, id := range []string{"old", "new"} {
		go func() { _, err := f.produce(h, id); done <- err }()
		<-g.began
	}
	h.mu.Lock()
	h.jobs[jobID(keyOf("old"), "p")].since = time.Now().Add(-24 * time.Hour) // of which there is no need to wait for any
	h.mu.Unlock()
	go func() {
		tk := newTask(f.TB, "a")
		c := f.o.Store
		p, err := (&site{store: c}).answer(agent.Request{View: tk.Agent()})
		if err == nil {
			_, err = h.Verify(t.Context(), attempt.Verification{Case: family.Case{Attempt: 1, Sandbox: tk.TestSandbox(), Evaluator: tk.Evaluator()}, Candidate: *p.Candidate})
		}
		done <- err
	}()
	s := f.status("a queued verification", func(s remote.Status) bool { return s.Queues[1].Queued == 1 })
	if len(s.Jobs) != 2 || s.Jobs[0].TaskID != "old" || !s.Jobs[0].Straggler || s.Jobs[0].Age < s.Jobs[1].Age || !strings.HasPrefix(s.Jobs[0].Worker, "slow.") {
		t.Errorf("jobs: %+v", s.Jobs)
	}
	if w := s.Workers; len(w) != 1 || w[0].State != remote.Busy || w[0].Jobs != 2 || w[0].Given != 2 || w[0].Oldest != s.Jobs[0].Age {
		t.Errorf("workers: %+v", s.Workers)
	}
	if q := s.Queues[0]; q.Ended != strangeAfter || q.Queued != 0 || q.Nobody != "" {
		t.Errorf("agents: %+v", q)
	}
	if q := s.Queues[1]; !strings.Contains(q.Nobody, "no worker with the role verify is invited") {
		t.Errorf("verifications: %+v", q)
	}
	f.start(f.invite("v", remote.Verify), site{}, func(o *worker.Options) { o.Build = "sha256:other" })
	s = f.status("a refusal", func(s remote.Status) bool { return len(s.Refused) == 1 })
	if q := s.Queues[1]; !strings.Contains(q.Nobody, "no worker with the role verify is connected; v was refused: it is another build") {
		t.Errorf("verifications: %+v", q)
	}
	f.silent(s)
	close(g.finish)
	f.start(f.invite("w", remote.Verify), site{})
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	s = f.status("idle workers", func(s remote.Status) bool { return len(s.Workers) == 2 && len(s.Jobs) == 0 })
	if s.Queues[1].Nobody != "" || s.Queues[1].Ended != 1 || s.Queues[0].Ended != strangeAfter+2 {
		t.Errorf("the end: %+v", s)
	}
	f.silent(s)
}

// silent fails if what the operator sees has a secret of the hub or a value of a task.
func (f *fleet) silent(s any) {
	f.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		f.Fatal(err)
	}
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	never := []string{publicCanary, hiddenCanary, evaluationCanary, f.hub.token}
	for name := range f.hub.tickets {
		never = append(never, name)
	}
	for _, j := range f.hub.jobs {
		never = append(never, j.nonce)
	}
	for _, text := range never {
		if strings.Contains(string(b), text) {
			f.Errorf("it has %q:\n%s", text, b)
		}
	}
}

// TestDrainByName: workers that the operator tells to leave take no more, finish what
// they have and are drained; others do the rest.
func TestDrainByName(t *testing.T) {
	t.Parallel()
	f, g := newFleet(t), newGated()
	h := f.open()
	credential := f.invite("agents", remote.Produce)
	grace := func(o *worker.Options) { o.Grace = awaittest.Hung }
	ws := []*running{f.start(credential, g.site(1), grace), f.start(credential, g.site(1), grace)}
	done := make(chan error, 3)
	for _, id := range []string{"a", "b"} {
		go func() { _, err := f.attempt(t.Context(), h, id); done <- err }()
		<-g.began
	}
	if s := f.ask(remote.Question{Drain: "nobody"}); len(s.Drained) != 0 {
		t.Errorf("nobody: %+v", s)
	}
	if s := f.ask(remote.Question{Drain: "agents"}); len(s.Drained) != 2 {
		t.Fatalf("%+v", s)
	}
	go func() { _, err := f.attempt(t.Context(), h, "c"); done <- err }()
	s := f.status("a job that nobody takes", func(s remote.Status) bool { return s.Queues[0].Queued == 1 })
	if !strings.Contains(s.Queues[0].Nobody, "are leaving") || slices.ContainsFunc(s.Workers, func(w remote.WorkerStatus) bool { return w.State != remote.Draining }) {
		t.Errorf("%+v", s)
	}
	f.start(f.invite("v", remote.Verify), site{})
	close(g.finish)
	for _, w := range ws {
		if err := w.ended(t); !errors.Is(err, worker.ErrDrained) {
			t.Errorf("a worker ended with %v", err)
		}
	}
	if n := g.ran.Load(); n != 2 {
		t.Errorf("they ran %d agents", n)
	}
	f.start(credential, site{}) // a new one is welcome
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if v, err := f.attempt(t.Context(), h, "d"); err != nil || v.Outcome != verdict.Passed {
		t.Errorf("%+v, %v", v, err)
	}
}
