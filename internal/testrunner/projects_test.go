package testrunner

import (
	"maps"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/sampletest"
	"securebench/internal/verdict"
)

// with returns calc with more files.
func with(files map[string]string) map[string]string {
	out := maps.Clone(calc)
	maps.Copy(out, files)
	return out
}

// coverage fails a run as pytest-cov does: tests that are not all of a project's reach
// a part of its code.
const coverage = `import pytest

def pytest_addoption(parser):
    parser.addoption('--cov-fail-under', dest='cov_fail_under', type=float)

def pytest_load_initial_conftests(early_config):
    early_config.pluginmanager.register(Cov(early_config.known_args_namespace), '_cov')

class Cov:
    def __init__(self, options): self.options = options

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtestloop(self, session):
        yield
        session.testsfailed += 50 < self.options.cov_fail_under
`

// TestSettings: projects set pytest up in many ways. With each of them the right
// change passes, and the base does not.
func TestSettings(t *testing.T) {
	t.Parallel()
	m := python(t)
	ini := func(lines string) map[string]string {
		return with(map[string]string{"pytest.ini": "[pytest]\n" + lines})
	}
	all := map[string]map[string]string{
		"failed first":     ini("addopts = --ff\n"),
		"new first":        ini("addopts = --nf\n"),
		"last failed":      ini("addopts = --lf\n"),
		"a cleared cache":  ini("addopts = --cache-clear\n"),
		"a strict cache":   ini("addopts = --strict-config\ncache_dir = .cache/pytest\n"),
		"a planted cache":  with(map[string]string{"pytest.ini": "[pytest]\naddopts = --lf\n", ".pytest_cache/v/cache/lastfailed": `{"tests/test_calc.py::test_fails": true}`}),
		"stepwise":         ini("addopts = --stepwise\n"),
		"no cache":         ini("addopts = -p no:cacheprovider\n"),
		"no cache, strict": ini("addopts = -p no:cacheprovider --strict-config\n"),
		"strict":           ini("addopts = --strict-markers -W error -x --maxfail=1 -q -q --tb=no\nfilterwarnings = error\n"),
		"logs":             ini("log_cli = true\nlog_cli_level = DEBUG\njunit_family = xunit2\naddopts = --junitxml=report.xml\n"),
		"importlib":        ini("addopts = --import-mode=importlib\npythonpath = .\n"),
		"doctests":         ini("addopts = --doctest-modules\n"),
		"ignored names":    with(map[string]string{"tests/conftest.py": "import glob\ncollect_ignore_glob = ['test_*_*.py']\n"}),
		"an ignoring hook": with(map[string]string{"conftest.py": "def pytest_ignore_collect(collection_path):\n    return collection_path.suffix == '.py' and collection_path.name not in ('test_calc.py', 'conftest.py') or None\n"}),
		"required plugins": with(map[string]string{"pytest.ini": "[pytest]\nrequired_plugins = pytest-thing>=1.0\naddopts = --thing\n",
			"vendor/pytest_thing.py":                     "def pytest_addoption(parser): parser.addoption('--thing', action='store_true')\n",
			"vendor/pytest_thing-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: pytest-thing\nVersion: 1.0\n", "vendor/pytest_thing-1.0.dist-info/entry_points.txt": "[pytest11]\nthing = pytest_thing\n"}),
		"covered code": with(map[string]string{"pytest.ini": "[pytest]\naddopts = --cov-fail-under=100\n", "vendor/pytest_thing.py": coverage,
			"tests/test_calc.py":                          "from calc import add\ndef test_add(): assert add(1, 2) == 3\ndef test_zero(): assert add(1, 0) == 1\n",
			"vendor/thing-1.0.dist-info/entry_points.txt": "[pytest11]\nthing = pytest_thing\n"}),
		"minimum version": ini("minversion = 3.0\ntestpaths = tests\n"),
	}
	whole := sampletest.Keys(t, 3, all) // are also run without the names of files
	for name, base := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := m.of(t)
			for _, args := range [][]string{{"tests/test_calc.py"}, nil} {
				if len(args) == 0 && !slices.Contains(whole, name) {
					continue
				}
				tests := Tests{Command: append([]string{"python3", "-m", "pytest"}, args...), TestFiles: []string{"tests/test_calc.py"},
					FailToPass: in("test_add"), PassToPass: in("test_zero")}
				if base["vendor/pytest_thing.py"] != "" {
					tests.Env = []string{"PYTHONPATH=vendor"}
				}
				if g := m.grade(tests, base, fixed); g.Outcome != verdict.Passed {
					t.Errorf("%q, fixed: %v", args, g)
				}
				if len(args) == 0 {
					continue
				}
				if g := m.grade(tests, base, nil); g.Outcome != verdict.Failed {
					t.Errorf("%q, base: %v", args, g)
				}
			}
		})
	}
}

// installed prints the files of pytest as JSON, with the argument of a hook as releases and
// pytest's own repository called it for a while.
const installed = `import glob, json, os, pytest, _pytest
files = {}
for package in pytest, _pytest:
    top = os.path.dirname(os.path.dirname(package.__file__))
    for name in glob.glob(os.path.dirname(package.__file__) + "/**/*.py", recursive=True):
        files[os.path.join("src", os.path.relpath(name, top))] = open(name).read().replace("collection_path", "fspath")
print(json.dumps(files))`

