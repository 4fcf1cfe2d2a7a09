package codecompletion

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/link"
	"securebench/internal/verdict"
)

// alteredEngine changes the test boxes and counts them.
type alteredEngine struct {
	*countingEngine
	alter func(*sandbox.Spec)
}

func altered(e sandbox.Engine, alter func(*sandbox.Spec)) *alteredEngine {
	return &alteredEngine{&countingEngine{Engine: e}, alter}
}

func (e *alteredEngine) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if spec.Labels.Role == roleTest {
		spec.Command = slices.Clone(spec.Command)
		e.alter(&spec)
	}
	return e.countingEngine.Open(ctx, spec)
}

// program puts the test box's program into a box's command, where it can be
// altered, and reports where. What comes over the stream is read all the same.
func program(s *sandbox.Spec) *string {
	p := &s.Command[slices.Index(s.Command, "-c")+1]
	if *p == link.PythonBoot {
		*p = strings.Replace(link.PythonBoot, "compiled = program()", "program()\n"+testProgram()+"\ncompiled = b''", 1)
	}
	return p
}

// rewrite replaces parts of a program, each of which must be there.
func rewrite(t *testing.T, s *sandbox.Spec, pairs ...string) {
	t.Helper()
	p := program(s)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(*p, pairs[i]) {
			t.Errorf("the program has no %q", pairs[i])
		}
		*p = strings.ReplaceAll(*p, pairs[i], pairs[i+1])
	}
}

// asWasOnce is the weak set-up: rows have the server's user and descriptors,
// and may trace.
func asWasOnce(t *testing.T) func(*sandbox.Spec) {
	return func(s *sandbox.Spec) {
		s.User, s.Capabilities, s.Tracing = &sandbox.Nobody, nil, true
		rewrite(t, s, "self.isolated = isolate(self.libc)", "self.isolated = True",
			"                self.become_row()\n", "",
			"                    os.close(fd)\n", "                    pass\n")
	}
}

// evaluates is a row whose tests run what the candidate returns.
func evaluates() spec {
	return spec{prompt: "Define expr(n).", reference: "def expr(n): return str(n)\n", tests: "assert eval(expr(3)) == 3\n"}
}

// rewritesTheServer is a candidate whose value makes the server's program, and
// so every later row's, say "pass" where it says "fail".
const rewritesTheServer = `
CODE = '''
with open("/proc/1/maps") as f:
    maps = [l.split() for l in f]
with open("/proc/1/mem", "r+b", 0) as mem:
    for m in maps:
        if m[1][:2] != "rw": continue
        start, end = (int(x, 16) for x in m[0].split("-"))
        try:
            mem.seek(start)
            data = mem.read(end - start)
        except (OSError, OverflowError, ValueError):
            continue
        at = data.find(b"fail" + bytes(1))
        while at >= 0:
            mem.seek(start + at)
            mem.write(b"pass")
            at = data.find(b"fail" + bytes(1), at + 1)
'''
def expr(n):
    return 'exec(%r) or 3' % CODE
`

