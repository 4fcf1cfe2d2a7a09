package codecompletion

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"securebench/internal/candidate"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func module(s string) candidate.Candidate {
	return candidate.New(task.Code, candidate.Given, []byte(s))
}

func TestTestBoxStaysWarm(t *testing.T) {
	e := newLocalEngine(t)
	v := newTestVerifier(t, e)
	for range 3 {
		if got := verify(t, v, makeCase(t, add()), add().reference); got.Outcome != verdict.Passed {
			t.Fatal(describe(got))
		}
	}
	if o, w := e.count(roleTest), e.count(roleCandidate); o != 1 || w != 3 {
		t.Errorf("%d test boxes and %d candidate boxes for 3 rows, want 1 and 3", o, w)
	}
}

func TestSessionsAtOnce(t *testing.T) {
	e := newLocalEngine(t)
	v := newTestVerifier(t, e)
	var wait sync.WaitGroup
	for i := range 12 {
		wait.Go(func() {
			s := add()
			s.id = fmt.Sprint("task", i)
			candidate, want := s.reference, verdict.Passed
			if i%2 == 1 {
				candidate, want = "def add(a, b):\n    return a - b\n", verdict.Failed
			}
			if got := verify(t, v, makeCase(t, s), candidate); got.Outcome != want {
				t.Errorf("%d: %s", i, describe(got))
			}
		})
	}
	wait.Wait()
	if o := e.count(roleTest); o != 1 {
		t.Errorf("%d test boxes for sessions that take turns", o)
	}
}

func TestUnusedSessions(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	for range 5 {
		s := v.Open(t.Context(), makeCase(t, add()))
		for range 2 { // idempotent
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := v.Open(ctx, makeCase(t, add()))
	cancel()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := verify(t, v, makeCase(t, add()), add().reference); got.Outcome != verdict.Passed {
		t.Error(describe(got))
	}
}

// TestTestBoxFailures: a test box that dies over a candidate's value, or
// overruns before it has one, gets one more try with fresh sandboxes; then the
// row has failed, and the next row has a fresh test box. An overrun over the
// candidate's value is no second row's time, and the message says who ran long.
func TestTestBoxFailures(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spec
		candidate string
		outcome   verdict.Outcome
		reason    verdict.Reason
		tries     int
		message   string
	}{
		"time": {spec{prompt: "p", reference: "def f(): return 3\n", tests: "n = f()\nwhile n: n -= 1\n", limits: sandbox.Limits{Timeout: 4 * time.Second}},
			"def f(): return 10**12\n", verdict.VerifierTimeout, verdict.VerificationTimeout, 1, "the tests ran longer than the row's 4s with what the candidate had answered"},
		"time of the tests": {spec{prompt: "p", reference: "def f(): return 3\n", tests: "import time\nwhile True: time.sleep(60)\nf()\n", limits: sandbox.Limits{Timeout: 4 * time.Second}},
			"def f(): return 3\n", verdict.VerifierTimeout, verdict.VerificationTimeout, 2, "the tests ran longer than the row's 4s before the candidate had answered anything"},
		"time of the candidate": {spec{prompt: "p", reference: "def f(): return 3\n", tests: "while True: f()\n", limits: sandbox.Limits{Timeout: 4 * time.Second}},
			"import time\ndef f(): time.sleep(0.5)\n", verdict.VerifierTimeout, verdict.VerificationTimeout, 1, "the candidate ran longer than the row's 4s"},
		"memory": {spec{prompt: "p", reference: "def f(): return 3\n", tests: "n = f()\nassert len('x' * n) == n\n"},
			"def f(): return 10**11\n", verdict.Limit, verdict.OutOfMemory, 2, "the tests ran out of memory over the candidate's value"},
		"memory, swallowed": {spec{prompt: "p", reference: "def f(): return 3\n", tests: "n = f()\ntry:\n    assert len('x' * n) != n\nexcept Exception:\n    assert n < 4\n"},
			"def f(): return 10**11\n", verdict.Failed, verdict.TestsFailed, 1, "the tests failed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newLocalEngine(t)
			v := newTestVerifier(t, e)
			got := verify(t, v, makeCase(t, tc.spec), tc.candidate)
			if got.Outcome != tc.outcome || got.Reason != tc.reason || got.Message != tc.message {
				t.Errorf("got %s", describe(got))
			}
			if o, w := e.count(roleTest), e.count(roleCandidate); o != tc.tries || w != tc.tries {
				t.Errorf("%d test boxes and %d candidate boxes, want %d tries with fresh ones", o, w, tc.tries)
			}
			if got := verify(t, v, makeCase(t, add()), add().reference); got.Outcome != verdict.Passed {
				t.Errorf("the next row: %s", describe(got))
			}
		})
	}
}

