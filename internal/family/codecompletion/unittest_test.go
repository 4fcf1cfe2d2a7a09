package codecompletion

import (
	"testing"

	"securebench/internal/verdict"
)

// TestUnittest: a file that only defines test cases of unittest is run, split, with
// the candidate's classes as proxies.
func TestUnittest(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	const tests = `import unittest


class TestCounter(unittest.TestCase):
    def setUp(self):
        self.counter = Counter(2)

    def test_add(self):
        self.counter.add(3)
        self.assertEqual(self.counter.total, 5)

    def test_error(self):
        with self.assertRaises(ValueError):
            self.counter.add(-1)
`
	const right = "class Counter:\n    def __init__(self, n):\n        self.total = n\n\n    def add(self, n):\n        if n < 0:\n            raise ValueError(n)\n        self.total += n\n"
	for _, tt := range []struct {
		name, tests, candidate string
		passes                 bool
	}{
		{"right", tests, right, true},
		{"wrong", tests, "class Counter:\n    def __init__(self, n): self.total = 5\n    def add(self, n): pass\n", false},
		{"it ends its process", tests, right + "    def add(self, n):\n        import os\n        os._exit(0)\n", false},
		{"it raises what skips a test", tests, "import unittest\nclass Counter:\n    def __init__(self, n): raise unittest.SkipTest()\n    def add(self, n): pass\n", false},
		{"it patches unittest where it is", tests, right + "import unittest\nunittest.TestCase.run = lambda *a: None\nCounter.add = lambda *a: None\n", false},
		{"the tests ask before they define", "assert Counter(1).total == 1\n" + tests, right, true},
		{"expected to fail, and does not", "import unittest\nclass TestX(unittest.TestCase):\n    @unittest.expectedFailure\n    def test_x(self):\n        self.assertEqual(Counter(1).total, 1)\n", right, false},
		{"no test in the class", "import unittest\nclass TestX(unittest.TestCase):\n    def check(self):\n        Counter(1)\n", right, false},
	} {
		got := verify(t, v, makeCase(t, spec{prompt: "p", tests: tt.tests, reference: right}), tt.candidate)
		if (got.Outcome == verdict.Passed) != tt.passes || got.Outcome == verdict.Pending || got.Containment != verdict.Split {
			t.Errorf("%s: %s", tt.name, describe(got))
		}
	}
}
