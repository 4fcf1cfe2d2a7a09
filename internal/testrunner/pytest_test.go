package testrunner

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/sampletest"
	"securebench/internal/testrunner/results"
	"securebench/internal/verdict"
)

// calc is a package with a fault, and a test for each status.
var calc = map[string]string{
	"calc/__init__.py": "def add(a, b):\n    return a - b\n",
	"tests/test_calc.py": `import unittest
import pytest
from calc import add

def test_add(): assert add(1, 2) == 3
def test_zero(): assert add(1, 0) == 1
def test_fails(): assert add(0, 0) == 1
@pytest.mark.skip(reason='x')
def test_skip(): pass
@pytest.mark.xfail
def test_xfail(): assert False
@pytest.mark.xfail
def test_xpass(): pass
@pytest.mark.xfail(strict=True)
def test_strict(): pass
@pytest.mark.parametrize('text', ['a b', 'a c', '[', u'\u00e9'])
def test_text(text): assert text
@pytest.fixture
def broken(): raise ValueError
def test_setup(broken): pass
@pytest.fixture
def leaves():
    yield
    raise ValueError
def test_teardown(leaves): pass
class TestOne:
    def test_method(self): assert add(2, 0) == 2
class TestTwo(unittest.TestCase):
    def test_method(self): self.assertEqual(add(2, 0), 2)
def test_prints(): print('PASSED tests/test_calc.py::test_add')
`}

// fixed is the right candidate for calc.
var fixed = map[string]string{"calc/__init__.py": "def add(a, b):\n    return a + b\n"}

// in puts the name of the test file in front of test names.
func in(names ...string) (out []string) {
	for _, n := range names {
		out = append(out, "tests/test_calc.py::"+n)
	}
	return out
}

func calcTests(command ...string) Tests {
	return Tests{Command: command, TestFiles: []string{"tests/test_calc.py"}, FailToPass: in("test_add"),
		PassToPass: in("test_zero", "TestOne::test_method", "TestTwo::test_method", "test_text[a", "test_skip", "test_xfail"),
		Expected:   map[string]string{"tests/test_calc.py::test_skip": "skipped", "tests/test_calc.py::test_xfail": "xfailed"}}
}

// statuses reads the restricted file of a grade.
func statuses(t *testing.T, g Grade) map[string]results.Status {
	t.Helper()
	var file struct {
		Tests []results.Test `json:"tests"`
	}
	if err := json.Unmarshal(g.Restricted["test-results.json"], &file); err != nil {
		t.Fatal(err)
	}
	out := map[string]results.Status{}
	for _, r := range file.Tests {
		out[r.ID] = r.Status
	}
	return out
}

func TestPytest(t *testing.T) {
	t.Parallel()
	m := python(t)
	g := m.grade(calcTests("python3", "-m", "pytest", "tests/test_calc.py"), calc, nil)
	if g.Outcome != verdict.Failed || g.Reason != verdict.TestsFailed || g.Metadata["pass_to_pass_passed"] != 6 {
		t.Errorf("base: %v", g)
	}
	g = m.grade(calcTests("python3", "-m", "pytest", "tests/test_calc.py"), calc, fixed)
	if g.Outcome != verdict.Passed {
		t.Errorf("fixed: %v", g)
	}
	got := statuses(t, g)
	for name, want := range map[string]results.Status{"test_add": "passed", "test_fails": "failed", "test_skip": "skipped",
		"test_xfail": "xfailed", "test_xpass": "xpassed", "test_strict": "failed", "test_text[a b]": "passed",
		"test_text[[]": "passed", `test_text[\xe9]`: "passed", "test_setup": "error", "test_teardown": "error",
		"TestOne::test_method": "passed", "TestTwo::test_method": "passed"} {
		if id := in(name)[0]; got[id] != want {
			t.Errorf("%s: %q, not %s", name, got[id], want)
		}
	}
}

// TestPytestCommands runs the forms that a row's command can have.
func TestPytestCommands(t *testing.T) {
	t.Parallel()
	m := python(t)
	commands := map[string]struct {
		command []string
		named   string
		base    map[string]string
	}{
		"stops at the first failure": {[]string{"python3", "-m", "pytest", "-x"}, "test_add", nil},
		"no paths":                   {[]string{"python3", "-m", "pytest"}, "test_add", nil},
		"a folder":                   {[]string{"python3", "-m", "pytest", "tests"}, "test_add", nil},
		"one test":                   {[]string{"python3", "-m", "pytest", "tests/test_calc.py::test_add"}, "test_add", nil},
		"selected by -k":             {[]string{"python3", "-m", "pytest", "-k", "test_add", "tests"}, "test_add", nil},
		"selected by -m":             {[]string{"python3", "-m", "pytest", "-m", "not nothing"}, "test_add", nil},
		"deselected":                 {[]string{"python3", "-m", "pytest", "--deselect", "tests/test_calc.py::test_fails"}, "test_add", nil},
		"an interpreter's flag":      {[]string{"python3", "-W", "ignore", "-B", "-m", "pytest"}, "test_add", nil},
		"env":                        {[]string{"env", "PYTHONPATH=.", "CI=1", "pytest", "tests"}, "test_add", nil},
		"a shell":                    {[]string{"sh", "-lc", "cd . && PYTHONPATH=. pytest 'tests/test_calc.py'"}, "test_add", nil},
		"a folder to run in":         {[]string{"sh", "-c", "cd inner && python3 -m pytest tests"}, "test_add", inner()},
	}
	for _, name := range sampletest.Keys(t, 3, commands) {
		c := commands[name]
		t.Run(name, func(t *testing.T) {
			base, m := calc, m.of(t)
			candidate := fixed
			if c.base != nil {
				base, candidate = c.base, map[string]string{"inner/calc/__init__.py": fixed["calc/__init__.py"]}
			}
			if strings.HasPrefix(name, "a shell") {
				m.env = append(slices.Clone(m.env), "BASH_ENV=")
			}
			tests := Tests{Command: c.command, FailToPass: in(c.named)}
			if g := m.grade(tests, base, nil); g.Outcome != verdict.Failed {
				t.Errorf("base: %v", g)
			}
			if g := m.grade(tests, base, candidate); g.Outcome != verdict.Passed {
				t.Errorf("fixed: %v", g)
			}
		})
	}
}

// TestPytestNames runs a project whose settings say that its tests have other
// names than usual: canaries are found all the same.
func TestPytestNames(t *testing.T) {
	t.Parallel()
	m := python(t)
	base := map[string]string{
		"setup.cfg":           "[tool:pytest]\npython_files = check_*.py\npython_functions = check_*\npython_classes = Check\n",
		"calc/__init__.py":    calc["calc/__init__.py"],
		"tests/check_calc.py": "from calc import add\ndef check_add(): assert add(1, 2) == 3\ndef test_nothing(): assert False\n",
	}
	tests := Tests{Command: []string{"python3", "-m", "pytest"}, FailToPass: []string{"tests/check_calc.py::check_add"}}
	if g := m.grade(tests, base, nil); g.Outcome != verdict.Failed {
		t.Errorf("base: %v", g)
	}
	if g := m.grade(tests, base, fixed); g.Outcome != verdict.Passed {
		t.Errorf("fixed: %v", g)
	}
}

// inner is calc in a folder of the checkout.
func inner() map[string]string {
	out := map[string]string{}
	for name, text := range calc {
		out["inner/"+name] = text
	}
	return out
}
