package repopatch

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/family/repopatch/policy"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// object is a part of a row as tests write it.
type object = map[string]any

// merged returns the objects in one; later ones win, and nil removes.
func merged(objects ...object) object {
	out := object{}
	for _, o := range objects {
		maps.Copy(out, o)
	}
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil })
	return out
}

// makeCase compiles a row into the views that a verifier gets.
func makeCase(tb testing.TB, eval object, env task.Environment, limits sandbox.Limits, commit string) family.Case {
	tb.Helper()
	resources := []task.Resource{{Name: "base_commit", Lane: task.Public, Value: familytest.JSON(tb, commit)}}
	for _, name := range slices.Sorted(maps.Keys(eval)) {
		resources = append(resources, task.Resource{Name: name, Lane: Family().Lanes[name], Value: familytest.JSON(tb, eval[name])})
	}
	compiled, err := task.New(task.Config{ID: "task", Family: "repo_patch", Pack: task.Pack{ID: "pack", Version: 1},
		Resources: resources, Environment: env})
	if err != nil {
		tb.Fatal(err)
	}
	return family.Case{Attempt: 1, Sandbox: compiled.TestSandbox(), Evaluator: compiled.Evaluator(), Limits: limits}
}

func TestReadRow(t *testing.T) {
	command := object{"source": "command", "command": "make test"}
	env := task.Environment{Workdir: "/testbed/", User: "tester", Env: []string{"A=b"}}
	read := func(eval object) row {
		r, f := readRow(makeCase(t, eval, env, sandbox.Limits{}, "abc"))
		if f != nil {
			t.Fatal(f)
		}
		return r
	}
	got := read(object{"tests": command})
	if got.dir != "/testbed" || got.commit != "abc" || got.user != "tester" || got.setup != nil || got.testPatch != nil ||
		!slices.Equal(got.run.Command, []string{"sh", "-lc", "make test"}) || got.run.Dir != "/testbed" || !slices.Equal(got.run.Env, env.Env) {
		t.Errorf("a plain row: %+v", got)
	}
	got = read(object{"tests": merged(command, object{"workdir": "/src", "command": []string{"pytest", "-q"},
		"setup_patch": "diff", "test_patch": object{"source": "inline", "patch": "diff\n"},
		"fail_to_pass": []string{"a"}, "pass_to_pass": []string{"b"}, "expected": object{"b": "skipped"}})})
	if got.dir != "/src" || string(got.setup) != "diff\n" || string(got.testPatch) != "diff\n" || got.run.Runner != "pytest" ||
		!slices.Equal(got.run.FailToPass, []string{"a"}) || !slices.Equal(got.run.PassToPass, []string{"b"}) || got.run.Expected["b"] != "skipped" {
		t.Errorf("a row with all: %+v", got)
	}
	rules := object{"allow_paths": []string{"src"}, "allow_sensitive_paths": []string{"setup.py"}, "patch_preserved_paths": []string{"conftest.py"}, "on_denied": "drop"}
	want := policy.Policy{AllowPaths: []string{"src"}, AllowSensitivePaths: []string{"setup.py"}, PreservedPaths: []string{"conftest.py"}, Drop: true}
	for name, eval := range map[string]object{
		"in eval":       {"tests": command, "candidate_policy": rules},
		"in eval.tests": {"tests": merged(command, object{"candidate_policy": rules})},
	} {
		if got := read(eval).policy; !cmp.Equal(got, want) {
			t.Errorf("policy %s: %s", name, cmp.Diff(want, got))
		}
	}
	for name, tests := range map[string]any{"another source": object{"source": "cases"}, "no command": object{"source": "command"}, "text": "x"} {
		if r, f := readRow(makeCase(t, object{"tests": tests}, env, sandbox.Limits{}, "abc")); f == nil {
			t.Errorf("%s: got %+v", name, r)
		}
	}
}

