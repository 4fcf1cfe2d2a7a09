package testrunner

import (
	"maps"
	"testing"

	"securebench/internal/verdict"
)

// algebra imitates SymPy's layout and the parts of its runner that the driver
// replaces.
var algebra = map[string]string{
	"bin/get_sympy.py": "import os, sys\ndef path_hack():\n    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))\n",
	"bin/test": `#!/usr/bin/env python3
import argparse, os, sys
from get_sympy import path_hack
path_hack()
parser = argparse.ArgumentParser()
parser.add_argument('-C', dest='cache', action='store_false', default=True)
parser.add_argument('--verbose', action='store_true')
parser.add_argument('-k', dest='kw', nargs='*')
options, args = parser.parse_known_args()
if not options.cache:
    os.environ['SYMPY_USE_CACHE'] = 'no'
import sympy
sys.exit(0 if sympy.test(*args, verbose=options.verbose, kw=options.kw, subprocess=True, rerun=0) else 1)
`,
	"sympy/__init__.py":         "from calc import add\nclass Symbol: pass\ndef test(*paths, subprocess=True, rerun=0, **k):\n    from sympy.testing.runtests import _test\n    return not _test(*paths, **k)\n",
	"calc/__init__.py":          calc["calc/__init__.py"],
	"sympy/testing/__init__.py": "",
	"sympy/testing/runtests.py": `import os, sys
class PyTestReporter:
    def __init__(self, verbose=False): self.bad = 0
    def entering_filename(self, filename, n): self._active_file = filename
    def leaving_filename(self): print('[FAIL]' if self.bad else '[OK]')
    def entering_test(self, f): print(f.__name__, end=' ')
    def import_error(self, filename, exc_info): self.bad += 1
    def test_pass(self, char='.'): print('ok')
    def test_fail(self, exc_info): self.bad += 1; print('F')
    def test_exception(self, exc_info): self.bad += 1; print('E')
    def test_skip(self, v=None): print('s')
    def test_xfail(self): print('f')
    def test_xpass(self, v): print('X')
class SymPyTests:
    def __init__(self, reporter, kw=''): self._reporter, self._kw, self._testfiles = reporter, kw, []
    def test(self, sort=True):
        self._testfiles.sort()
        for f in self._testfiles: self.test_file(f, sort)
        return not self._reporter.bad
    def test_file(self, filename, sort=True):
        gl, r = {'__file__': filename}, self._reporter
        try:
            with open(filename) as f: exec(compile(f.read(), filename, 'exec'), gl)
        except ImportError:
            return r.import_error(filename, sys.exc_info())
        except Exception:
            r.test_exception(sys.exc_info())
        funcs = [gl[f] for f in gl if f.startswith('test_') and any(k in f for k in self._kw or [''])]
        r.entering_filename(filename, len(funcs))
        for f in funcs:
            r.entering_test(f)
            try: f()
            except Exception as e:
                kind = type(e).__name__
                if kind == 'AssertionError': r.test_fail(sys.exc_info())
                elif kind == 'Skipped': r.test_skip(e)
                elif kind == 'XFail': r.test_xfail()
                elif kind == 'XPass': r.test_xpass(e)
                else: r.test_exception(sys.exc_info())
            else: r.test_pass()
        r.leaving_filename()
def _test(*paths, verbose=False, kw=None):
    t = SymPyTests(PyTestReporter(verbose), kw)
    for path, _, files in os.walk(os.path.join(os.path.realpath('.'), 'sympy')):
        t._testfiles += [os.path.join(path, f) for f in files if f.startswith('test_') and any(p in os.path.join(path, f) for p in paths)]
    return int(not t.test())
`,
	"sympy/core/tests/test_calc.py": `import os
assert os.environ['SYMPY_USE_CACHE'] == 'no'
from sympy import add
class Skipped(Exception): pass
class XFail(Exception): pass
def test_add(): assert add(1, 2) == 3
def test_zero(): assert add(1, 0) == 1
def test_skips(): raise Skipped
def test_xfails(): raise XFail
def test_other(): assert False
`,
	"sympy/core/tests/test_more.py": "from sympy import add\ndef test_zero(): assert add(2, 0) == 2\n",
}

func algebraTests() Tests {
	return Tests{Runner: "sympy", Command: []string{"python3", "bin/test", "-C", "--verbose", "sympy/core/tests/test_calc.py", "sympy/core/tests/test_more.py"},
		TestFiles:  []string{"sympy/core/tests/test_calc.py"},
		FailToPass: []string{"test_add"}, PassToPass: []string{"test_zero", "sympy/core/tests/test_more.py::test_zero", "test_skips", "test_xfails"},
		Expected: map[string]string{"test_skips": "skipped", "test_xfails": "xfailed"}}
}

func TestSympy(t *testing.T) {
	t.Parallel()
	m := python(t)
	for name, extra := range map[string][]string{"all": nil, "selected": {"-k", "test_add", "test_zero", "test_skips", "test_xfails"}} {
		tests := algebraTests()
		tests.Command = append(tests.Command, extra...)
		if g := m.grade(tests, algebra, nil); g.Outcome != verdict.Failed || g.Metadata["pass_to_pass_passed"] != 4 {
			t.Errorf("%s: base: %v", name, g)
		}
		if g := m.grade(tests, algebra, fixed); g.Outcome != verdict.Passed {
			t.Errorf("%s: fixed: %v", name, g)
		}
	}
	broken := maps.Clone(fixed)
	broken["sympy/core/tests/test_more.py"] = "import nothing\n"
	if g := m.grade(algebraTests(), algebra, broken); g.Outcome != verdict.Failed || g.Reason != verdict.TestsFailed {
		t.Errorf("a broken file: %v", g)
	}
}

func TestSympyAttacks(t *testing.T) {
	t.Parallel()
	m := python(t)
	command := []string{"python3", "bin/test", "-C", "--verbose", "sympy/core/tests/test_calc.py"}
	plain, printed := byExit(command...), byText("test_add ok", command...)
	base := maps.Clone(algebra)
	base["sympy/core/tests/test_calc.py"] = "from sympy import add\ndef test_add(): assert add(1, 2) == 3\n"
	tests := Tests{Runner: "sympy", Command: command, TestFiles: []string{"sympy/core/tests/test_calc.py"}, FailToPass: []string{"test_add"}}
	patch := func(code string) map[string]string {
		return map[string]string{"sympy/__init__.py": algebra["sympy/__init__.py"] + "import sympy.testing.runtests as r\n" + code}
	}
	checkAttacks(t, m, tests, base, []attack{
		{"R08 printed results", "print('test_add ok')\nprint('test_add ok', file=sys.__stdout__)\nos.write(1, b'test_add ok\\n')\n", nil, printed, failing},
		{"R06 the reporter", "pass\n", patch("r.PyTestReporter.test_fail = r.PyTestReporter.test_exception = lambda self, e: self.test_pass()\n"), plain, failing},
		{"R06 the runner", "pass\n", patch(`def test_file(self, filename, *a):
    gl, r = {'__file__': filename}, self._reporter
    with open(filename) as f: exec(compile(f.read(), filename, 'exec'), gl)
    r.entering_filename(filename, 1)
    for f in [gl[f] for f in gl if f.startswith('test_')]:
        r.entering_test(f)
        r.test_pass()
    r.leaving_filename()
r.SymPyTests.test_file = test_file
`), plain, tampered},
		{"R09 os._exit", "if 'pytest' not in sys.modules: os._exit(0)\n", nil, plain, exited},
	})
}
