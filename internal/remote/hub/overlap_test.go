package hub

import (
	"context"
	"io"
	"strings"
	"testing"

	"securebench/internal/agent"
	"securebench/internal/awaittest"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/remote"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// slowStore stores no candidate before it is told to.
type slowStore struct {
	attempt.Store
	began, store chan struct{}
}

func (s slowStore) Put(kind task.CandidateKind, origin candidate.Origin, from io.Reader) (candidate.Candidate, error) {
	s.began <- struct{}{}
	<-s.store
	return s.Store.Put(kind, origin, from)
}

// TestNextBegins: a worker with one slot begins the next job while it sends the result of
// the last one, and no third as long as two are not sent.
func TestNextBegins(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	slow := slowStore{f.o.Store, make(chan struct{}, 8), make(chan struct{})}
	f.o.Store = slow
	h := f.open()
	began := make(chan string, 8)
	cache := t.TempDir()
	f.start(f.invite("a", remote.Produce), site{slots: 1, produce: func(_ context.Context, s *site, req agent.Request) (attempt.Produced, error) {
		began <- req.View.ID()
		return s.answer(req)
	}}, in(cache, &wire{}))
	first := f.begin(h, "first")
	<-began
	<-slow.began
	second := f.begin(h, "second")
	if id := <-began; id != "second" {
		t.Errorf("%s began", id)
	}
	third := f.begin(h, "third")
	awaittest.Until(t, "the result of the second", func() bool { return len(results(t, cache)) == 2 })
	select {
	case id := <-began:
		t.Errorf("%s began before a result was sent", id)
	default:
	}
	close(slow.store)
	for name, got := range map[string]chan produced{"first": first, "second": second, "third": third} {
		if p := <-got; p.err != nil {
			t.Errorf("%s: %v", name, p.err)
		}
	}
}

// TestShortCalls: a call and its candidate that are short come with the grant, and what is
// longer is read with its ticket.
func TestShortCalls(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	h := f.open()
	f.start(f.invite("v", remote.Verify), site{verify: func(_ context.Context, s *site, req attempt.Verification) (family.Verdict, error) {
		c, err := s.store.Find(req.Candidate)
		if err == nil {
			_, err = c.Bytes()
		}
		return family.Verdict{Outcome: verdict.Passed}, err
	}})
	read := func() int64 { h.mu.Lock(); defer h.mu.Unlock(); return h.tally.out }
	awaittest.Until(t, "the worker", func() bool { return len(h.Workers()) == 1 && read() > 0 })
	order := read()
	for _, tt := range []struct {
		name  string
		bytes int
		reads bool
	}{{"short", 10, false}, {"empty", 0, false}, {"as long as may be", maxInGrant, false}, {"long", maxInGrant + 1, true}} {
		c, err := h.Store.Put(task.Text, candidate.Stdout, strings.NewReader(strings.Repeat("x", tt.bytes)))
		if err != nil {
			t.Fatal(err)
		}
		tk := newTask(t, tt.name)
		v, err := h.Verify(t.Context(), attempt.Verification{Case: family.Case{Attempt: 1, Sandbox: tk.TestSandbox(), Evaluator: tk.Evaluator()}, Candidate: c})
		if err != nil || v.Outcome != verdict.Passed {
			t.Errorf("%s: %+v, %v", tt.name, v, err)
		}
		if tt.reads {
			awaittest.Until(t, "the count of what was read", func() bool { return read() > order })
		} else if n := read() - order; n > 0 {
			t.Errorf("%s: %d bytes were read over HTTPS", tt.name, n)
		}
	}
}
