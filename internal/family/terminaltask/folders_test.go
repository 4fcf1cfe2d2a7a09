package terminaltask

import (
	"reflect"
	"slices"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/testrunner"
)

// TestPlace: a change is made where it belongs or not at all, so that nothing of
// the candidate's lies where the checker's own files are.
func TestPlace(t *testing.T) {
	eval := "/app/securebench/evaluation_inputs"
	app := arrangement{row: row{workdir: "/app"}, folders: []string{ownDir, eval, "/logs"}}
	all := arrangement{row: row{workdir: "/app", captured: task.Captured{Filesystem: true, Exclude: []string{"/var/cache"}}}, folders: app.folders}
	roots := arrangement{row: row{workdir: "/app", captured: task.Captured{Roots: []string{"/app", "/srv", "/usr/local"}}},
		folders: app.folders, moved: []string{"/usr/local"}}
	beside := roots
	beside.outside, beside.moved = true, nil
	for name, tt := range map[string]struct {
		a          arrangement
		path, want string // "" is nowhere
		folder     bool
	}{
		"a file of the workspace":                 {app, "app/x", "app/x", false},
		"the workspace itself":                    {app, "app", "app", true},
		"a file beside it":                        {app, "appx", "", false},
		"a file of the system":                    {app, "etc/passwd", "", false},
		"an evaluation file":                      {app, "app/securebench/evaluation_inputs/checker.json", "", false},
		"the evaluation files' folder":            {app, "app/securebench/evaluation_inputs", "", true},
		"a file in place of a folder above":       {app, "app/securebench", "", false},
		"the folder above":                        {app, "app/securebench", "app/securebench", true},
		"a public file":                           {app, "app/securebench/public/x.json", "app/securebench/public/x.json", false},
		"anything of the system":                  {all, "var/lib/x", "var/lib/x", false},
		"what is left out":                        {all, "var/cache/x", "", false},
		"a program":                               {all, "usr/bin/python3", "", false},
		"the loader":                              {all, "etc/ld.so.preload", "", false},
		"an account":                              {all, "etc/passwd", "etc/passwd", false},
		"the kernel's":                            {all, "proc/1/mem", "", false},
		"the evaluator's":                         {all, "opt/securebench/evaluator/test.py", "", false},
		"a file in place of the evaluator's":      {all, "opt", "", false},
		"the helper":                              {all, ".securebench/helper", "", false},
		"a reward":                                {all, "logs/reward.txt", "", false},
		"a root":                                  {roots, "srv/x", "srv/x", false},
		"a program of the checker's own image":    {roots, "usr/local/bin/x", "opt/securebench/candidate/usr/local/bin/x", false},
		"a root beside the shared workspace":      {beside, "srv/x", "srv/x", false},
		"the workspace that another sandbox has":  {beside, "app/x", "", false},
		"a name that begins like the workspace's": {beside, "app-x/y", "", false},
	} {
		got, _, ok := tt.a.place(tt.path, tt.folder)
		if ok != (tt.want != "") || got != tt.want {
			t.Errorf("%s: %q, %t; want %q", name, got, ok, tt.want)
		}
	}
}

// TestMisleads: a link may lead to any ordinary file, but not to what only a
// verification has (W09).
func TestMisleads(t *testing.T) {
	a := arrangement{row: row{workdir: "/app"}, folders: []string{ownDir, "/logs"}}
	for target, want := range map[string]bool{
		"x": false, "../lib/x": false, "/usr/bin/python3": false, "/srv/x": false, "./x": false, "/optional": false, "../../srv/x": false,
		"/opt/securebench/evaluator/expected": true, "/opt": true, "/": true, "../../opt/securebench": true, "../..": true, "//": true,
		"/logs/reward.txt": true, "/proc/self/root": true, "/dev/zero": true, "/.securebench": true, "x/../../..": true,
		"/app/securebench/evaluation_inputs/x": true, "../securebench": true, "../../../../../opt": true,
	} {
		if got := a.misleads("app/dir/link", "app/dir/link", target); got != want {
			t.Errorf("%q: %t", target, got)
		}
	}
	// In an image of the checker's own, what is not captured is the checker's.
	own := arrangement{row: row{workdir: "/app", image: "own", captured: task.Captured{Roots: []string{"/app", "/srv"}}}}
	for target, want := range map[string]bool{
		"/usr/bin/python3": false, "/srv/x": false, "x": false, "../../srv": false, "/tests/expected": true, "../../tests": true, "/srv-b": true,
	} {
		if got := own.misleads("app/dir/link", "app/dir/link", target); got != want {
			t.Errorf("%q with an image for the checker: %t", target, got)
		}
	}
	// Where a captured program folder is moved to, the same target leads elsewhere.
	a.moved = []string{"/usr/local/bin"}
	const name, at = "usr/local/bin/link", "opt/securebench/candidate/usr/local/bin/link"
	for target, want := range map[string]bool{
		"tool": false, "./tool": false, "../bin/tool": false, "/usr/bin/python3": false, "/app/tool": false, "../lib/x": false,
		"../../../../evaluator/expected": true, "../../../..": true, "../../../../../..": true, "../../../../../../opt/securebench/evaluator/x": true,
	} {
		if got := a.misleads(name, at, target); got != want {
			t.Errorf("%q in a moved folder: %t", target, got)
		}
	}
}