func TestRecognise(t *testing.T) {
	for command, want := range map[string]string{
		`"pytest -q tests"`: "pytest", `"/usr/bin/py.test"`: "pytest", `["python3", "-m", "pytest", "a b"]`: "pytest",
		`"python -m unittest discover"`: "unittest", `["/opt/py/bin/python3.9","-m","unittest"]`: "unittest",
		`"python -m coverage run"`: "", `"python pytest"`: "", `"cd x && pytest"`: "", `"pytest; true"`: "", `"pytest | tee log"`: "",
		`"A=1 pytest"`: "", `"pytest $X"`: "", `"make pytest"`: "", `["sh","-c","pytest"]`: "", `"python -m"`: "", `[]`: "", `""`: "", `" "`: "",
	} {
		if got := recognise(jsontext.Value(command)); got != want {
			t.Errorf("%s: got %q, want %q", command, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	plain := object{"source": "command", "command": "make"}
	named := object{"source": "command", "command": "make", "runner": "junit", "fail_to_pass": []string{"a"}, "pass_to_pass": []string{"b"}}
	tests := []struct {
		name        string
		eval        object
		environment object
		want        string // places and messages, "" for none
	}{
		{"workdir of the environment", object{"tests": plain}, object{"workdir": "/r"}, ""},
		{"workdir of the tests", object{"tests": merged(plain, object{"workdir": "/r"})}, nil, ""},
		{"no workdir", object{"tests": plain}, nil, "tests does not set a workdir"},
		{"a relative workdir", object{"tests": plain}, object{"workdir": "r"}, "tests has a workdir where no repository can be"},
		{"the root", object{"tests": plain}, object{"workdir": "/"}, "tests has a workdir where no repository can be"},
		{"proc", object{"tests": plain}, object{"workdir": "/proc/1/cwd"}, "tests has a workdir where no repository can be"},
		{"two policies", object{"tests": merged(plain, object{"workdir": "/r", "candidate_policy": object{}}), "candidate_policy": object{}}, nil,
			"candidate_policy is already set in eval.tests"},
		{"names", object{"tests": named}, object{"workdir": "/r"}, ""},
		{"names and a plain pytest", object{"tests": merged(named, object{"runner": nil, "command": "pytest"})}, object{"workdir": "/r"}, ""},
		{"names without a runner", object{"tests": merged(named, object{"runner": nil})}, object{"workdir": "/r"}, "tests names tests, but not what runs them"},
		{"a runner without names", object{"tests": merged(plain, object{"runner": "go"})}, object{"workdir": "/r"},
			"tests/runner has no effect without fail_to_pass or pass_to_pass"},
		{"an id in both", object{"tests": merged(named, object{"pass_to_pass": []string{"b", "a"}})}, object{"workdir": "/r"},
			"tests/pass_to_pass/1 is in fail_to_pass as well"},
		{"expected statuses", object{"tests": merged(named, object{"expected": object{"b": "xfailed"}})}, object{"workdir": "/r"}, ""},
		{"expected of others", object{"tests": merged(named, object{"expected": object{"a": "xfailed", "c": "skipped"}})}, object{"workdir": "/r"},
			"tests/expected has 2 ids that are not in pass_to_pass"},
	}
	for _, tt := range tests {
		row := family.Row{ID: "a", Eval: map[string]jsontext.Value{}, Environment: map[string]jsontext.Value{}}
		for k, v := range tt.eval {
			row.Eval[k] = familytest.JSON(t, v)
		}
		for k, v := range tt.environment {
			row.Environment[k] = familytest.JSON(t, v)
		}
		var got []string
		for _, p := range check(row) {
			if p.Fix == "" {
				t.Errorf("%s: %q has no fix", tt.name, p.Message)
			}
			got = append(got, strings.Join(p.Path[1:], "/")+" "+p.Message)
		}
		if s := strings.Join(got, "; "); s != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, s, tt.want)
		}
	}
}

func TestCheckoutOf(t *testing.T) {
	row := family.Row{Input: map[string]jsontext.Value{"base_commit": jsontext.Value(`"abc1234"`)},
		Eval:        map[string]jsontext.Value{"tests": jsontext.Value(`{"workdir":"/src/"}`)},
		Environment: map[string]jsontext.Value{"workdir": jsontext.Value(`"/testbed"`)}}
	if got := checkoutOf(row); got != (task.Checkout{Dir: "/src", Commit: "abc1234"}) {
		t.Errorf("both: got %+v", got)
	}
	row.Eval["tests"] = jsontext.Value(`{}`)
	if got := checkoutOf(row); got.Dir != "/testbed" {
		t.Errorf("the environment's: got %+v", got)
	}
}

func TestTimeLimit(t *testing.T) {
	c := makeCase(t, object{"tests": object{"timeout_seconds": 2.5}}, task.Environment{}, sandbox.Limits{}, "")
	if got := timeLimit(c.Sandbox); got != 2500*time.Millisecond {
		t.Errorf("got %v", got)
	}
}

// FuzzReadRow reads rows whose values are of any form.
func FuzzReadRow(f *testing.F) {
	f.Add(`{"source":"command","command":["a"],"workdir":"/r","setup_patch":{"source":"inline","patch":"x"},"fail_to_pass":["a"]}`, `{"on_denied":"drop"}`)
	f.Add(`{"source":"command","command":"pytest","workdir":"r"}`, `[]`)
	f.Fuzz(func(t *testing.T, tests, rules string) {
		if !jsontext.Value(tests).IsValid() || !jsontext.Value(rules).IsValid() {
			return
		}
		compiled, err := task.New(task.Config{ID: "a", Family: "repo_patch", Pack: task.Pack{ID: "p"}, Resources: []task.Resource{
			{Name: "tests", Lane: task.EvaluationInputs, Value: jsontext.Value(tests)},
			{Name: "candidate_policy", Lane: task.EvaluationInputs, Value: jsontext.Value(rules)}}})
		if err != nil {
			t.Fatal(err)
		}
		r, failed := readRow(family.Case{Sandbox: compiled.TestSandbox(), Evaluator: compiled.Evaluator()})
		if failed == nil && (len(r.run.Command) == 0 || !strings.HasPrefix(r.dir, "/")) {
			t.Errorf("%s: %+v", tests, r)
		}
		_ = check(family.Row{Eval: map[string]jsontext.Value{"tests": jsontext.Value(tests), "candidate_policy": jsontext.Value(rules)}})
	})
}

// TestHugePatch: what no sandbox could take is refused before it is read.
func TestHugePatch(t *testing.T) {
	c := candidate.New(task.Patch, candidate.Given, []byte("x"))
	c.Size = 500 << 20
	s := newVerifier(family.Resources{}).Open(t.Context(), makeCase(t, object{"tests": object{"source": "command", "command": "true"}},
		task.Environment{Workdir: "/r"}, sandbox.Limits{}, "abc"))
	got, err := s.Verify(t.Context(), c)
	if err != nil || got.Outcome != verdict.Limit || got.Reason != verdict.CandidateTooLarge || got.Phase != phasePatch {
		t.Errorf("got %s, %v", describe(got), err)
	}
}
