package terminaltask

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent/harness"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
	"securebench/internal/workspace"
)

// object is a JSON object of a row.
type object map[string]any

// makeCase is a case of a row with the given eval.
func makeCase(tb testing.TB, eval object, env task.Environment, assets ...task.Asset) family.Case {
	tb.Helper()
	var resources []task.Resource
	for _, name := range slices.Sorted(maps.Keys(eval)) {
		resources = append(resources, task.Resource{Name: name, Lane: Family().Lanes[name], Value: familytest.JSON(tb, eval[name])})
	}
	env.OldLayout = env.OldLayout || workspace.NamesOwn(string(familytest.JSON(tb, eval)))
	compiled, err := task.New(task.Config{ID: "task", Family: "terminal_task", Pack: task.Pack{ID: "pack", Version: 1},
		Resources: resources, Environment: env, Assets: assets})
	if err != nil {
		tb.Fatal(err)
	}
	return family.Case{Attempt: 1, Sandbox: compiled.TestSandbox(), Evaluator: compiled.Evaluator(), Seed: [32]byte{1}}
}

func TestReadRow(t *testing.T) {
	read := func(eval object, env task.Environment) row {
		t.Helper()
		r, f := readRow(makeCase(t, eval, env).Sandbox)
		if f != nil {
			t.Fatal(f)
		}
		return r
	}
	got := read(object{"checker": object{"command": "make check"}}, task.Environment{})
	want := row{workdir: "/workspace", dir: "/workspace", form: formCommand, argv: []string{"/bin/sh", "-c", "make check"}, path: "."}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("a plain row: %+v", got)
	}
	got = read(object{
		"checker":         object{"source": "script", "path": "t/../t/run.sh", "image": "other:1", "reward_file": "/logs//reward.txt"},
		"capture":         object{"roots": []string{"/srv/", "/app", "/srv"}, "exclude": []string{"/srv/cache/"}},
		"start":           object{"command": []string{"./start"}, "ready": object{"port": 80}, "timeout_seconds": 1.5},
		"needed_commands": []string{" chroot ", "chroot"},
	}, task.Environment{Workdir: "/app/", User: "me", Env: []string{"A=b"}, MaterializeWorkdir: true, Capabilities: []string{"CHOWN"}})
	want = row{workdir: "/app", dir: "/app", fromImage: true, user: "me", env: []string{"A=b"}, capabilities: []sandbox.Capability{sandbox.Chown},
		captured: task.Captured{Roots: []string{"/app", "/srv"}, Exclude: []string{"/srv/cache"}}, form: formScript, path: "t/run.sh",
		image: "other:1", reward: "/logs/reward.txt", needed: []string{"chroot"},
		start: &service{argv: []string{"./start"}, port: 80, timeout: 1500 * time.Millisecond}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("a row with everything: %+v", got)
	}
	for dir, want := range map[string]string{"sub": "/workspace/sub", "/x/": "/x"} {
		if got := read(object{"checker": object{"command": "a", "workdir": dir}}, task.Environment{}); got.dir != want {
			t.Errorf("the checker's workdir %q is %q, want %q", dir, got.dir, want)
		}
	}
	for _, eval := range []object{{}, {"checker": "x"}, {"checker": object{}}, {"checker": object{"command": "a"}, "start": object{"command": "a"}},
		{"checker": object{"command": "a"}, "needed_commands": "chroot"}} {
		if _, f := readRow(makeCase(t, eval, task.Environment{}).Sandbox); f == nil {
			t.Errorf("%v can be read", eval)
		}
	}
}

// TestRoots: no captured folder is mounted inside another one or the workspace.
func TestRoots(t *testing.T) {
	r := row{workdir: "/app", captured: captured(familytest.JSON(t, object{"roots": []string{"/srv/a", "/app/x", "/srv", "/srv-b", "/app"}}))}
	if got := r.roots(); !slices.Equal(got, []string{"/srv", "/srv-b"}) {
		t.Errorf("got %q", got)
	}
}

// TestSharedWorkspace: a row that shares its workspace with a service cannot run
// evaluation files from there.
func TestSharedWorkspace(t *testing.T) {
	for command, want := range map[string]int{"sh $SECUREBENCH_EVALUATOR/check.sh": 0, "sh securebench/evaluation_inputs/check.sh": 1} {
		in := family.Row{Eval: map[string]jsontext.Value{"checker": familytest.JSON(t, object{"command": command}),
			"start": familytest.JSON(t, object{"command": "a", "ready": object{"port": 80}, "shared_workspace": true})}}
		if got := check(in); len(got) != want {
			t.Errorf("%q has the problems %+v", command, got)
		}
	}
}

func TestSolution(t *testing.T) {
	for name, tt := range map[string]struct {
		eval object
		want family.Solution
		ok   bool
	}{
		"none":      {object{}, family.Solution{}, false},
		"a command": {object{"solution": object{"command": []string{"a", "b"}}}, family.Solution{Command: []string{"a", "b"}}, true},
		"a text":    {object{"solution": object{"command": "a | b"}}, family.Solution{Command: []string{"/bin/sh", "-c", "a | b"}}, true},
		"a file": {object{"solution": object{"path": "t/solution.sh"}}, family.Solution{Path: "t/solution.sh",
			Command: []string{"/bin/sh", "-c", solveScript, "solution.sh", harness.ProgramDir}}, true},
		"not an object": {object{"solution": "x"}, family.Solution{}, false},
	} {
		got, ok := solution(makeCase(t, tt.eval, task.Environment{}).Evaluator)
		if !reflect.DeepEqual(got, tt.want) || ok != tt.ok {
			t.Errorf("%s: %+v, %t", name, got, ok)
		}
	}
}

func TestImages(t *testing.T) {
	for want, checker := range map[string]object{"": {"command": "a"}, "other:1": {"command": "a", "image": "other:1"}} {
		got := images(makeCase(t, object{"checker": checker}, task.Environment{}).Sandbox)
		if want == "" && got != nil || want != "" && !slices.Equal(got, []string{want}) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestLeftOutIsNotPublished: an agent that leaves many paths must not read in the
// record which of them are where the row has files of its own.
func TestLeftOutIsNotPublished(t *testing.T) {
	made, _ := (&verifier{}).begin(makeCase(t, object{"checker": object{"command": "true"}}, task.Environment{}))
	s := made.(*scorer)
	s.left.add("/logs/reward.txt", "it is where the checker's own files are")
	for _, f := range []*family.Failure{nil, {Reason: verdict.TestsFailed}} {
		v := family.VerdictOf(f)
		s.Describe(&v)
		if strings.Contains(string(familytest.JSON(t, v.Metadata)), "/logs") || !strings.Contains(string(familytest.JSON(t, v.Metadata)), `"ignored_candidate_path_count":1`) {
			t.Errorf("the record has %v", v.Metadata)
		}
		if list := string(v.Restricted["ignored_candidate_paths.json"]); !strings.Contains(list, "/logs/reward.txt") {
			t.Errorf("the restricted list is %q", list)
		}
	}
}
