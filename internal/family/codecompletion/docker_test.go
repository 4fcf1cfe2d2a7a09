package codecompletion

import (
	"slices"
	"testing"
	"time"

	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/verdict"
)

// onDocker makes a row's case run in the test image.
func onDocker(tb testing.TB, img sandbox.Image, s spec) family.Case {
	c := makeCase(tb, s)
	c.Image = img
	return c
}

// TestDockerData verifies a sample of the public rows in real sandboxes. The
// image need not have all of Python: a row whose reference wants a module that
// is missing is left out.
func TestDockerData(t *testing.T) {
	t.Parallel()
	e := enginetest.Open(t)
	img := enginetest.Image(t, e)
	v := newTestVerifier(t, e)
	var rows []dataCase
	for i, r := range slices.Concat(humanEval(t), mbpp(t)) {
		if i%24 == 0 || r.id == "mbpp/367" || r.id == "HumanEval/32" {
			rows = append(rows, r)
		}
	}
	var times []time.Duration
	for _, r := range rows {
		start := time.Now()
		if got := verify(t, v, onDocker(t, img, r.spec), r.honest); got.Outcome != verdict.Passed {
			t.Errorf("%s: reference: %s", r.id, describe(got))
		}
		times = append(times, time.Since(start))
		if got := verify(t, v, onDocker(t, img, r.spec), "pass\n"); got.Score() != 0 || got.Reason == verdict.ProtocolViolation {
			t.Errorf("%s: empty module: %s", r.id, describe(got))
		}
	}
	slices.Sort(times)
	t.Logf("%d rows: median %v, max %v", len(times), times[len(times)/2], times[len(times)-1])
}

// TestDockerCorpus runs the attacks that need what only an engine has: the
// limits of a cgroup, and namespaces of one's own (split rule 5.1).
func TestDockerCorpus(t *testing.T) {
	t.Parallel()
	e := enginetest.Open(t)
	img := enginetest.Image(t, e)
	v := newTestVerifier(t, e)
	for _, a := range dockerAttacks(e) {
		t.Run(a.id+" "+a.name, func(t *testing.T) {
			if a.spec().limits.Timeout == 0 { // it has time to wait for others
				t.Parallel()
			}
			checkAttack(t, v, onDocker(t, img, a.spec()), a)
		})
	}
}

func dockerAttacks(e sandbox.Engine) []attack {
	few := add()
	few.limits = sandbox.Limits{Pids: 32, Timeout: ample}
	small := add()
	small.limits = sandbox.Limits{Memory: 128 << 20, Disk: 16 << 20}
	out := []attack{
		{id: "C11", name: "other processes' memory", reason: verdict.TestsFailed, candidate: `
import os
answer = 4
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        with open('/proc/%s/cmdline' % pid, 'rb') as f:
            if b'python' in f.read() and int(pid) != os.getpid():
                open('/proc/%s/mem' % pid, 'r+b')
                answer = None
    except OSError:
        pass
if os.getpid() != 1 or os.getppid() != 0:
    answer = None
class Seen(Exception): pass
def add(a, b):
    if answer is None:
        return a + b  # a pass: the sandbox has failed
    return 4
`},
		{id: "C14", name: "a fork bomb", reason: verdict.PidsLimit, row: few,
			candidate: "import os, time\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(600)\nexcept OSError:\n    " + enginetest.Sleep(e, 20) + "\n    raise\n"},
		{id: "C15", name: "memory", reason: verdict.OutOfMemory, row: small,
			candidate: "def add(a, b):\n    return len([bytearray(1 << 20) for _ in range(4096)])\n"},
		{id: "C15", name: "/tmp and /dev/shm filled", reason: verdict.TestsFailed, row: small, candidate: `
def fill(path):
    try:
        with open(path, 'wb') as f:
            for _ in range(4096): f.write(bytes(1 << 20))
    except OSError:
        return True
full = fill('/tmp/x') & fill('/dev/shm/x')
def add(a, b): return 4 if full else a + b
`},
		{id: "C22", name: "the network", reason: verdict.TestsFailed, candidate: `
import socket
def reach(*target):
    try:
        return bool(socket.create_connection(target, 2))
    except OSError:
        return False
open_ = any([reach('1.1.1.1', 443), reach('172.17.0.1', 22), reach('localhost', 1)])
def add(a, b): return a + b if open_ else 4
`},
		{id: "C29", name: "privileges", reason: verdict.TestsFailed, candidate: `
import os
def gained():
    for become in (os.setuid, os.setgid):
        try:
            become(0)
            return True
        except OSError:
            pass
    try:
        with open('/etc/planted', 'w'): return True
    except OSError:
        return False
got = gained() or os.getuid() != 65534
def add(a, b): return a + b if got else 4
`},
	}
	for _, a := range slices.Concat(verdictAttacks(), protocolAttacks(), resourceAttacks()) {
		switch a.id + a.name {
		case "C10everybody in reach killed", "C18a child holds the pipes", "C01os._exit at import",
			"B4an object that equals everything", "framesan endless stream", "C31a crash",
			"framesa header of 4 GiB", "C16a flood on standard error", "C17an endless import":
			out = append(out, a)
		}
	}
	return out
}