// TestHangingCandidateKeepsTheTestBox: the time is the candidate's, there is
// no second try, and the test box continues.
func TestHangingCandidateKeepsTheTestBox(t *testing.T) {
	t.Parallel()
	e := newLocalEngine(t)
	v := newTestVerifier(t, e)
	s := add()
	s.tests = "try:\n    add(2, 3)\nexcept BaseException:\n    pass\nassert True\n"
	s.limits.Timeout = 4 * time.Second
	got := verify(t, v, makeCase(t, s), "def add(a, b):\n    while 1: pass\n")
	if got.Outcome != verdict.VerifierTimeout || got.Reason != verdict.VerificationTimeout {
		t.Errorf("got %s", describe(got))
	}
	if got := verify(t, v, makeCase(t, s), s.reference); got.Outcome != verdict.Passed {
		t.Errorf("the next row: %s", describe(got))
	}
	if o := e.count(roleTest); o != 1 {
		t.Errorf("%d test boxes, want the same one", o)
	}
}

// TestStubbornTestsDoNotDelayTheVerdict: tests that continue forever after the
// candidate box has failed do not hold the verdict up.
func TestStubbornTestsDoNotDelayTheVerdict(t *testing.T) {
	t.Parallel()
	e := newLocalEngine(t)
	v := newTestVerifier(t, e)
	s := add()
	s.tests = "while True:\n    try:\n        if add(2, 3) == 5: break\n    except BaseException:\n        pass\n"
	s.limits.Timeout = time.Hour // if a verdict waited for it, verify would give up
	if got := verify(t, v, makeCase(t, s), "import os\ndef add(a, b): os._exit(0)\n"); got.Reason != verdict.WorkerExited {
		t.Error(describe(got))
	}
	if got := verify(t, v, makeCase(t, s), s.reference); got.Outcome != verdict.Passed {
		t.Errorf("the next row: %s", describe(got))
	}
}

