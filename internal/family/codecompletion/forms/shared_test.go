package forms

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// stackTests cannot be split: they subclass the candidate's class, patch its module
// and pass it objects of their own.
const stackTests = `import unittest
from unittest import mock


class Loud(Stack):
    def push(self, x):
        super().push(x)
        super().push(x)


class TestStack(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()

    def test_order(self):
        one, two = object(), object()
        self.stack.push(one)
        self.stack.push(two)
        self.assertIs(self.stack.pop(), two)
        self.assertIs(self.stack.pop(), one)

    def test_subclass(self):
        s = Loud()
        s.push(1)
        self.assertEqual(len(s), 2)

    def test_empty(self):
        with self.assertRaises(EmptyStack):
            self.stack.pop()


def test_clock():
    with mock.patch("candidate.time.time", return_value=7):
        assert Stack().made == 7
`

const stack = `import time


class EmptyStack(Exception):
    pass


class Stack:
    def __init__(self):
        self.items, self.made = [], time.time()

    def push(self, x):
        self.items.append(x)

    def pop(self):
        if not self.items:
            raise EmptyStack()
        return self.items.pop()

    def __len__(self):
        return len(self.items)


def test_of_its_own(missing_fixture):
    raise ValueError("no test of the row's")
`

func rowCase(tb testing.TB, img sandbox.Image, prompt string, tests any) family.Case {
	tb.Helper()
	c := familytest.Case(tb, "code_completion",
		task.Resource{Name: "prompt", Lane: task.Public, Value: familytest.JSON(tb, prompt)},
		task.Resource{Name: "tests", Lane: task.EvaluationInputs, Value: familytest.JSON(tb, map[string]any{"source": "inline", "containment": "shared", "code": tests})})
	c.Image, c.Limits.Timeout = img, ample
	return c
}

func verify(tb testing.TB, e sandbox.Engine, c family.Case, submitted candidate.Candidate) family.Verdict {
	tb.Helper()
	return familytest.Verify(tb, newShared(family.Resources{Engine: e, RunID: "test"}), c, submitted)
}

func code(text string) candidate.Candidate { return familytest.Code(text) }

func printed(v family.Verdict) string { return string(v.Restricted["tests-output.txt"]) }

// TestShared scores honest and wrong candidates, and every attack beside them.
func TestShared(t *testing.T) {
	t.Parallel()
	e := enginetest.Open(t)
	img := enginetest.GitImage(t, e)
	for _, tt := range []struct {
		name, prompt, tests string
		from                candidate.Candidate
		outcome             verdict.Outcome
		reason              verdict.Reason
	}{
		{"right", "Write a stack.", stackTests, code(stack), verdict.Passed, ""},
		{"said", "Write a stack.", stackTests, familytest.Said("Here:\n```python\n" + stack + "```\n"), verdict.Passed, ""},
		{"wrong", "Write a stack.", stackTests, code(strings.Replace(stack, "self.items.pop()", "self.items.pop(0)", 1)), verdict.Failed, verdict.TestsFailed},
		{"nothing of it", "Write a stack.", stackTests, code("pass\n"), verdict.Failed, verdict.TestsFailed},
		{"no module", "Write a stack.", stackTests, code("def ("), verdict.Failed, verdict.TestsFailed},
		{"a program as tests", "def twice(x):\n", "from __future__ import annotations\nassert twice(4) == 8, twice\n", code("    return 2 * x\n"), verdict.Passed, ""},
		{"a program as tests, wrong", "def twice(x):\n", "assert twice(4) == 8\n", code("    return x\n"), verdict.Failed, verdict.TestsFailed},
		{"imports of the future", "p", "from __future__ import annotations\n\ndef test_a(): assert one() == 1\n", code("def one(): return 1\n"), verdict.Passed, ""},
		{"parameters", "p", "import pytest\n@pytest.mark.parametrize('x', [1, 2])\ndef test_a(x): assert one(x) == x\n", code("def one(x): return x\n"), verdict.Passed, ""},
		{"parameters, one wrong", "p", "import pytest\n@pytest.mark.parametrize('x', [1, 2])\ndef test_a(x): assert one(x) == 1\n", code("def one(x): return x\n"), verdict.Failed, verdict.TestsFailed},
		{"tests that do not parse", "p", "x = 1\ndef (:\n", code("x = 1\n"), verdict.Pending, verdict.PackFault},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := verify(t, e, rowCase(t, img, tt.prompt, tt.tests), tt.from)
			if got.Outcome != tt.outcome || got.Reason != tt.reason || got.Containment != verdict.Shared {
				t.Errorf("%s/%s %s %q\n%.3000s", got.Outcome, got.Reason, got.Containment, got.Message, printed(got))
			}
		})
	}
	for _, a := range attacks() {
		t.Run(a.id+" "+a.name, func(t *testing.T) {
			t.Parallel()
			got := verify(t, e, rowCase(t, img, "p", adderTests), code(a.candidate))
			if got.Outcome == verdict.Passed || got.Outcome == verdict.Pending {
				t.Errorf("%s/%s %q\n%.3000s", got.Outcome, got.Reason, got.Message, printed(got))
			}
		})
	}
}