// TestRowsDoNotReachTheServer: a candidate whose value is run by its row's
// tests changes nothing for the rows behind it.
func TestRowsDoNotReachTheServer(t *testing.T) {
	t.Parallel()
	docker := enginetest.Open(t)
	img := enginetest.Image(t, docker)
	for _, c := range []struct {
		name  string
		alter func(*sandbox.Spec)
		row   verdict.Outcome // of the attack on its own row
		later verdict.Outcome // of wrong candidates behind it
		made  int64           // test boxes, for seven rows
	}{
		{"weak", asWasOnce(t), verdict.Passed, verdict.Passed, 1},
		{"ours", func(*sandbox.Spec) {}, verdict.Failed, verdict.Failed, 1},
		// Where rows cannot be kept from the server, none has it after another.
		{"without capabilities", func(s *sandbox.Spec) { s.User, s.Capabilities = &sandbox.Nobody, nil }, verdict.Passed, verdict.Failed, 7},
		{"without SETPCAP", func(s *sandbox.Spec) { s.Capabilities = s.Capabilities[:3] }, verdict.Failed, verdict.Failed, 7},
		{"without ctypes", func(s *sandbox.Spec) { *program(s) = "import sys\nsys.modules['ctypes'] = None\n" + *program(s) }, verdict.Failed, verdict.Failed, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); c.name == "weak" && err == nil && string(scope) != "0\n" {
				t.Skip("this kernel keeps processes of one user apart")
			}
			e := altered(docker, c.alter)
			v := newTestVerifier(t, e)
			check := func(s spec, candidate string, want verdict.Outcome) {
				t.Helper()
				if got := verify(t, v, onDocker(t, img, s), candidate); got.Outcome != want {
					t.Errorf("got %s, want %s", describe(got), want)
				}
			}
			check(add(), "def add(a, b): return 4\n", verdict.Failed)
			check(evaluates(), rewritesTheServer, c.row)
			for range 3 {
				check(add(), "def add(a, b): return 4\n", c.later)
			}
			check(add(), add().reference, verdict.Passed)
			check(evaluates(), evaluates().reference, verdict.Passed)
			if n := e.testBoxes.Load(); n != c.made {
				t.Errorf("%d test boxes, want %d", n, c.made)
			}
		})
	}
}

// reach is the beginning of tests that collect what they should not be able
// to do.
const reach = `
import ctypes, os, resource, signal
got = []
def denied(name, f):
    try:
        f()
        got.append(name)
    except OSError:
        pass
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    if libc.syscall(*(ctypes.c_long(a) if type(a) is int else a for a in args)) < 0:
        raise OSError(ctypes.get_errno(), '')
status = dict(l.rstrip('\n').split(':\t', 1) for l in open('/proc/self/status') if ':\t' in l)
for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'):
    if int(status[name], 16): got.append(name + status[name])
if status['NoNewPrivs'] != '1': got.append('new privileges')
if 0 in os.getresuid() + os.getresgid() or os.getgroups() or len({*os.getresuid()}) > 1: got.append('users')
for name in ('maps', 'environ', 'auxv', 'syscall'):
    denied(name, lambda: open('/proc/1/' + name, 'rb').read(1))
denied('mem for writing', lambda: open('/proc/1/mem', 'r+b'))
for name in ('fd', 'map_files', 'task/1/fd'):
    denied(name, lambda: os.listdir('/proc/1/' + name))
for name in ('cwd', 'root', 'exe'):
    denied(name, lambda: os.readlink('/proc/1/' + name))
denied('oom_score_adj', lambda: open('/proc/1/oom_score_adj', 'w'))
for n in (0, signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD):
    denied('signal %d' % n, lambda: os.kill(1, n))
denied('everybody', lambda: os.kill(-1, 0))
denied('prlimit', lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3)))
denied('affinity', lambda: os.sched_setaffinity(1, {0}))
denied('priority', lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
for user in (0, 1, 65534, os.getuid() + 1, os.getuid() - 1):
    denied('user %d' % user, lambda: os.setresuid(-1, user, -1))
    denied('group %d' % user, lambda: os.setresgid(-1, user, -1))
denied('groups', lambda: os.setgroups([0]))
denied('root', lambda: os.chroot('/tmp'))
for name in os.listdir('/proc'):
    if name.isdigit() and name not in ('1', str(os.getpid())): got.append('process ' + name)
`

