package terminaltask

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"securebench/internal/sandbox/enginetest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// server answers on a port with what a shell command prints.
const server = `import http.server, subprocess, sys


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        out = subprocess.run(["sh", "-c", sys.argv[1]], capture_output=True).stdout
        self.send_response(200)
        self.end_headers()
        self.wfile.write(out)

    def log_message(self, *args):
        pass


http.server.HTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
`

// asks is a checker that compares the service's answer.
func asks(want string) object {
	return object{"command": "python3 -c \"import urllib.request as u; assert u.urlopen('http://127.0.0.1:8080/').read().decode().split() == '" + want + "'.split()\""}
}

// serving is a candidate whose service answers with what a command prints.
func serving(command string) map[string]change {
	return map[string]change{"app/server.py": file(server), "app/start.sh": file("exec python3 /app/server.py '" + command + "'\n")}
}

func withService(checker, ready object) object {
	return object{"checker": checker, "start": object{"command": []string{"sh", "/app/start.sh"}, "ready": ready, "timeout_seconds": 600}}
}

// listens is a sign that needs nothing but Python.
func listens() object {
	return object{"command": []string{"python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 8080))"}}
}

// TestService: a service runs from the captured files beside the checker, which
// it shares the workspace and loopback with.
func TestService(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for name, ready := range map[string]object{"a command": listens(), "a port": {"port": 8080}, "a URL": {"url": "http://127.0.0.1:8080/"}} {
		expect(t, name, b.score(t, withService(asks("yes"), ready), app(), serving("echo yes")), verdict.Passed, "")
	}
	expect(t, "wrong", b.score(t, withService(asks("yes"), listens()), app(), serving("echo no")), verdict.Failed, verdict.TestsFailed)
	expect(t, "a file of before it was ready", b.score(t, withService(object{"command": "grep -q me note"}, object{"command": "test -s note"}), app(),
		map[string]change{"app/start.sh": file("echo me > note\n")}), verdict.Passed, "")
	for name, changes := range map[string]map[string]change{"nothing starts": nil, "it never listens": {"app/start.sh": file("sleep 1000\n")}} {
		eval := withService(object{"command": "true"}, object{"port": 8080})
		eval["start"].(object)["timeout_seconds"] = 2
		expect(t, name, b.score(t, eval, app(), changes), verdict.Failed, verdict.ServiceNotReady)
	}
}

// TestDeadService: a service that has ended before it was ready is not waited for, but one
// that leaves processes behind is, however its first one ended.
func TestDeadService(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for name, start := range map[string]string{"at its end": "exit 0\n", "with an error": "sleep 0.3; exit 3\n"} {
		v := b.score(t, withService(object{"command": "true"}, object{"port": 8080}), app(), map[string]change{"app/start.sh": file(start)})
		expect(t, name, v, verdict.Failed, verdict.ServiceNotReady)
		if !strings.Contains(v.Message, "left no process") {
			t.Errorf("%s: it was waited for: %s", name, v.Message)
		}
	}
	left := serving("echo yes")
	left["app/start.sh"] = file("(sleep 1; exec python3 /app/server.py 'echo yes') &\nexit 3\n")
	expect(t, "left behind", b.score(t, withService(asks("yes"), listens()), app(), left), verdict.Passed, "")
}

// goesOn is a service that is ready, and does something from then on.
func goesOn(ready, deed string) map[string]change {
	return map[string]change{"app/start.sh": file(ready + "\ntouch ready\n" + deed + "\n")}
}

// shares makes a row ask for one workspace of service and checker.
func shares(eval object) object {
	start := maps.Clone(eval["start"].(object))
	start["shared_workspace"] = true
	out := maps.Clone(eval)
	out["start"] = start
	return out
}

// TestServiceFiles: what a service changed until it was ready is there for the
// checker, and what it changes later if the row asks for that.
func TestServiceFiles(t *testing.T) {
	t.Parallel()
	enginetest.Sampled(t, func(t *testing.T, e enginetest.Engine) {
		t.Parallel()
		b := system(t, benchOf(t, e, enginetest.Image(t, e), nil))
		env := task.Environment{Workdir: "/app", MaterializeWorkdir: true, User: "me"}
		ready := object{"command": "test -e ready"}
		early := goesOn("mkdir -p made/in; echo me > made/in/note; ln -s in/note made/link; rm -r old; echo mine > keep; mkfifo pipe; chmod 4755 run.sh", "sleep 1000")
		expect(t, "early", b.score(t, withService(object{"command": `test "$(cat made/link)" = me && test ! -e old && grep -qx mine keep &&
			test "$(stat -c %a run.sh)" = 755 && test ! -p pipe && test -e ready`}, ready), env, early), verdict.Passed, "")
		late := goesOn("", "until [ -e asked ]; do sleep 0.1; done; echo late > note; sleep 1000")
		asks := withService(object{"command": "touch asked; for _ in $(seq 100); do grep -qx late note 2>/dev/null && exit 0; sleep 0.1; done; exit 1"}, ready)
		got := b.score(t, shares(asks), env, late)
		expect(t, "late, and asked for", got, verdict.Passed, "")
		if !slices.Contains(got.Labels, sharedWorkspace) {
			t.Errorf("late, and asked for: the labels are %q", got.Labels)
		}
		asks["checker"] = object{"command": "touch asked; sleep 1; test ! -e note"}
		expect(t, "late", b.score(t, asks, env, late), verdict.Passed, "")
	})
}

