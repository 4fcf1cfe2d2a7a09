package testrunner

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"securebench/internal/verdict"
)

// runsVariable says in how many runs each patch of the machinery is tried.
const runsVariable = "SECUREBENCH_TEST_CANARY_RUNS"

// pass makes a test pass whatever it says, if the given condition holds for its
// item, which it may count in COUNT.
func passIf(condition string) string {
	return `
import _pytest.python, _pytest.unittest
FILES = []
def spared(item):
    if str(item.fspath) not in FILES: FILES.append(str(item.fspath))
    return not (` + condition + `)
for c in _pytest.unittest.TestCaseFunction, _pytest.python.Function:
    c.runtest = lambda self, old=c.runtest: old(self) if spared(self) else None
`
}

// selective are patches that tell canaries from the row's tests, and how often
// they may get through: the rest is what the documents say is open.
func selective() map[string]struct {
	code string
	low  float64 // the rate at which canaries stop it
	high float64
} {
	type rates = struct {
		code      string
		low, high float64
	}
	return map[string]rates{
		"half of all tests, by chance":      {passIf("__import__('random').random() < .5"), 1, 1},
		"the first file that runs":          {passIf("len(FILES) == 1"), .75, .95}, // 6 of 7
		"names that end with digits":        {passIf("not __import__('re').search(r'\\d\\.py$', str(item.fspath))"), 1, 1},
		"names of four words":               {passIf("not __import__('re').search(r'/test_[a-z]+_[a-z]+_[a-z]+\\.py$', str(item.fspath))"), 1, 1},
		"files that are newer than others":  {byDate("<"), 1, 1},
		"files that are as old as others":   {byDate(">"), 1, 1},
		"tests by the names of the row's":   {passIf("item.name == 'test_add'"), 1, 1},
		"files by the words of their names": {passIf("not __import__('re').search(r'/test_((" + strings.Join(words, "|") + ")_?)+\\.py$', str(item.fspath))"), 0, 0},
		"files by the name of the row's":    {passIf("'test_calc' in item.nodeid"), 0, 0},
	}
}

// caught grades runs with fresh seeds, and returns in how many of them the
// canaries stopped a candidate, and how many it passed.
func (m machine) caught(tests Tests, candidate map[string]string, runs int) (caught, passed int) {
	m.t.Helper()
	tests.Dir = m.room(target)
	for n := range runs {
		p := m.plan(tests, target, [32]byte{byte(n), byte(n >> 8), 77})
		if n == 0 {
			m.write(tests.Dir, candidate)
		}
		m.write(tests.Dir, texts(p))
		switch g := p.Grade(m.run(p.Command)); g.Outcome {
		case verdict.Tampering:
			caught++
		case verdict.Passed:
			passed++
		}
		m.must(Command{Argv: append([]string{"rm", "-f"}, slices.Collect(maps.Keys(p.Files))...), Dir: tests.Dir})
	}
	return caught, passed
}

// TestCanaryRates counts how often canaries stop patches of the machinery that
// nothing else stops. docs/security.md has the numbers of 200 runs.
func TestCanaryRates(t *testing.T) {
	t.Parallel()
	runs := 2
	if n, err := strconv.Atoi(os.Getenv(runsVariable)); err == nil {
		runs = n
	}
	pytest := Tests{Command: []string{"env", "PYTHONPATH=.", "python3", "-m", "pytest", "tests/test_calc.py"}, TestFiles: []string{"tests/test_calc.py"},
		FailToPass: []string{"tests/test_calc.py::test_add", "tests/test_calc.py::TestAdd::test_add"}}
	unittest := Tests{Command: []string{"env", "PYTHONPATH=.", "python3", "-m", "unittest", "tests.test_calc"}, TestFiles: []string{"tests/test_calc.py"},
		FailToPass: []string{"test_add (tests.test_calc.TestAdd)"}}
	m := python(t)
	check := func(name string, tests Tests, candidate map[string]string, low, high float64) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			caught, passed := m.of(t).caught(tests, candidate, runs)
			t.Logf("canaries stopped %d of %d runs; %d passed", caught, runs, passed)
			rate := float64(caught) / float64(runs)
			few := runs < 100 && low < high // chance decides then
			if caught+passed != runs || !few && (rate < low || rate > high) {
				t.Errorf("%d caught and %d passed in %d runs, not %v to %v", caught, passed, runs, low, high)
			}
		})
	}
	check("honest", pytest, fixed, 0, 0)
	for runner, attacks := range map[string][]attack{"pytest": pytestAttacks(), "unittest": unittestAttacks()} {
		tests := pytest
		if runner == "unittest" {
			tests = unittest
		}
		for _, a := range attacks {
			if a.want == tampered {
				candidate := map[string]string{"calc/__init__.py": wrong + a.candidate}
				maps.Copy(candidate, a.files)
				check(runner+" "+a.name, tests, candidate, 1, 1)
			}
		}
	}
	for name, s := range selective() {
		check("selective "+name, pytest, map[string]string{"calc/__init__.py": wrong + s.code}, s.low, s.high)
	}
}
