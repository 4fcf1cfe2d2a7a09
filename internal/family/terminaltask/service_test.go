package terminaltask

import (
	"io/fs"
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
	return object{"checker": checker, "start": object{"command": []string{"sh", "/app/start.sh"}, "ready": ready, "timeout_seconds": 60}}
}

// listens is a sign that needs nothing but Python.
func listens() object {
	return object{"command": []string{"python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 8080))"}}
}

// TestService: a service runs from the captured files beside the checker, which
// it shares the workspace and loopback with.
func TestService(t *testing.T) {
	b := newBench(t, nil)
	for name, ready := range map[string]object{"a command": listens(), "a port": {"port": 8080}, "a URL": {"url": "http://127.0.0.1:8080/"}} {
		expect(t, name, b.score(t, withService(asks("yes"), ready), app(), serving("echo yes")), verdict.Passed, "")
	}
	expect(t, "wrong", b.score(t, withService(asks("yes"), listens()), app(), serving("echo no")), verdict.Failed, verdict.TestsFailed)
	expect(t, "a shared workspace", b.score(t, withService(object{"command": "grep -q me note"}, object{"command": "test -s note"}), app(),
		map[string]change{"app/start.sh": file("echo me > note\n")}), verdict.Passed, "")
	for name, changes := range map[string]map[string]change{"nothing starts": nil, "it never listens": {"app/start.sh": file("sleep 1000\n")}} {
		eval := withService(object{"command": "true"}, object{"port": 8080})
		eval["start"].(object)["timeout_seconds"] = 2
		expect(t, name, b.score(t, eval, app(), changes), verdict.Failed, verdict.ServiceNotReady)
	}
}

// TestServiceIsApart: a service sees neither the evaluation files nor the
// checker's processes, and has none of the checker's powers (W19, W27). One that
// a checker starts itself has all three.
func TestServiceIsApart(t *testing.T) {
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
