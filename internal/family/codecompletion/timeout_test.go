package codecompletion

import (
	"testing"

	"securebench/internal/verdict"
)

// TestTestsWithATimeoutOfTheirOwn: tests that wait only so long for an answer
// fail a slow candidate. It is not an infrastructure error or a broken
// protocol, and the next row does not get this row's answer.
func TestTestsWithATimeoutOfTheirOwn(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		tests     string
		message   string
		testBoxes int
	}{
		"an alarm":                        {alarmed("TimeoutError", "assert add(2, 3) == 5\nsignal.alarm(0)\n"), "the tests ended before the candidate had answered", 2},
		"an alarm like a decoding error":  {alarmed("ValueError", "assert add(2, 3) == 5\nsignal.alarm(0)\n"), "the tests ended before the candidate had answered", 2},
		"an alarm that is swallowed":      {alarmed("TimeoutError", "try:\n    assert add(2, 3) == 5\n    signal.alarm(0)\nexcept TimeoutError:\n    pass\n"), "the tests ended before the candidate had answered", 2},
		"an alarm, and the tests go on":   {alarmed("TimeoutError", "import time\ntry:\n    assert add(2, 3) == 5\n    signal.alarm(0)\nexcept BaseException:\n    time.sleep(5)\n"), "the tests ended before the candidate had answered", 2},
		"an alarm, and they ask again":    {alarmed("TimeoutError", "try:\n    assert add(2, 3) == 5\n    signal.alarm(0)\nexcept TimeoutError:\n    add(1, 1)\n"), "the tests ended before the candidate had answered", 2},
		"a thread that is not waited for": {"import threading\nout = []\nt = threading.Thread(target=lambda: out.append(add(2, 3)), daemon=True)\nt.start()\nt.join(3)\nassert out == [5]\n", "the tests failed", 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newLocalEngine(t)
			v := newTestVerifier(t, e)
			s := add()
			s.tests = tc.tests
			got := verify(t, v, makeCase(t, s), "import time\ndef add(a, b):\n    time.sleep(6)\n    return a + b\n")
			if got.Reason != verdict.TestsFailed || got.Message != tc.message {
				t.Errorf("slow: %s", describe(got))
			}
			if got := verify(t, v, makeCase(t, s), s.reference); got.Outcome != verdict.Passed {
				t.Errorf("the honest twin: %s", describe(got))
			}
			if o := e.count(roleTest); o != tc.testBoxes {
				t.Errorf("%d test boxes for the two, want %d", o, tc.testBoxes)
			}
		})
	}
}

// alarmed sets an alarm that raises an exception in front of tests.
func alarmed(exception, tests string) string {
	return "import signal\ndef late(*a): raise " + exception + "\nsignal.signal(signal.SIGALRM, late)\n" +
		"signal.setitimer(signal.ITIMER_REAL, 3)\n" + tests
}

// TestTestsThatInterruptDecoding: what the tests raise while an answer is read
// is not the answer's fault.
func TestTestsThatInterruptDecoding(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	s := add()
	s.tests = "import sys\ndef stop(frame, event, arg):\n    if frame.f_code.co_name == 'understood':\n        sys.setprofile(None)\n        raise ValueError\n" +
		"sys.setprofile(stop)\nadd(2, 3)\n"
	if got := verify(t, v, makeCase(t, s), s.reference); got.Reason != verdict.TestsFailed {
		t.Errorf("got %s", describe(got))
	}
	if got := verify(t, v, makeCase(t, add()), encodes(`b'I2:zz'`)); got.Reason != verdict.ProtocolViolation {
		t.Errorf("a value that is none: %s", describe(got))
	}
}

// TestTestsThatFork: a fork of the tests says nothing in their name, and one
// that asks the candidate has failed, so that its exit status is no success.
func TestTestsThatFork(t *testing.T) {
	t.Parallel()
	v := newTestVerifier(t, newLocalEngine(t))
	for candidate, want := range map[string]verdict.Outcome{
		add().reference:                    verdict.Passed,
		"def add(a, b):\n    return 4\n":   verdict.Failed,
		"def add(a, b):\n    return 2.5\n": verdict.Failed,
	} {
		s := add()
		s.tests = "import os\nn = add(2, 3)\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\n    assert n == 5\n"
		if got := verify(t, v, makeCase(t, s), candidate); got.Outcome != want {
			t.Errorf("%q: %s", candidate, describe(got))
		}
		s.tests = "import os\nn = add(2, 3)\npid = os.fork()\nif not pid:\n    assert 0\nassert n == 5\n"
		if got := verify(t, v, makeCase(t, s), candidate); got.Outcome != want {
			t.Errorf("%q: a fork that fails: %s", candidate, describe(got))
		}
		s.tests = "import os\nn = add(2, 3)\npid = os.fork()\nif not pid:\n    os._exit(add(2, 3) != 5)\nassert os.waitpid(pid, 0)[1] == 0\n"
		if got := verify(t, v, makeCase(t, s), candidate); got.Outcome != verdict.Failed {
			t.Errorf("%q: a fork that asks, and is asked: %s", candidate, describe(got))
		}
		s.tests = "import os\nn = add(2, 3)\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\n    os._exit(0)\n"
		if got := verify(t, v, makeCase(t, s), candidate); got.Outcome != verdict.Failed {
			t.Errorf("%q: a fork alone ends: %s", candidate, describe(got))
		}
	}
}
