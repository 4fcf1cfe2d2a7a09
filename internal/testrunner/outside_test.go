package testrunner

import (
	"maps"
	"math/rand/v2"
	"regexp"
	"testing"

	"securebench/internal/verdict"
)

// apart are tests outside of the folder app, with what a pack can put beside
// them, and a candidate that is wrong.
var apart = map[string]string{
	"evaluator/tests/conftest.py": "import pytest\n@pytest.fixture\ndef three(): return 3\n",
	"evaluator/tests/loader.py": "import importlib.util, os\nspec = importlib.util.spec_from_file_location('calc', os.path.join(os.getcwd(), 'calc.py'))\n" +
		"calc = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(calc)\n",
	"evaluator/tests/test_calc.py": `import json, subprocess, sys
import pytest
from loader import calc

def test_add(three):
    assert json.loads(json.dumps(calc.add(1, 2))) == three

def test_program():
    assert subprocess.check_output([sys.executable, 'main.py']) == b'3\n'

@pytest.mark.skip(reason='x')
def test_skipped(): pass

@pytest.mark.xfail
def test_expected(): assert False
`,
	"app/main.py": "import calc\nprint(calc.add(1, 2))\n",
	"app/calc.py": wrong,
}

// solved is the right candidate for apart.
var solved = map[string]string{"app/calc.py": "def add(a, b):\n    return a + b\n"}

// gradeApart runs tests outside of the folder app, over apart and what changes
// in it.
func (m machine) gradeApart(target string, changes map[string]string) Grade {
	m.t.Helper()
	dir := m.room(apart)
	tests := Outside(dir+"/evaluator/tests", dir+"/evaluator/"+target, dir+"/app")
	tests.Functions = Functions([]byte(apart["evaluator/tests/test_calc.py"]))
	tests.Env = []string{"PYTHONSAFEPATH=1"}
	p := m.plan(tests, apart, [32]byte{1})
	m.write(dir, changes)
	m.write(tests.Root, texts(p))
	return p.Grade(m.run(p.Command))
}

// TestOutside runs tests that are not in the candidate's folder: all of them
// must pass, and at least one must run.
func TestOutside(t *testing.T) {
	t.Parallel()
	m := python(t)
	none := maps.Clone(solved)
	none["evaluator/tests/test_calc.py"] = "import pytest\n@pytest.mark.skip(reason='x')\ndef test_add(): pass\n"
	settings := maps.Clone(solved)
	settings["evaluator/tests/tox.ini"] = "[pytest]\naddopts = -k nothing\n"
	for name, c := range map[string]struct {
		target  string
		changes map[string]string
		want    string
	}{
		"right":            {"tests/test_calc.py", solved, "passed/"},
		"wrong":            {"tests/test_calc.py", nil, failing},
		"a folder":         {"tests", solved, "passed/"},
		"a folder, wrong":  {"tests", nil, failing},
		"no test has run":  {"tests/test_calc.py", none, failing},
		"no test is there": {"tests/none.py", solved, failing},
		"its own settings": {"tests/test_calc.py", settings, failing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := m.of(t).gradeApart(c.target, c.changes)
			if got := string(g.Outcome) + "/" + string(g.Reason); got != c.want {
				t.Errorf("%v, not %s", g, c.want)
			}
		})
	}
}

// TestOutsideAttacks lays files where a plain pytest finds them: in the folder
// in which it runs, and above the tests.
func TestOutsideAttacks(t *testing.T) {
	t.Parallel()
	m := python(t)
	plain := byExit("env", "-C", "app", "python3", "-m", "pytest", "../evaluator/tests/test_calc.py")
	const passes = "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n" +
		"    out = yield\n    out.get_result().outcome = 'passed'\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"W03 a package named pytest":      {map[string]string{"app/pytest/__init__.py": "", "app/pytest/__main__.py": ""}, failing},
		"W03 a module of the library":     {map[string]string{"app/json.py": "raise SystemExit(0)\n"}, failing},
		"W04 start-up files":              {map[string]string{"app/sitecustomize.py": "import os\nos._exit(0)\n"}, failing},
		"W20 settings above the tests":    {map[string]string{"pytest.ini": "[pytest]\naddopts = --co\n"}, failing},
		"W20 conftest.py above the tests": {map[string]string{"pytest.ini": "", "conftest.py": passes, "evaluator/conftest.py": passes}, failing},
		"W23 pytest patched at run time": {map[string]string{"app/calc.py": wrong +
			"import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"}, tampered},
		"W23 tests passed by their names": {map[string]string{"app/calc.py": wrong +
			passIf("item.name in ('test_add', 'test_program')")}, tampered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := m.of(t)
			dir := m.room(apart)
			m.write(dir, c.files)
			if !plain(m, dir) {
				t.Error("the attack does not work against the weak set-up")
			}
			g := m.gradeApart("tests/test_calc.py", c.files)
			if got := string(g.Outcome) + "/" + string(g.Reason); got != c.want {
				t.Errorf("%v, not %s", g, c.want)
			}
			if c.want == tampered {
				return
			}
			honest := maps.Clone(c.files)
			maps.Copy(honest, solved)
			if g := m.gradeApart("tests/test_calc.py", honest); g.Outcome != verdict.Passed {
				t.Errorf("honest, with these files: %v", g)
			}
		})
	}
}

// TestFileName: the name of a row's file is another one for each seed, with the form
// of a canary's, and no canary has it.
func TestFileName(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^test_[a-z_]+\.py$`)
	found := map[string]bool{}
	for n := range 50 {
		seed := [32]byte{byte(n)}
		name := FileName(seed)
		if !form.MatchString(name) || name != FileName(seed) {
			t.Errorf("%q", name)
		}
		found[name] = true
	}
	if len(found) < 49 {
		t.Errorf("%d names of 50", len(found))
	}
	d := newDraw(rand.New(rand.NewPCG(1, 1)), nil)
	again := newDraw(rand.New(rand.NewPCG(1, 1)), nil)
	d.taken = []string{again.module(0) + ".py"}
	if name := d.module(0) + ".py"; name == d.taken[0] {
		t.Errorf("a canary is called %s too", name)
	}
}
