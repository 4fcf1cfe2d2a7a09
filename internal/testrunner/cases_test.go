package testrunner

import (
	"testing"

	"securebench/internal/testrunner/results"
	"securebench/internal/verdict"
)

// cases is a package with a fault, and a unittest test for each status.
var cases = map[string]string{
	"calc/__init__.py":  calc["calc/__init__.py"],
	"tests/__init__.py": "",
	"tests/test_calc.py": `import unittest
from calc import add

class Add(unittest.TestCase):
    def test_add(self):
        """Adding works."""
        self.assertEqual(add(1, 2), 3)
    def test_zero(self): self.assertEqual(add(1, 0), 1)
    def test_fails(self): self.assertEqual(add(0, 0), 1)
    def test_error(self): raise ValueError
    @unittest.skip('x')
    def test_skip(self): pass
    @unittest.expectedFailure
    def test_xfail(self): self.fail()
    @unittest.expectedFailure
    def test_xpass(self): pass
    def test_parts(self):
        for i in range(3):
            with self.subTest(i=i): self.assertEqual(add(i, 0), i)
    def test_bad_part(self):
        for i in range(3):
            with self.subTest(i=i): self.assertNotEqual(i, 1)
    def test_nested(self):
        class Inner(unittest.TestCase):
            def test_inner(self): self.fail()
        import io
        r = unittest.TextTestRunner(io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(Inner))
        self.assertEqual(len(r.failures), 1)

class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise ValueError
    def test_never(self): pass
`}

func TestUnittest(t *testing.T) {
	t.Parallel()
	m := python(t)
	for name, command := range map[string][]string{
		"a module":   {"python3", "-m", "unittest", "tests.test_calc"},
		"a class":    {"python3", "-m", "unittest", "-f", "-b", "tests.test_calc.Add"},
		"discovery":  {"python3", "-m", "unittest", "discover", "-v"},
		"no words":   {"env", "A=B", "python3", "-m", "unittest"},
		"selections": {"python3", "-m", "unittest", "-k", "test_", "tests.test_calc"},
	} {
		t.Run(name, func(t *testing.T) {
			m := m.of(t)
			tests := Tests{Command: command, TestFiles: []string{"tests/test_calc.py"},
				FailToPass: []string{"test_add (tests.test_calc.Add)", "Adding works."},
				PassToPass: []string{"tests.test_calc.Add.test_zero", "test_zero (tests.test_calc.Add.test_zero)",
					"tests.test_calc.Add.test_skip", "test_xfail (tests.test_calc.Add)", "tests.test_calc.Add.test_parts",
					"tests.test_calc.Add.test_nested"},
				Expected: map[string]string{"tests.test_calc.Add.test_skip": "skipped", "test_xfail (tests.test_calc.Add)": "xfailed"}}
			g := m.grade(tests, cases, nil)
			if g.Outcome != verdict.Failed || g.Metadata["pass_to_pass_passed"] != 6 || g.Metadata["fail_to_pass_passed"] != 0 {
				t.Errorf("base: %v", g)
			}
			g = m.grade(tests, cases, fixed)
			if g.Outcome != verdict.Passed {
				t.Errorf("fixed: %v", g)
			}
			got := statuses(t, g)
			for name, want := range map[string]results.Status{"test_add": "passed", "test_fails": "failed", "test_error": "error",
				"test_skip": "skipped", "test_xfail": "xfailed", "test_xpass": "xpassed", "test_parts": "passed", "test_bad_part": "failed"} {
				if id := "tests.test_calc.Add." + name; got[id] != want {
					t.Errorf("%s: %q, not %s", name, got[id], want)
				}
			}
		})
	}
}

// project imitates the layout of Django's own tests.
var project = map[string]string{
	"django/__init__.py":        "",
	"django/test/__init__.py":   "from unittest import TestCase as SimpleTestCase\n",
	"calc/__init__.py":          calc["calc/__init__.py"],
	"tests/adding/__init__.py":  "",
	"tests/adding/test_calc.py": cases["tests/test_calc.py"],
	"tests/runtests.py": `#!/usr/bin/env python3
import argparse, os, sys
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import unittest
parser = argparse.ArgumentParser()
parser.add_argument('modules', nargs='*')
parser.add_argument('--parallel', type=int, default=2)
parser.add_argument('--settings')
parser.add_argument('-v', '--verbosity', type=int, default=1)
if __name__ == '__main__':
    options = parser.parse_args()
    assert options.parallel == 1, 'processes'
    class DiscoverRunner(object):
        test_runner = unittest.TextTestRunner
    suite = unittest.TestSuite()
    for label in options.modules:
        for group in unittest.defaultTestLoader.loadTestsFromName(label):
            suite.addTests(group)
    result = DiscoverRunner.test_runner(verbosity=options.verbosity, resultclass=None).run(suite)
    if result.failures or result.errors:
        sys.exit(1)
`}

func TestDjango(t *testing.T) {
	t.Parallel()
	m := python(t)
	for name, command := range map[string][]string{
		"python": {"python3", "tests/runtests.py", "--verbosity", "2", "--settings=test_sqlite", "adding.test_calc"},
		"script": {"./tests/runtests.py", "adding.test_calc", "--parallel", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			m := m.of(t)
			tests := Tests{Command: command, Runner: "django", TestFiles: []string{"tests/adding/test_calc.py"},
				FailToPass: []string{"test_add (adding.test_calc.Add)"},
				PassToPass: []string{"test_zero (adding.test_calc.Add)", "adding.test_calc.Add.test_parts"}}
			if g := m.grade(tests, project, nil); g.Outcome != verdict.Failed || g.Metadata["pass_to_pass_passed"] != 2 {
				t.Errorf("base: %v", g)
			}
			if g := m.grade(tests, project, fixed); g.Outcome != verdict.Passed {
				t.Errorf("fixed: %v", g)
			}
		})
	}
}