const adderTests = "import unittest\n\n\nclass TestAdd(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"

// attack is a candidate that wants to pass without doing the work.
type attack struct{ id, name, candidate string }

func attacks() []attack {
	const wrong = "\ndef add(a, b): return 4\n"
	return []attack{
		{"C01", "os._exit(0) at import", "import os\nos._exit(0)\n"},
		{"C02", "sys.exit(0) at import", "import sys\nsys.exit(0)\n"},
		{"C02", "os._exit(0) in the call", "import os\ndef add(a, b): os._exit(0)\n"},
		{"C04", "the test replaced on the stack", `
import sys
f = sys._getframe()
while f:
    if 'unittest' in f.f_globals and 'securebench_row' in f.f_globals or f.f_globals.get('__name__') == 'test_row':
        class Nothing: pass
        f.f_globals['unittest'] = type(sys)('unittest')
        f.f_globals['unittest'].TestCase = Nothing
    f = f.f_back` + wrong},
		{"C05", "a verdict on every descriptor", `
import os
for fd in range(512):
    try: os.write(fd, b'{"key":"x","type":"result","id":"test_row.py::TestAdd::test_add","status":"passed"}\n1 passed\n')
    except OSError: pass
print("OK")` + wrong},
		{"C06", "assertions that never fail", "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\n" + wrong},
		{"C09", "reports that always pass", "import _pytest.reports as r\nold = r.TestReport.from_item_and_call\n" +
			"def new(item, call):\n    call.excinfo = None\n    return old(item, call)\nr.TestReport.from_item_and_call = new\n" + wrong},
		{"C09", "a patch that spares canaries by the name of the file", "import _pytest.python as p\nold = p.Function.runtest\n" +
			"def new(self):\n    if self.path.name != 'test_row.py': old(self)\np.Function.runtest = new\n" +
			"p2 = __import__('_pytest.unittest', fromlist=['x']).TestCaseFunction\nold2 = p2.runtest\n" +
			"def new2(self):\n    if self.path.name != 'test_row.py': old2(self)\np2.runtest = new2\n" + wrong},
		{"C09", "tests that are not run", "import unittest\nunittest.TestCase.run = lambda *a, **k: None\n" + wrong},
	}
}

// TestWeak: the attacks pass where the exit status of unittest decides.
func TestWeak(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil || testing.Short() {
		t.Skip("it runs Python processes")
	}
	passed := 0
	for _, a := range attacks() {
		if a.id == "C05" || strings.Contains(a.candidate, "_pytest") {
			continue // for those who read the output, and for pytest
		}
		dir := t.TempDir()
		tests := "import unittest\nfrom candidate import *\n" + strings.TrimPrefix(adderTests, "import unittest\n")
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "candidate.py"), []byte(a.candidate), 0o600),
			os.WriteFile(filepath.Join(dir, "test_row.py"), []byte(tests), 0o600)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("python3", "-m", "unittest", "test_row")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("%s %s does not deceive unittest: %.300s", a.id, a.name, out)
			continue
		}
		passed++
	}
	if passed < 4 {
		t.Errorf("only %d attacks deceive the weak scorer", passed)
	}
}