func TestEngineFaultsAreErrors(t *testing.T) {
	v := newTestVerifier(t, deadEngine{})
	s := v.Open(t.Context(), makeCase(t, add()))
	if _, err := s.Verify(t.Context(), module("x = 1\n")); !errors.Is(err, errDead) {
		t.Errorf("got error %v, want that of the engine", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCancelledRunIsNoVerdict(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	cause := errors.New("the operator has stopped the run")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := v.Open(ctx, makeCase(t, add()))
	time.AfterFunc(500*time.Millisecond, func() { cancel(cause) })
	_, err := s.Verify(ctx, module("while 1: pass\n"))
	if !errors.Is(err, cause) {
		t.Errorf("got error %v, want the cause", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSeed: the tests' random numbers come from the attempt's secret and from
// nothing else.
func TestSeed(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	s := spec{id: "t/1", prompt: "p", reference: "def f(x): pass\n", tests: "import random\nf(random.random())\n"}
	draw := func(attempt int, seed byte) string {
		c := makeCase(t, s)
		c.Attempt, c.Seed = attempt, [32]byte{seed}
		return string(verify(t, v, c, "def f(x): print(x)\n").Restricted["candidate-output.txt"])
	}
	one, again, two := draw(1, 1), draw(2, 1), draw(1, 2)
	if one == "" || one != again || one == two {
		t.Errorf("drew %q, %q and with another secret %q", one, again, two)
	}
}

// TestVerdictHidesTheTests: no byte of the tests, the reference or the
// candidate is in what may be published; the traceback is restricted.
func TestVerdictHidesTheTests(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	s := add()
	s.tests = "assert add(2, 3) == 'canary-77', 'canary-77'\n"
	got := verify(t, v, makeCase(t, s), "def add(a, b):\n    print('canary-88')\n    return 'canary-88'\n")
	published := fmt.Sprint(got.Message, got.Metadata, got.Labels, got.Phase, got.Reason)
	if strings.Contains(published, "canary") {
		t.Errorf("published: %s", published)
	}
	if !strings.Contains(string(got.Restricted["tests-traceback.txt"]), "canary-77") ||
		!strings.Contains(string(got.Restricted["candidate-output.txt"]), "canary-88") {
		t.Errorf("restricted: %q", got.Restricted)
	}
}

// TestReferenceStaysOutOfTheTests: the process that runs the tests has never
// seen the reference, not even in memory that it inherited.
func TestReferenceStaysOutOfTheTests(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	s := spec{prompt: "p", reference: "def f(): return 'reference-marker'\n", tests: `
import re
held = ''.join(['control', '-marker'])
found = set()
with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', 0) as mem:
    for line in maps:
        span, mode = line.split()[:2]
        start, end = (int(x, 16) for x in span.split('-'))
        if mode[:2] == 'rw':
            try:
                mem.seek(start)
                found.update(re.findall(rb'(contro[l]|referenc[e])-marker', mem.read(end - start)))
            except (OSError, OverflowError):
                pass
print(f())
assert found == {b'control'}, found
`}
	candidate := "def f(): return 1\n"
	if got := verify(t, v, makeCase(t, s), candidate); got.Outcome != verdict.Passed {
		t.Errorf("what the tests find in their memory: %s", describe(got))
	}
	s.tests = strings.Replace(s.tests, "held =", "other = ''.join(['reference', '-marker'])\nheld =", 1)
	if got := verify(t, v, makeCase(t, s), candidate); got.Score() != 0 {
		t.Error("the search finds nothing")
	}
}

// brokenEngine ends every box immediately, as a dying engine would.
type brokenEngine struct {
	*localEngine
	runs atomic.Int64
}

type brokenBox struct{ sandbox.Box }

func (b brokenBox) Run(context.Context, sandbox.Streams) (sandbox.Outcome, error) {
	return sandbox.Outcome{}, errDead
}

func (e *brokenEngine) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	e.runs.Add(1)
	box, err := e.localEngine.Open(ctx, spec)
	return brokenBox{box}, err
}

func TestEngineThatDiesIsNoVerdict(t *testing.T) {
	v := newTestVerifier(t, &brokenEngine{localEngine: newLocalEngine(t)})
	s := v.Open(t.Context(), makeCase(t, add()))
	got, err := s.Verify(t.Context(), module(add().reference))
	if !errors.Is(err, errDead) {
		t.Errorf("got %s, error %v; want the engine's error", describe(got), err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestImageWithoutPython: no candidate is blamed for an image that cannot run
// the candidate box or the test box.
func TestImageWithoutPython(t *testing.T) {
	e := newLocalEngine(t)
	e.python = "/nonexistent/python3"
	v := newTestVerifier(t, e)
	s := v.Open(t.Context(), makeCase(t, add()))
	got, err := s.Verify(t.Context(), module(add().reference))
	if err == nil {
		t.Errorf("got a verdict: %s", describe(got))
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLazySession: a candidate that is known to be blank costs no sandbox; one
// that was only thought to be is scored all the same.
func TestLazySession(t *testing.T) {
	e := newLocalEngine(t)
	v := newTestVerifier(t, e)
	c := makeCase(t, spec{prompt: "Write it.", tests: "assert f(1) == 2\n", reference: "def f(x): return x + 1\n"})
	c.Lazy = true
	if got := verify(t, v, c, " \n"); got.Reason != verdict.EmptyCandidate {
		t.Errorf("a blank candidate: %s", describe(got))
	}
	if n := e.count(roleCandidate) + e.count(roleTest); n != 0 {
		t.Errorf("%d sandboxes were made for it", n)
	}
	if got := verify(t, v, c, "def f(x): return x + 1\n"); got.Outcome != verdict.Passed {
		t.Errorf("a right candidate: %s", describe(got))
	}
}