// TestAstray: a link is also judged by where it leads in the end.
func TestAstray(t *testing.T) {
	a := arrangement{row: row{workdir: "/app"}, folders: []string{ownDir, "/logs", "/app/securebench"}}
	for to, want := range map[string]bool{
		"/app/x": false, "/usr/bin/python3.11": false, "/srv/x": false, "/optional": false,
		"": true, "/": true, "/opt": true, "/opt/securebench/evaluator/x": true, "/securebench-evaluator/x": true, "/proc": true, "/dev": true,
		"/logs/reward.txt": true, "/app": true, "/app/securebench": true, "/app/securebench/evaluation_inputs/x": true,
	} {
		if got := a.hides("/app/link", to); got != want {
			t.Errorf("%q: %t", to, got)
		}
	}
	// The image's own links are in the paths of folders, such as the workspace's.
	a.leads = map[string]string{"/app": "/srv/app", "/app/securebench": "/srv/app/securebench", "/logs": "/var/logs"}
	for to, want := range map[string]bool{
		"/srv/app/x": false, "/srv": true, "/srv/app": true, "/srv/app/securebench/evaluation_inputs/x": true, "/var/logs": true, "/var/log": false,
	} {
		if got := a.hides("/app/link", to); got != want {
			t.Errorf("%q with links in paths: %t", to, got)
		}
	}
	// In an image of the checker's own, what is not captured is foreign.
	own := arrangement{row: row{workdir: "/app", image: "own", captured: task.Captured{Roots: []string{"/app", "/data"}, Exclude: []string{"/data/out"}}},
		leads: map[string]string{"/app": "/app", "/data": "/mnt/data"}}
	for to, want := range map[string]bool{
		"/usr/lib/x": false, "/app/x": false, "/mnt/data/x": false, "/tests/expected": true, "/mnt/data/out/x": true, "/mnt/x": true, "/opt/tool/bin/tool": true,
	} {
		if got := own.foreign(to); got != want {
			t.Errorf("%q with an image for the checker: %t", to, got)
		}
	}
	moved := candidateDir + "/usr/local/bin/"
	if !own.hides("/app/link", moved+"x") || own.hides(moved+"link", moved+"tool") {
		t.Error("only a moved folder's own links may lead there")
	}
}