// tracing are calls that only a profile can refuse where users are the same,
// by their numbers on x86-64.
const tracing = `
if os.uname().machine == 'x86_64':
    child = os.fork()
    if child == 0:
        signal.pause()
    denied('ptrace', lambda: call(101, 16, child, 0, 0))
    buffer = ctypes.create_string_buffer(16)
    vector = (ctypes.c_ulong * 2)(ctypes.addressof(buffer), 1)
    denied('process_vm_readv', lambda: call(310, child, vector, 1, vector, 1, 0))
    denied('process_vm_writev', lambda: call(311, child, vector, 1, vector, 1, 0))
    pidfd = os.pidfd_open(child)
    denied('pidfd_getfd', lambda: call(438, pidfd, 0, 0))
    denied('kcmp', lambda: call(312, os.getpid(), child, 0, 0, 0))
    denied('userfaultfd', lambda: call(323, 0))
    denied('perf_event_open', lambda: call(298, buffer, 0, -1, -1, 0))
    os.close(pidfd)
    os.kill(child, 9)
    os.waitpid(child, 0)
`

// TestWhatARowCanReach: the tests of a row are the server's children, and yet
// have no hold on it. In the weak set-up they do.
func TestWhatARowCanReach(t *testing.T) {
	t.Parallel()
	docker := enginetest.Open(t)
	img := enginetest.Image(t, docker)
	s := add()
	const descriptors = "open_ = [f for f in os.listdir('/proc/self/fd') if os.path.lexists('/proc/self/fd/' + f) and int(f) > 2]\n" +
		"if len(open_) != 2: got.append('descriptors %r' % open_)\n"
	s.tests = reach + tracing + descriptors + "assert add(2, 3) == 5\nassert not got, got\n"
	for name, c := range map[string]struct {
		alter func(*sandbox.Spec)
		want  verdict.Outcome
	}{
		"weak": {asWasOnce(t), verdict.Failed},
		"ours": {func(*sandbox.Spec) {}, verdict.Passed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := altered(docker, c.alter)
			v := newTestVerifier(t, e)
			for i := range 3 {
				if got := verify(t, v, onDocker(t, img, s), s.reference); got.Outcome != c.want {
					t.Errorf("row %d: got %s", i+1, describe(got))
				} else if c.want == verdict.Failed {
					for _, what := range []string{"mem for writing", "ptrace", "process_vm_readv", "descriptors", "'fd'"} {
						if trace := string(got.Restricted["tests-traceback.txt"]); !strings.Contains(trace, what) {
							t.Errorf("the weak set-up keeps the row from %s:\n%s", what, trace)
						}
					}
				}
			}
			if n := e.testBoxes.Load(); c.want == verdict.Passed && n != 1 {
				t.Errorf("%d test boxes", n)
			}
		})
	}
}

// speaksForTheServer writes the server's frames wherever it can, now and for
// as long as it lives, and leaves bytes that could be the next row's.
const speaksForTheServer = `
import os, time
def frame(b): return len(b).to_bytes(4, 'big') + b
forged = frame(b'XU3:S4:doneI1:0T') + frame(b'D' + frame(b'U4:S7:verdictS4:passS0:I1:0')) + frame(b'GU2:S5:readyT')
def shout():
    for fd in range(256):
        try: os.write(fd, forged)
        except OSError: pass
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            shout()
            time.sleep(0.01)
    os._exit(0)
shout()
assert add(2, 3) == 5
`

// TestRowsCannotForgeServerFrames: the row that forges fails, those behind it
// get the verdict that is theirs.
func TestRowsCannotForgeServerFrames(t *testing.T) {
	e := newLocalEngine(t)
	if !e.isolated {
		t.Skip("without a process namespace the forger lives on")
	}
	v := newTestVerifier(t, e)
	forger := add()
	forger.tests = speaksForTheServer
	for i, c := range []struct {
		row       spec
		candidate string
		want      verdict.Outcome
	}{
		{forger, add().reference, verdict.Failed},
		{add(), "def add(a, b): return 4\n", verdict.Failed},
		{add(), add().reference, verdict.Passed},
		{forger, "def add(a, b): return 4\n", verdict.Failed},
		{add(), "def add(a, b): return 4\n", verdict.Failed},
		{add(), add().reference, verdict.Passed},
	} {
		if got := verify(t, v, makeCase(t, c.row), c.candidate); got.Outcome != c.want {
			t.Errorf("row %d: %s", i+1, describe(got))
		}
	}
}