// TestServiceAttacks: nothing that a checker runs or reads as its own is where a
// service can put something else, before it is ready or while the checker runs.
func TestServiceAttacks(t *testing.T) {
	t.Parallel()
	enginetest.Sampled(t, func(t *testing.T, e enginetest.Engine) {
		t.Parallel()
		b := benchOf(t, e, enginetest.Image(t, e), map[string]string{"t/check.sh": "grep -qx 42 answer.txt\n", "t/expected": "42\n"})
		ready := object{"command": "test -e ready"}
		inputs := object{"path": "t/check.sh", "mount": "securebench/evaluation_inputs/check.sh"}
		run := withService(object{"command": []string{"sh", "securebench/evaluation_inputs/check.sh"}}, ready)
		run["run_tests"] = inputs
		compare := withService(object{"command": "sleep 1; cmp answer.txt $SECUREBENCH_EVALUATOR/expected"}, ready)
		compare["run_tests"] = object{"path": "t/expected", "mount": "securebench/evaluation_inputs/expected"}
		beside := withService(object{"command": "sleep 1; sh check.sh"}, ready)
		replace := "mv securebench x; mkdir -p securebench/evaluation_inputs; echo exit 0 > securebench/evaluation_inputs/check.sh; echo exit 0 > check.sh"
		link := "ln -sfn /opt/securebench/evaluator/expected answer.txt"
		for _, tt := range []struct {
			name    string
			eval    object
			changes map[string]change
			weak    object // nil where no set-up of ours is weak
		}{
			{"the checker, early", run, goesOn(replace, "sleep 1000"), nil},
			{"the checker, late", run, goesOn("", replace+"; sleep 1000"), shares(beside)},
			{"the answer, early", compare, goesOn(link, "sleep 1000"), nil},
			{"the answer, late", compare, goesOn("echo 41 > answer.txt", link+"; sleep 1000"), shares(compare)},
			{"the answer, through a folder", compare, goesOn("ln -s /opt/securebench d; ln -s d/evaluator/expected answer.txt", "sleep 1000"), nil},
		} {
			tt.changes["app/check.sh"] = file("exit 1\n")
			expect(t, tt.name, b.score(t, tt.eval, app(), tt.changes), verdict.Failed, verdict.TestsFailed)
			if tt.weak != nil {
				expect(t, tt.name+", where the row shares the workspace", b.score(t, tt.weak, app(), tt.changes), verdict.Passed, "")
			}
		}
		honest := goesOn("", "sleep 1000")
		honest["app/answer.txt"] = file("42\n")
		expect(t, "honest work, run", b.score(t, run, app(), honest), verdict.Passed, "")
		expect(t, "honest work, compared", b.score(t, compare, app(), honest), verdict.Passed, "")
	})
}

// TestProgramsAtTheCheckersFiles: a program of the candidate's that a checker starts,
// as root too, cannot put other files where the checker's own are: what is above
// them is a mount point, or cannot be renamed.
func TestProgramsAtTheCheckersFiles(t *testing.T) {
	t.Parallel()
	enginetest.Sampled(t, func(t *testing.T, e enginetest.Engine) {
		t.Parallel()
		b := benchOf(t, e, enginetest.Image(t, e), map[string]string{"t/check.sh": "grep -qx 42 answer.txt\n"})
		changes := map[string]change{"app/program": file(`mv securebench x; mkdir -p securebench/evaluation_inputs; echo exit 0 > securebench/evaluation_inputs/check.sh
mv /opt/securebench /x; mkdir -p /opt/securebench/evaluator; echo exit 0 > /opt/securebench/evaluator/check.sh
mv /securebench-evaluator /y; mkdir -p /securebench-evaluator; echo exit 0 > /securebench-evaluator/check.sh
true`)}
		honest := maps.Clone(changes)
		honest["app/answer.txt"] = file("42\n")
		for place, weak := range map[string]bool{"securebench/evaluation_inputs": false, "$SECUREBENCH_EVALUATOR": false, "/app/securebench/evaluation_inputs": false,
			"/opt/securebench/evaluator": true} {
			eval := object{"checker": object{"command": "sh program; sh " + place + "/check.sh"},
				"run_tests": object{"path": "t/check.sh", "mount": "securebench/evaluation_inputs/check.sh"}}
			if weak {
				expect(t, place, b.score(t, eval, app(), changes), verdict.Passed, "")
				continue
			}
			expect(t, place, b.score(t, eval, app(), changes), verdict.Failed, verdict.TestsFailed)
			expect(t, place+", and the work", b.score(t, eval, app(), honest), verdict.Passed, "")
		}
	})
}