// TestPytestItself: the checkout is pytest, in a state between two releases: its version
// says what its hooks do not have yet. The right change passes, and the base does not.
func TestPytestItself(t *testing.T) {
	t.Parallel()
	m := python(t)
	own := map[string]string{}
	if err := json.Unmarshal(m.run(Command{Argv: []string{"python3", "-c", installed}, Dir: m.room(calc)}).Stdout, &own); err != nil || own["src/_pytest/hookspec.py"] == "" {
		t.Fatalf("%d files of pytest: %v", len(own), err)
	}
	base := with(own)
	tests := Tests{Command: []string{"python3", "-m", "pytest", "tests/test_calc.py"}, Env: []string{"PYTHONPATH=src"}, TestFiles: []string{"tests/test_calc.py"},
		FailToPass: in("test_add"), PassToPass: in("test_zero")}
	if g := m.grade(tests, base, fixed); g.Outcome != verdict.Passed {
		t.Errorf("fixed: %v", g)
	}
	if g := m.grade(tests, base, nil); g.Outcome != verdict.Failed {
		t.Errorf("base: %v", g)
	}
}

// marked is calc whose tests have the mark unit.
func marked(conftest string) map[string]string {
	return map[string]string{
		"pytest.ini":         "[pytest]\naddopts = --strict-markers\nmarkers = unit\n",
		"conftest.py":        "import os\nimport pytest\n" + conftest,
		"calc/__init__.py":   calc["calc/__init__.py"],
		"tests/test_calc.py": "import pytest\nfrom calc import add\n@pytest.mark.unit\ndef test_add(): assert add(1, 2) == 3\n",
	}
}

// rehearsed chooses the form of canaries for a base.
func (m machine) rehearsed(tests Tests, base map[string]string) Form {
	m.t.Helper()
	own := map[string][]byte{}
	for _, name := range tests.TestFiles {
		own[name] = []byte(base[name])
	}
	tests.Dir = m.room(base)
	c, _ := Probe(tests)
	found := m.run(c).Stdout
	for _, forms := range [][]Form{{{}}, Forms(own)} {
		r, err := Rehearse(tests, found, [32]byte{2}, forms)
		if err != nil {
			m.t.Fatal(err)
		}
		m.write(tests.Dir, texts(r.Plan))
		if form, ok := r.Choose(m.run(r.Command)); ok {
			return form
		}
	}
	return Form{None: true}
}

// TestGates: a base that skips files which it does not know also skips canaries. They
// take a form that it runs, or there are none, and the verdict says so. A change that
// passes by a patch of the machinery is found wherever there are canaries.
func TestGates(t *testing.T) {
	t.Parallel()
	m := python(t)
	const cheat = wrong + "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"
	gates := map[string]struct {
		conftest string
		want     Form
	}{
		"no gate":          {"", Form{}},
		"a marker gate":    {"def pytest_collection_modifyitems(items):\n    for i in items:\n        if not i.get_closest_marker('unit'): i.add_marker(pytest.mark.skip)\n", Form{Markers: []string{"unit"}}},
		"an autouse skip":  {"@pytest.fixture(autouse=True)\ndef gate(request):\n    if 'unit' not in request.keywords: pytest.skip('x')\n", Form{Markers: []string{"unit"}}},
		"a set-up hook":    {"def pytest_runtest_setup(item):\n    if 'unit' not in [m.name for m in item.iter_markers()]: pytest.skip('x')\n", Form{Markers: []string{"unit"}}},
		"names of files":   {"def pytest_runtest_setup(item):\n    if not os.path.basename(str(item.fspath)).startswith('test_calc'): pytest.skip('x')\n", Form{Stem: "test_calc"}},
		"both":             {"def pytest_runtest_setup(item):\n    if not item.get_closest_marker('unit') or 'test_calc' not in str(item.fspath): pytest.skip('x')\n", Form{Markers: []string{"unit"}, Stem: "test_calc"}},
		"a list of files":  {"def pytest_runtest_setup(item):\n    if os.path.basename(str(item.fspath)) != 'test_calc.py': pytest.skip('x')\n", Form{None: true}},
		"others pass":      {"@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    r = yield\n    if item.name != 'test_add' or 'calc.py' not in str(item.fspath): r.get_result().outcome = 'passed'\n", Form{None: true}},
		"a broken base":    {"import calc.missing\n", Form{}},
		"it ends at once":  {"def pytest_collection_finish(session): pytest.exit('x', 3)\n", Form{}},
		"files it forgets": {"def pytest_collection_modifyitems(items):\n    items[:] = [i for i in items if i.get_closest_marker('unit')]\n", Form{}},
	}
	for _, name := range sampletest.Keys(t, 2, gates) {
		c := gates[name]
		t.Run(name, func(t *testing.T) {
			m := m.of(t)
			base := marked(c.conftest)
			tests := Tests{Command: []string{"python3", "-m", "pytest", "tests/test_calc.py"}, TestFiles: []string{"tests/test_calc.py"}, FailToPass: in("test_add")}
			tests.Form = m.rehearsed(tests, base)
			if tests.Form.None != c.want.None || tests.Form.Stem != c.want.Stem || !slices.Equal(tests.Form.Markers, c.want.Markers) {
				t.Fatalf("%+v, not %+v", tests.Form, c.want)
			}
			if name == "a broken base" || name == "it ends at once" {
				return
			}
			g := m.grade(tests, base, fixed)
			if g.Outcome != verdict.Passed || slices.Contains(g.Labels, "no_canaries") != c.want.None {
				t.Errorf("fixed: %v %q", g, g.Labels)
			}
			if g := m.grade(tests, base, nil); g.Reason != verdict.TestsFailed {
				t.Errorf("base: %v", g)
			}
			if g := m.grade(tests, base, map[string]string{"calc/__init__.py": cheat}); (g.Outcome == verdict.Tampering) == c.want.None {
				t.Errorf("a patch of the machinery: %v", g)
			}
		})
	}
}
