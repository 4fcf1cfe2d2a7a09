package testrunner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/testrunner/results"
	"securebench/internal/verdict"
)

const probedPytest = "noise\nsecurebench-probe " +
	`{"executable":"/usr/bin/python3","version":[3,11],"pytest":"7.2.1","late":false,"plugins":[],"path":"/bin","pythonpath":""}` + "\n"

func TestCommands(t *testing.T) {
	t.Parallel()
	named := []string{"x"}
	for _, c := range []struct {
		runner  string
		command []string
		want    string // the driver, or a part of the error
	}{
		{"", []string{"python3", "-m", "pytest"}, "pytest"},
		{"", []string{"/opt/env/bin/python3.9", "-Wignore", "-X", "dev", "-mpytest", "-q"}, "pytest"},
		{"", []string{"py.test", "tests"}, "pytest"},
		{"", []string{"env", "A=B", "/usr/bin/env", "pytest"}, "no runner"},
		{"", []string{"python", "-m", "unittest", "-v"}, "unittest"},
		{"", []string{"python3", "tests/runtests.py"}, "no runner"},
		{"", []string{"make", "test"}, "no runner"},
		{"pytest", []string{"sh", "-lc", "cd src && A='b c' pytest tests/test_a.py::test_x[1-a] -k 'a or b'"}, "pytest"},
		{"pytest", []string{"bash", "-c", "pytest tests; echo done"}, "is not one simple command"},
		{"pytest", []string{"bash", "-c", "pytest $TESTS"}, "is not one simple command"},
		{"pytest", []string{"bash", "-c", "pip install . && pytest"}, "is not one simple command"},
		{"pytest", []string{"sh", "-c", "pytest 'tests"}, "is not one simple command"},
		{"pytest", []string{"sh", "-c", "''"}, "is not one simple command"},
		{"pytest", []string{"python3", "-m", ""}, "is not one simple command"},
		{"pytest", []string{"python3", "-c", "import pytest"}, "has the option -c"},
		{"pytest", []string{"tox", "-e", "py"}, "does not start pytest"},
		{"unittest", []string{"python3", "-m", "pytest"}, "does not start unittest"},
		{"django", []string{"./tests/runtests.py", "--parallel", "1"}, "django"},
		{"sympy", []string{"python3", "bin/test", "-C"}, "sympy"},
		{"sympy", []string{"bin/test"}, "sympy"},
		{"sympy", []string{"python3", "test"}, "does not start sympy"},
		{"jest", []string{"npx", "jest"}, "is unknown"},
		{"tap", []string{"node", "--test"}, ""},
	} {
		got, _, err := Tests{Command: c.command, Runner: c.runner, FailToPass: named}.driverOf()
		if err != nil {
			if got = err.Error(); strings.Contains(got, c.want) && c.want != "" {
				got = c.want
			}
		}
		if got != c.want {
			t.Errorf("%s %q: %q, not %q", c.runner, c.command, got, c.want)
		}
	}
	p, err := parseProgram([]string{"sh", "-lc", `cd "a b" && A='b c' python3 -B -m pytest x\ y "z's" ''`})
	if got := fmt.Sprintf("%q %v", []any{p.shell, p.env, p.dir, p.python, p.flags, p.module, p.args}, err); got !=
		`[["sh" "-lc"] ["A=b c"] "a b" "python3" ["-B"] "pytest" ["x y" "z's" ""]] <nil>` {
		t.Error(got)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	good := Tests{Command: []string{"pytest"}, Dir: "/repo", FailToPass: []string{"a"}, PassToPass: []string{"b"}}
	for name, c := range map[string]struct {
		change func(*Tests)
		probed string
		want   string
	}{
		"nothing":        {func(*Tests) {}, probedPytest, ""},
		"no Python":      {func(*Tests) {}, "", "no Python"},
		"an old Python":  {func(*Tests) {}, strings.Replace(probedPytest, "[3,11]", "[2,7]", 1), "needs 3.6"},
		"no pytest":      {func(*Tests) {}, strings.Replace(probedPytest, "7.2.1", "", 1), "has no pytest"},
		"an old pytest":  {func(*Tests) {}, strings.Replace(probedPytest, "7.2.1", "2.9.0", 1), "needs 3"},
		"a broken probe": {func(*Tests) {}, strings.Replace(probedPytest, "}", "", 1), "unknown form"},
		"a relative one": {func(*Tests) {}, strings.Replace(probedPytest, "/usr/bin/", "", 1), "its own path"},
		"a bad status":   {func(t *Tests) { t.Expected = map[string]string{"b": "failed"} }, probedPytest, "neither skipped nor xfailed"},
		"a stray id":     {func(t *Tests) { t.Expected = map[string]string{"c": "skipped"} }, probedPytest, "in neither"},
		"outside":        {func(t *Tests) { t.Command = []string{"sh", "-c", "cd /tmp && pytest"} }, probedPytest, "outside"},
		"go":             {func(t *Tests) { t.Runner, t.Command = "go", []string{"make"} }, "", "go test"},
	} {
		tests := good
		c.change(&tests)
		_, err := New(tests, []byte(c.probed), [32]byte{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPlan checks what reaches the sandbox, and that seeds decide about canaries.
func TestPlan(t *testing.T) {
	t.Parallel()
	tests := Tests{Command: []string{"env", "PYTHONPATH=/repo/lib", "A=1", "python3", "-W", "ignore", "-m", "pytest", "-q", "tests/b/test_x.py::test_y"},
		Dir: "/repo", FailToPass: []string{"x"}, TestFiles: []string{"README", "tests/a/test_z.py"}, Env: []string{"B=2"}}
	found := strings.Replace(probedPytest, `"pythonpath":""`, `"pythonpath":"/repo/lib"`, 1)
	seen := map[string]bool{}
	for seed := range byte(50) {
		p, err := New(tests, []byte(found), [32]byte{seed})
		if err != nil {
			t.Fatal(err)
		}
		if argv := p.Argv; !slices.Equal(argv[:5], []string{"/usr/bin/python3", "-W", "ignore", "-S", "-c"}) || len(argv) != 6 {
			t.Errorf("argv %q", argv[:5])
		}
		if !slices.Equal(p.Env, []string{"B=2", "A=1", "PYTHONPATH="}) || p.Dir != "/repo" {
			t.Errorf("env %q, dir %q", p.Env, p.Dir)
		}
		if strings.Contains(strings.Join(append(p.Argv, p.Env...), " "), p.key) || !strings.Contains(string(p.Stdin), p.key) {
			t.Error("the key is not on the standard input alone")
		}
		for _, want := range []string{`"--rootdir=/repo","-q","tests/b/test_x.py::test_y"`, `"paths":["/repo","/repo/lib"]`} {
			if !strings.Contains(string(p.Stdin), want) {
				t.Errorf("standard input without %s: %s", want, p.Stdin)
			}
		}
		if len(p.Files) != canaryFiles {
			t.Errorf("%d canaries", len(p.Files))
		}
		for name, text := range p.Files {
			if strings.Contains(string(text), "%!") {
				t.Errorf("a body is broken:\n%s", text)
			}
			if seen[name] || !strings.HasPrefix(name, "tests/a/test_") && !strings.HasPrefix(name, "tests/b/test_") {
				t.Errorf("canary %s", name)
			}
			seen[name] = true
		}
		again, err := New(tests, []byte(found), [32]byte{seed})
		if err != nil || again.key != p.key || !slices.Equal(again.Stdin, p.Stdin) {
			t.Errorf("the same seed makes another plan: %v", err)
		}
	}
}

// TestCanaryKinds checks that each way of failing is in the canaries of each run,
// so that no patch of a single one goes unseen.
func TestCanaryKinds(t *testing.T) {
	t.Parallel()
	for driver, kinds := range map[string][]string{"pytest": slices.Concat(plainBodies, pytestBodies, methodBodies),
		"unittest": methodBodies, "django": methodBodies, "sympy": plainBodies} {
		for seed := range uint64(200) {
			d := newDraw(rand.New(rand.NewPCG(seed, 0)), []string{"test_of_the_row"})
			found, files := d.canaries(driver, []string{"a", "b"})
			var text string
			for _, b := range files {
				text += string(b)
			}
			for _, kind := range kinds {
				if start, _, _ := strings.Cut(kind, "%"); !strings.Contains(text, start) {
					t.Errorf("%s: no canary with %q", driver, kind)
				}
			}
			n, old := 0, 0
			for _, c := range found {
				n += len(c.ids)
				if c.Old {
					old++
				}
				if !strings.Contains(string(files[c.Path]), "def test_of_the_row(") {
					t.Errorf("%s: %s has no test with a name of the row's", driver, c.Path)
				}
			}
			if n != len(kinds) || old != canaryFiles/2 {
				t.Errorf("%s: %d tests for %d kinds, and %d old files", driver, n, len(kinds), old)
			}
		}
	}
}

func TestFunctionNames(t *testing.T) {
	t.Parallel()
	ids := []string{"a/t.py::test_a", "a/t.py::A::test_b[x.y::test_z]", "a/t.py::test_b[", "test_c (a.t.A)", "a.t.A.test_d", "test_e",
		"test_f (a.t.A.test_f)", "Adding works.", "test_", "test_g h", "t.py::check", "t.py::test_\u00e9", ""}
	if got := functionNames(ids); !slices.Equal(got, []string{"test_a", "test_b", "test_c", "test_d", "test_e", "test_f"}) {
		t.Errorf("%q", got)
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	x := newIndex([]results.Test{
		{ID: "t.py::a", Status: "passed"}, {ID: "t.py::a[x y]", Status: "passed"}, {ID: "t.py::a[x z]", Status: "passed"},
		{ID: "t.py::b[1 2]", Status: "passed"}, {ID: "t.py::b[1 3]", Status: "failed"}, {ID: "t.py::s", Status: "skipped"},
		{ID: "t.py::twice", Status: "passed"}, {ID: "t.py::twice", Status: "passed"}, {ID: "t.py::none"},
		{ID: "f.py::same", Names: []string{"same"}, Status: "passed"}, {ID: "g.py::same", Names: []string{"same"}, Status: "passed"},
		{ID: "f.py::mixed", Names: []string{"mixed"}, Status: "passed"}, {ID: "g.py::mixed", Names: []string{"mixed"}, Status: "skipped"},
		{ID: "xp", Status: "xpassed"}, {ID: "own", Names: []string{"t.py::s"}, Status: "passed"},
	})
	for _, c := range []struct {
		id, instead string
		want        bool
	}{
		{"t.py::a", "", true}, {"t.py::a[x", "", true}, {"t.py::b[1", "", false}, {"t.py::a[y", "", false},
		{"t.py::a[", "", true}, {"t.py::", "", false}, {"t.py::a[x]", "", false},
		{"t.py::s", "", false}, {"t.py::s", "skipped", true}, {"t.py::s", "xfailed", false},
		{"t.py::twice", "", false}, {"t.py::none", "", false}, {"t.py::none", "skipped", false},
		{"same", "", true}, {"mixed", "", false}, {"mixed", "skipped", false}, {"xp", "", false}, {"", "", false}, {"missing", "skipped", false},
	} {
		if got := x.kept(c.id, c.instead); got != c.want {
			t.Errorf("%s, or %s: %v", c.id, c.instead, got)
		}
	}
}

// forger writes a report for a plan.
type forger struct {
	p     *Plan
	lines []string
}

func (f *forger) say(format string, args ...any) {
	f.lines = append(f.lines, `{"key":"`+f.p.key+`",`+fmt.Sprintf(format, args...)+"}")
}

func (f *forger) canaryIDs() (out []string) {
	for _, c := range f.p.canaries {
		out = append(out, c.ids...)
	}
	return out
}

// report writes the results of tests, and of canaries with one status.
func (f *forger) report(canaries string, status map[string]string, exit int) {
	var ids []string
	for id := range status {
		ids = append(ids, id)
	}
	if canaries != "" {
		ids = append(ids, f.canaryIDs()...)
	}
	for _, id := range ids {
		f.say(`"type":"test","id":%q,"names":[]`, id)
	}
	f.say(`"type":"start","tests":%d`, len(ids))
	for _, id := range ids {
		if s := status[id]; s != "" {
			f.say(`"type":"result","id":%q,"status":%q`, id, s)
		} else if canaries != "collected" {
			f.say(`"type":"result","id":%q,"status":%q`, id, canaries)
		}
	}
	f.say(`"type":"end","status":%d`, exit)
}

// graded is a forged report, how the run ended, and the grade.
type graded struct {
	forge func(*forger)
	exit  int
	end   sandbox.End
	want  string
}

func gradedCases() map[string]graded {
	good := map[string]string{"f": "passed", "p": "passed", "s": "skipped"}
	with := func(id, status string) map[string]string {
		m := map[string]string{"f": "passed", "p": "passed", "s": "skipped"}
		m[id] = status
		return m
	}
	return map[string]graded{
		"all is well":            {func(f *forger) { f.report("failed", good, 0) }, 0, "", "passed/"},
		"canaries in error":      {func(f *forger) { f.report("error", good, 0) }, 0, "", "passed/"},
		"another test fails":     {func(f *forger) { f.report("failed", with("o", "failed"), 1) }, 1, "", "passed/"},
		"it failed":              {func(f *forger) { f.report("failed", with("f", "failed"), 1) }, 1, "", failing},
		"it errs":                {func(f *forger) { f.report("failed", with("p", "error"), 1) }, 1, "", failing},
		"it was skipped":         {func(f *forger) { f.report("failed", with("f", "skipped"), 0) }, 0, "", failing},
		"it passed unexpectedly": {func(f *forger) { f.report("failed", with("p", "xpassed"), 0) }, 0, "", failing},
		"no expected skip":       {func(f *forger) { f.report("failed", with("s", "passed"), 0) }, 0, "", "passed/"},
		"another status":         {func(f *forger) { f.report("failed", with("s", "xfailed"), 0) }, 0, "", failing},
		"it is missing":          {func(f *forger) { f.report("failed", map[string]string{"p": "passed", "s": "skipped"}, 0) }, 0, "", failing},
		"canaries pass":          {func(f *forger) { f.report("passed", good, 0) }, 0, "", tampered},
		"canaries are skipped":   {func(f *forger) { f.report("skipped", good, 0) }, 0, "", tampered},
		"canaries xfail":         {func(f *forger) { f.report("xfailed", good, 0) }, 0, "", tampered},
		"canaries do not run":    {func(f *forger) { f.report("collected", good, 0) }, 0, "", tampered},
		"canaries are missing":   {func(f *forger) { f.report("", good, 0) }, 0, "", tampered},
		"exit 0 with a failure":  {func(f *forger) { f.report("failed", with("o", "failed"), 0) }, 0, "", failing},
		"exit 1 without one":     {func(f *forger) { f.report("failed", good, 1) }, 1, "", failing},
		"a usage error":          {func(f *forger) { f.report("failed", good, 4) }, 4, "", failing},
		"interrupted":            {func(f *forger) { f.report("collected", good, 2) }, 2, "", failing},
		"another exit status":    {func(f *forger) { f.report("failed", good, 0) }, 1, "", exited},
		"killed after the end":   {func(f *forger) { f.report("failed", good, 0) }, 137, "", exited},
		"nothing":                {func(*forger) {}, 0, "", exited},
		"no end":                 {func(f *forger) { f.report("failed", good, 0); f.lines = f.lines[:len(f.lines)-1] }, 0, "", exited},
		"a printed line":         {func(f *forger) { f.lines = []string{"PASSED f"}; f.report("failed", good, 0) }, 0, "", violated},
		"a result too many": {func(f *forger) {
			f.report("failed", good, 0)
			f.lines = slices.Insert(f.lines, len(f.lines)-1, f.lines[len(f.lines)-2])
		}, 0, "", violated},
		"a second start":  {func(f *forger) { f.report("failed", good, 0); f.report("failed", good, 0) }, 0, "", violated},
		"out of time":     {func(f *forger) { f.report("failed", good, 0) }, 124, sandbox.TimedOut, "verifier_timeout/verifier_timeout"},
		"out of memory":   {func(*forger) {}, 137, sandbox.OutOfMemory, "limit/oom"},
		"ended otherwise": {func(f *forger) { f.report("failed", good, 0) }, 0, "not_started", exited},
	}
}

func TestGrade(t *testing.T) {
	t.Parallel()
	for name, c := range gradedCases() {
		p, err := New(Tests{Command: []string{"pytest"}, Dir: "/repo", FailToPass: []string{"f"}, PassToPass: []string{"p", "s"},
			Expected: map[string]string{"s": "skipped"}}, []byte(probedPytest), [32]byte{7})
		if err != nil {
			t.Fatal(err)
		}
		f := &forger{p: p}
		c.forge(f)
		end := c.end
		if end == "" {
			end = sandbox.Exited
		}
		g := p.Grade(Ran{End: end, ExitCode: c.exit, Stdout: []byte(strings.Join(append(f.lines, ""), "\n"))})
		if got := string(g.Outcome) + "/" + string(g.Reason); got != c.want {
			t.Errorf("%s: %v, not %s", name, g, c.want)
		}
		if (g.Outcome == verdict.Passed) != (g.Message == "") || strings.Contains(g.Message, "\n") || g.Metadata == nil {
			t.Errorf("%s: message %q, metadata %v", name, g.Message, g.Metadata)
		}
	}
}

// TestGradeText grades what other runners print.
func TestGradeText(t *testing.T) {
	t.Parallel()
	goTests := Tests{Runner: "go", Command: []string{"go", "test", "./..."}, FailToPass: []string{"p/TestA"}, PassToPass: []string{"TestB"}}
	const pass = `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"q","Test":"TestB"}` + "\n"
	for name, c := range map[string]struct {
		tests     Tests
		text      string
		exit      int
		truncated bool
		want      string
	}{
		"go":                 {goTests, pass, 0, false, "passed/"},
		"go: exit 1":         {goTests, pass, 1, false, failing},
		"go: another fails":  {goTests, pass + `{"Action":"fail","Package":"p","Test":"TestC"}`, 1, false, "passed/"},
		"go: contradiction":  {goTests, pass + `{"Action":"fail","Package":"p","Test":"TestA"}`, 1, false, failing},
		"go: two packages":   {goTests, pass + `{"Action":"skip","Package":"p","Test":"TestB"}`, 0, false, failing},
		"go: text":           {goTests, "ok p\n", 0, false, violated},
		"go: truncated":      {goTests, pass, 0, true, "limit/output_limit"},
		"tap: no plan":       {Tests{Runner: "tap", FailToPass: []string{"a"}}, "ok 1 - a\n", 0, false, exited},
		"tap":                {Tests{Runner: "tap", FailToPass: []string{"a"}}, "1..1\nok 1 - a\n", 0, false, "passed/"},
		"junit":              {Tests{Runner: "junit", FailToPass: []string{"C.a"}}, `<testsuite><testcase classname="C" name="a"/></testsuite>`, 0, false, "passed/"},
		"no names":           {Tests{Runner: "tap"}, "1..1\nok 1 - a\n", 0, false, "passed/"},
		"no names, no tests": {Tests{Runner: "tap"}, "1..0\n", 0, false, failing},
		"exit 0 alone":       {Tests{}, "", 0, false, "passed/"},
		"exit 1 alone":       {Tests{}, "", 1, false, failing},
	} {
		p, err := New(c.tests, nil, [32]byte{})
		if err != nil {
			t.Fatal(err)
		}
		g := p.Grade(Ran{End: sandbox.Exited, ExitCode: c.exit, Stdout: []byte(c.text), Truncated: c.truncated})
		if got := string(g.Outcome) + "/" + string(g.Reason); got != c.want {
			t.Errorf("%s: %v, not %s", name, g, c.want)
		}
		if labelled := slices.Equal(g.Labels, []string{"text_report"}); labelled != (c.tests.Runner != "") {
			t.Errorf("%s: labels %q", name, g.Labels)
		}
	}
}

func FuzzCommand(f *testing.F) {
	f.Add("cd src && A='b c' python3 -W x -m pytest 'a b' \"c\"")
	f.Add("env A=B ./tests/runtests.py --parallel 1 x")
	f.Fuzz(func(t *testing.T, line string) {
		p, err := parseProgram([]string{"sh", "-c", line})
		if err != nil {
			return
		}
		if (p.module == "") == (p.script == "") {
			t.Errorf("%q: module %q and script %q", line, p.module, p.script)
		}
	})
}

func FuzzGrade(f *testing.F) {
	p, err := New(Tests{Command: []string{"pytest"}, Dir: "/repo", FailToPass: []string{"f"}}, []byte(probedPytest), [32]byte{7})
	if err != nil {
		f.Fatal(err)
	}
	w := &forger{p: p}
	w.report("passed", map[string]string{"f": "passed"}, 0)
	f.Add([]byte(strings.Join(w.lines, "\n")+"\n"), 0)
	f.Fuzz(func(t *testing.T, out []byte, exit int) {
		g := p.Grade(Ran{End: sandbox.Exited, ExitCode: exit, Stdout: out})
		if g.Outcome != verdict.Passed {
			return
		}
		for _, id := range w.canaryIDs() { // each must be there as failed
			if !strings.Contains(string(out), id) {
				t.Errorf("it passes without the canary %s", id)
			}
		}
	})
}