// TestServiceIsApart: a service sees neither the evaluation files nor the
// checker's processes, and has none of the checker's powers (W19, W27). One that
// a checker starts itself has all three.
func TestServiceIsApart(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"t/secret": "secret-file\n"})
	b.by.Allow = true
	changes := serving("sh /app/spy.sh")
	changes["app/spy.sh"] = file("cat /opt/securebench/evaluator/t/secret securebench/evaluation_inputs/t/secret 2>/dev/null\n" +
		"cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -q checker-secre[t] && echo seen\nchroot / true 2>/dev/null && echo chroot\necho end\n")
	eval := func(before, want string) object {
		checker := asks(want)
		checker["command"] = "test -s securebench/evaluation_inputs/t/secret && chroot / true && " + before + checker["command"].(string) + "; result=$?; : checker-secret; exit $result"
		return object{"checker": checker, "run_tests": object{"path": "t/secret"}, "needed_commands": []string{"chroot"}}
	}
	apart := eval("", "end")
	apart["start"] = withService(nil, listens())["start"]
	expect(t, "a service", b.score(t, apart, app(), changes), verdict.Passed, "")
	together := eval("{ sh start.sh & } && until python3 -c \"import socket; socket.create_connection(('127.0.0.1', 8080))\" 2>/dev/null; do sleep 0.2; done; ",
		"secret-file secret-file seen chroot end")
	expect(t, "a program of the checker's", b.score(t, together, app(), changes), verdict.Passed, "")
}

// TestCheckerImage: the checker's own programs run, whatever the candidate did to
// those of the row's image; captured folders are there as the candidate left
// them.
func TestCheckerImage(t *testing.T) {
	t.Parallel()
	b := system(t, newBench(t, map[string]string{"t/expected": "42\n"}))
	own := enginetest.Image(t, b.engine)
	b.images["own:1"] = own
	eval := object{"capture": object{"roots": []string{"/app", "/srv/data", "/usr/local/bin", "/new"}},
		"checker": object{"image": "own:1", "command": `set -e
test "$(cat /srv/data/x /srv/data/y)" = "$(printf 'before\nafter')"
test "$(cat /app/keep)" = mine
test -x /opt/securebench/candidate/usr/local/bin/grep
test "$(cat /new/file)" = new
printf no | grep -q no
test "$(/opt/securebench/candidate/usr/local/bin/grep)" = evil`}}
	changes := map[string]change{"srv/data/y": file("after\n"), "app/keep": file("mine\n"), "usr/local/bin/grep": script("echo evil"), "new/file": file("new\n")}
	env := task.Environment{Workdir: "/app", MaterializeWorkdir: true}
	expect(t, "the work", b.score(t, eval, env, changes), verdict.Passed, "")
	delete(changes, "new/file")
	expect(t, "a part of it", b.score(t, eval, env, changes), verdict.Failed, verdict.TestsFailed)

	// From where a program folder is moved to, a link could lead to the expected
	// answer (W09).
	eval["checker"] = object{"image": "own:1", "command": "cmp /opt/securebench/candidate/usr/local/bin/answer /opt/securebench/evaluator/t/expected"}
	eval["run_tests"] = object{"path": "t/expected"}
	link := map[string]change{"usr/local/bin/answer": {mode: fs.ModeSymlink | 0o777, text: "../../../../evaluator/t/expected"}}
	expect(t, "a link", b.score(t, eval, env, link), verdict.Failed, verdict.TestsFailed)
	link["usr/local/bin/answer"], link["usr/local/bin/work"] = change{mode: fs.ModeSymlink | 0o777, text: "work"}, file("42\n")
	expect(t, "a link to the work", b.score(t, eval, env, link), verdict.Passed, "")
}