// TestSpeaksOf: a name counts as a word.
func TestSpeaksOf(t *testing.T) {
	for text, want := range map[string]bool{
		"cmp a /tmp/expected.txt": true, "expected.txt": true, "'expected.txt'": true, "x=expected.txt;": true, "unexpected.txt expected.txt2": false,
		"my-expected.txt": false, "": false, "unexpected.txt expected.txt": true,
	} {
		if got := speaksOf([]byte(text), "expected.txt"); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// TestSafePath: no folder in which a candidate can have files is searched for
// programs.
func TestSafePath(t *testing.T) {
	const image = "/app/bin:/usr/local/bin::.:rel:/usr/bin:/home/me/bin:/opt/tool/bin"
	plain := row{workdir: "/app"}
	for name, tt := range map[string]struct {
		r    row
		want string
	}{
		"the workspace": {plain, "/usr/local/bin:/usr/bin:/home/me/bin:/opt/tool/bin"},
		"roots":         {row{workdir: "/app", captured: task.Captured{Roots: []string{"/home"}}}, "/usr/local/bin:/usr/bin:/opt/tool/bin"},
		"all": {row{workdir: "/app", captured: task.Captured{Filesystem: true, Exclude: []string{"/opt/tool"}}},
			"/usr/local/bin:/usr/bin:/opt/tool/bin"},
		"a program alone": {row{workdir: "/app", captured: task.Captured{Roots: []string{"/home/me/bin/tool", "/opt/tool/bin/x/y"}}},
			"/usr/local/bin:/usr/bin:/opt/tool/bin"},
		"programs in an image of the checker's": {row{workdir: "/app", image: "x", captured: task.Captured{Roots: []string{"/usr/local"}}},
			"/usr/local/bin:/usr/bin:/home/me/bin:/opt/tool/bin"},
	} {
		if got := tt.r.safePath(image); got != tt.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := plain.safePath("/app/bin"); got != usualPath {
		t.Errorf("nothing is left: %s", got)
	}
}

// TestCheckerEnv: neither the image nor the row can make the checker load files
// of the workspace when it starts.
func TestCheckerEnv(t *testing.T) {
	r := row{workdir: "/app", form: formScript, path: "t/run.sh",
		env: []string{"A=b", "PATH=/app", "PYTHONPATH=/app", "LD_PRELOAD=/app/x.so", "PYTHONSAFEPATH=", "TEST_DIR=/app"}}
	got := r.checkerEnv(sandbox.Image{Path: "/bin:/app/bin", Env: []string{"BASH_ENV", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH"}})
	want := []string{"A=b", "PATH=/bin", "PYTHONNOUSERSITE=1", "PYTHONDONTWRITEBYTECODE=1",
		"SECUREBENCH_WORKSPACE=/app", "SECUREBENCH_EVALUATOR=/securebench-evaluator", "PYTHONSAFEPATH=1", "PYTHONPATH=" + siteDir,
		"TEST_DIR=/securebench-evaluator/t/tests", "BASH_ENV=", "LD_LIBRARY_PATH="}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	r.form, r.path = formPytest, "t"
	if got := r.checkerEnv(sandbox.Image{}); !slices.Contains(got, "SECUREBENCH_CHECKER_TARGET=/securebench-evaluator/t") {
		t.Errorf("pytest gets %q", got)
	}
	r.form, r.modules = formCommand, true
	if got := r.checkerEnv(sandbox.Image{Env: []string{"PYTHONPATH"}}); slices.Contains(got, "PYTHONSAFEPATH=1") || !slices.Contains(got, "PYTHONPATH=") {
		t.Errorf("with modules of the candidate's it gets %q", got)
	}
}

// TestReplaced: what keeps files of the candidate's from being loaded stays set beside
// settings of a command's.
func TestReplaced(t *testing.T) {
	r := row{workdir: "/app", form: formCommand, env: []string{"PIP_CONFIG_FILE=/app/x"}, captured: task.Captured{Filesystem: true}}
	got := replaced(r.checkerEnv(sandbox.Image{Env: []string{"BASH_ENV", "PYTEST_ADDOPTS"}}), r.settings("/root", ""))
	for _, name := range []string{"BASH_ENV=", "PYTHONSAFEPATH=1", "PYTHONPATH=" + siteDir, "PIP_CONFIG_FILE=/dev/null"} {
		if !slices.Contains(got, name) {
			t.Errorf("%s is not in %q", name, got)
		}
	}
	if slices.Contains(got, "PYTEST_ADDOPTS=") || slices.Contains(got, "PIP_CONFIG_FILE=/app/x") {
		t.Errorf("former values are in %q", got)
	}
}

// TestSettings: pytest reads the pack's settings or none, and other programs none in a
// home that is captured.
func TestSettings(t *testing.T) {
	r := row{workdir: "/app", form: formCommand}
	if got, want := r.settings("/root", ""), []string{"PYTEST_ADDOPTS=-c /dev/null --rootdir=/securebench-evaluator --confcutdir=/securebench-evaluator"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	r.old, r.captured = true, task.Captured{Filesystem: true}
	got := r.settings("/root", "t/pytest.ini")
	const inputs = "/app/securebench/evaluation_inputs"
	if got[0] != "PYTEST_ADDOPTS=-c "+inputs+"/t/pytest.ini --rootdir="+inputs+" --confcutdir="+inputs || !slices.Contains(got, "PIP_CONFIG_FILE=/dev/null") {
		t.Errorf("in the old layout, with everything captured: %q", got)
	}
}

// TestOneProbeForAllTests: what looks for pytest is the same whatever a row's
// tests are, so that the rows of an image share its answer; another environment
// asks again.
func TestOneProbeForAllTests(t *testing.T) {
	probe := func(tests string, env ...string) testrunner.Command {
		r := row{workdir: "/app", form: formPytest, path: tests, env: env}
		all := testrunner.Outside("/opt/securebench/evaluator/"+tests, r.target(), r.workdir)
		all.Env = r.checkerEnv(sandbox.Image{Path: "/bin"})
		c, ok := probeOf(all)
		if !ok {
			t.Fatal("there is nothing to look for")
		}
		return c
	}
	if a, b := probe("a/tests"), probe("b/tests"); !reflect.DeepEqual(a, b) {
		t.Errorf("%q and %q", a, b)
	}
	if a, b := probe("a/tests"), probe("a/tests", "X=y"); reflect.DeepEqual(a, b) {
		t.Errorf("a row's environment makes no difference: %q", a)
	}
}
