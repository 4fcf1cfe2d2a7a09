package enginetest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

// attack is a Python program that prints PWN where it succeeds, and has the same
// outcome on every engine.
type attack struct {
	name, code string
	caps       []sandbox.Capability
	nobody     bool     // its user; else root
	command    string   // in place of code: a program of the hostile image
	workdir    string   // of the hostile image
	weak       []string // docker arguments with which it succeeds; nil if a limit of the kernel is all there is
	exit       int
	fails      bool // no engine starts it
}

const start = `
import ctypes, fcntl, os, resource, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def call(name, nr, *args):
    if libc.syscall(nr, *args) != -1 or ctypes.get_errno() not in (1, 38): print("PWN", name)
def tries(name, f):
    try: f()
    except OSError: return
    print("PWN", name)
`

// surface calls what widens the kernel's surface. The numbers are x86-64's.
const surface = start + `
for name, nr in {"bpf": 321, "userfaultfd": 323, "perf_event_open": 298, "io_uring_setup": 425, "open_by_handle_at": 304,
        "kexec_load": 246, "init_module": 175, "finit_module": 313, "delete_module": 176, "setns": 308, "mount": 165, "umount2": 166,
        "pivot_root": 155, "fsopen": 430, "open_tree": 428, "move_mount": 429, "fsmount": 432, "mount_setattr": 442,
        "pidfd_getfd": 438, "process_vm_readv": 310, "process_madvise": 440, "kcmp": 312, "quotactl": 179, "swapon": 167,
        "reboot": 169, "ioperm": 173, "fanotify_init": 300, "clone3": 435, "memfd_secret": 447}.items():
    if os.uname().machine == "x86_64": call(name, nr, 0, 0, 0, 0, 0)
`

const keyrings = start + `
if os.uname().machine == "x86_64":
    call("add_key", 248, b"user", b"note", b"x", 1, -3)
    call("request_key", 249, b"user", b"note", None, 0)
    call("keyctl", 250, 0, -3, 1)
`

// settings opens what the kernel lets be set. It writes nothing.
const settings = start + `
for top in ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi", "/sys/kernel", "/sys/power", "/sys/fs", "/sys/firmware"):
    for base, dirs, files in os.walk(top):
        if base.startswith("/sys/kernel/slab"): dirs[:] = []
        for f in files + ["new"]:
            path, how = os.path.join(base, f), os.O_CREAT if f == "new" and base == "/sys/fs/cgroup" else 0
            if not (how and ENGINES_OWN): tries(path, lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | how, 0o600)))
tries("sysrq", lambda: os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY)))
`

const mounts = start + `
os.makedirs("/tmp/m", exist_ok=True)
for name, args in {"tmpfs": (b"none", b"/tmp/m", b"tmpfs", 0, None), "bind": (b"/etc", b"/tmp/m", None, 4096, None),
        "proc": (b"proc", b"/tmp/m", b"proc", 0, None), "remount": (b"none", b"/", None, 32 | 4096, None)}.items():
    if libc.mount(*args) == 0: print("PWN", name)
for kind, major, minor in ((0o60000, 8, 0), (0o20000, 1, 1), (0o20000, 10, 229)):
    tries("device", lambda: os.mknod("/tmp/d%d.%d" % (major, minor), kind | 0o666, os.makedev(major, minor)))
`

// borrowed makes a program that has its owner's rights, and runs it as another user.
const borrowed = start + `
import shutil
shutil.copy("/usr/bin/id", "/tmp/id"); os.chmod("/tmp/id", 0o4755)
if os.fork() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    if os.popen("/tmp/id -u").read() == "0\n": os.write(1, b"PWN")
    os._exit(0)
os.wait()
`

const sockets = start + `
tries("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
tries("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
`

var abstract = start + `
tries("host's socket", lambda: socket.socket(socket.AF_UNIX).connect("\0` + abstractName + `"))
`

var abstractName = "securebench-test-attacks-" + rand.Text() // the host has one

const processes = start + `
if len([p for p in os.listdir("/proc") if p.isdigit()]) > 1: print("PWN")
`

const descriptors = start + `
for fd in range(3, 1024): tries(fd, lambda: os.fstat(fd))
`

// filter is a program of the kernel's that kills a process at its next call.
const filter = start + `
class F(ctypes.Structure): _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class P(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(F))]
p = P(1, (F * 1)(F(6, 0, 0, 0x80000000)))
libc.prctl(22, 2, ctypes.byref(p))
os.getppid()
`

func attacks(marker string) []attack {
	leave := start + "if any(os.path.exists('../' * n + '" + marker + "') for n in range(16)): print('PWN')"
	return []attack{
		{name: "system calls", code: surface, weak: []string{"--security-opt=seccomp=unconfined"}},
		{name: "calls by every table", code: denied, weak: []string{"--security-opt=seccomp=unconfined"}},
		{name: "calls that others carry", code: muxes, nobody: true, weak: []string{}},
		{name: "families of sockets", code: families, nobody: true, weak: []string{}},
		{name: "calls of x32", code: x32, nobody: true, weak: []string{"--security-opt=seccomp=unconfined"}},
		{name: "pages of layers, asked for", code: askPages, weak: []string{}},
		{name: "pages of layers, dropped", code: dropPages, weak: []string{}},
		{name: "keyrings", code: keyrings, nobody: true, weak: []string{"--security-opt=seccomp=unconfined"}},
		{name: "settings of the kernel", code: settings, weak: []string{"--security-opt=systempaths=unconfined"}},
		{name: "mounts and devices", code: mounts, weak: []string{"--security-opt=seccomp=unconfined", "--cap-add=SYS_ADMIN"}},
		{name: "rights of an owner", code: borrowed, caps: []sandbox.Capability{sandbox.SetUID, sandbox.SetGID}, weak: []string{}},
		{name: "raw sockets", code: sockets, weak: []string{"--cap-add=NET_RAW"}},
		{name: "abstract sockets", code: abstract, nobody: true, weak: []string{"--network=host"}},
		{name: "processes", code: processes, nobody: true, weak: []string{"--pid=host"}},
		// Package oci has the weak set-up.
		{name: "descriptors", code: descriptors, nobody: true},
		// CVE-2024-21626: the image's folder is a descriptor that a runtime left open.
		{name: "working directory 7", code: leave, workdir: "/app7", fails: true},
		{name: "working directory 8", code: leave, workdir: "/app8", fails: true},
		{name: "working directory of the host", code: leave, weak: []string{"-v=/:/host", "-w=/host"}},
		// CVE-2019-5736: the runtime is made to execute itself in the sandbox.
		{name: "runtime's program", command: "/entry", exit: -1},
		// Ends that could pass for another's work.
		{name: "limit on time", code: start + "resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass", nobody: true, exit: 137},
		{name: "strict mode", code: start + "time.sleep(0.3); print(libc.prctl(22, 1), flush=True); os.getppid(); sys.exit(3)", nobody: true, exit: 3},
		{name: "own filter", code: filter, nobody: true, exit: 159},
		{name: "signals to itself", code: start + "time.sleep(0.3)\nfor s in (9, 19, 20, 21, 22): os.kill(1, s)\nsys.exit(4)", nobody: true, exit: 4},
	}
}

// hostile makes links and programs of an image that lead a runtime astray.
const hostile = `ln -s /proc/self/fd/7 /app7; ln -s /proc/self/fd/8 /app8; printf '#!/proc/self/exe\n' > /entry; chmod 755 /entry`

// misleading makes the image. Docker runs the script without a network, which a build
// has.
func misleading(t *testing.T, e sandbox.Engine, img sandbox.Image) sandbox.Image {
	t.Helper()
	if _, builds := e.(sandbox.Builder); !builds {
		return enginetest.Script(t, e, img, hostile)
	}
	name := "securebench-test:" + strings.ToLower(rand.Text())
	docker := func(args ...string) {
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "docker", args...).CombinedOutput(); err != nil { //nolint:gosec // the test's own words
			t.Errorf("docker %q: %v, %s", args, err, out)
		}
	}
	box := strings.ReplaceAll(name, ":", "-")
	docker("run", "--network=none", "--name="+box, img.Ref, "sh", "-c", hostile)
	docker("commit", box, name)
	docker("rm", box)
	t.Cleanup(func() { docker("rmi", name) })
	made, err := e.Image(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// result is what is compared.
type result struct {
	Outcome sandbox.Outcome
	Fails   bool
}

// TestSameOutcome fires every attack at each engine: it gives nothing, and the
// outcome is the same. TestWeak is the twin in which they succeed.
func TestSameOutcome(t *testing.T) {
	listen(t)
	marker := mark(t)
	runtime, err := exec.LookPath("runc")
	before := content(t, runtime, err)
	results := map[string]map[string]result{}
	enginetest.Each(t, func(t *testing.T, e enginetest.Engine) {
		img := enginetest.Image(t, e)
		bad := misleading(t, e, img)
		results[filepath.Base(t.Name())] = fire(t, e, img, bad, attacks(marker))
	})
	if content(t, runtime, err) != before {
		t.Error("the runtime's program was changed")
	}
	if len(results) == 2 && !reflect.DeepEqual(results["docker"], results["native"]) {
		for name, r := range results["docker"] {
			if other := results["native"][name]; !reflect.DeepEqual(r, other) {
				t.Errorf("%s: %+v on Docker, %+v on native", name, r, other)
			}
		}
	}
}

// fire runs attacks side by side.
func fire(t *testing.T, e sandbox.Engine, img, bad sandbox.Image, all []attack) map[string]result {
	results := map[string]result{}
	var mu sync.Mutex
	var g sync.WaitGroup
	atOnce := make(chan struct{}, 2)
	for _, a := range all {
		g.Go(func() {
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			spec := sandbox.Spec{Image: img, Workdir: a.workdir, Capabilities: a.caps, User: &sandbox.User{}, Limits: sandbox.Limits{Timeout: 2 * time.Minute},
				Command: []string{"python3", "-I", "-S", "-c", codeFor(a.code, filepath.Base(t.Name()) == "docker")}}
			if a.nobody {
				spec.User = &sandbox.Nobody
			}
			if a.workdir != "" || a.command != "" {
				spec.Image = bad
			}
			if a.command != "" {
				spec.Command = []string{a.command}
			}
			r := one(t, e, a, spec)
			mu.Lock()
			defer mu.Unlock()
			results[a.name] = r
		})
	}
	g.Wait()
	return results
}

// codeFor completes a program. The folder in which control groups of version 1 are
// mounted is a tmpfs that root can write to on Docker; docs/engines.md says so.
func codeFor(code string, docker bool) string {
	own := "False"
	if docker {
		own = "True"
	}
	return strings.ReplaceAll(code, "ENGINES_OWN", own)
}

func one(t *testing.T, e sandbox.Engine, a attack, spec sandbox.Spec) result {
	b, err := e.Open(t.Context(), spec)
	var out bytes.Buffer
	var o sandbox.Outcome
	if err == nil {
		o, err = b.Run(t.Context(), sandbox.Streams{Stdout: &out, Stderr: &out})
		if closed := b.Close(context.WithoutCancel(t.Context())); closed != nil {
			t.Errorf("%s: %v", a.name, closed)
		}
	}
	if strings.Contains(out.String(), "PWN") {
		t.Errorf("%s succeeds: %.2000s", a.name, out.String())
	}
	if (err != nil) != a.fails {
		t.Errorf("%s: %v, %.500s", a.name, err, out.String())
	}
	code := o.ExitCode
	if a.exit < 0 && code != 0 { // which error it is is the program's own
		code = a.exit
	}
	if err == nil && (o.End != sandbox.Exited || code != a.exit) {
		t.Errorf("%s: got %+v, want exit code %d: %.500s", a.name, o, a.exit, out.String())
	}
	return result{sandbox.Outcome{End: o.End, Seen: o.Seen, ExitCode: code}, err != nil}
}

// TestWeak: with one defence less, the same programs succeed.
func TestWeak(t *testing.T) {
	e := enginetest.Docker(t)
	img := enginetest.Image(t, e)
	listen(t)
	for _, a := range attacks(mark(t)) {
		if a.weak == nil {
			continue
		}
		args := append([]string{"run", "--rm", "--network=none"}, a.weak...)
		if strings.HasPrefix(strings.Join(a.weak, " "), "--network") {
			args = append([]string{"run", "--rm"}, a.weak...)
		}
		if a.nobody {
			args = append(args, "--user=65534")
		}
		out, err := exec.CommandContext(t.Context(), "docker", append(args, img.Ref, "python3", "-I", "-S", "-c", codeFor(a.code, false))...).CombinedOutput() //nolint:gosec // the test's own words
		if err != nil || !strings.Contains(string(out), "PWN") {
			t.Errorf("%s does not succeed with %q: %v, %.500s", a.name, a.weak, err, out)
		}
	}
}

// TestHonestTwin: what programs rightly do works with all that the attacks use.
func TestHonestTwin(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, e enginetest.Engine) {
		img := enginetest.Image(t, e)
		got := fire(t, e, img, img, []attack{{name: "honest on 32 bits", nobody: true, exit: 7, code: honest32},
			{name: "honest about pages", nobody: true, exit: 7, code: honestPages}, {name: "honest", nobody: true, exit: 7, code: start + `
s = socket.socket(socket.AF_UNIX); s.bind("\0own"); s.listen(); socket.socket(socket.AF_UNIX).connect("\0own")
t = socket.create_server(("127.0.0.1", 0)); socket.create_connection(t.getsockname())
open("/tmp/f", "w").write("x"); fcntl.flock(open("/tmp/f"), fcntl.LOCK_EX); os.chmod("/tmp/f", 0o755)
open("/dev/null", "w").write("x"); assert len(open("/dev/urandom", "rb").read(8)) == 8
os.kill(os.getpid(), 0); resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); assert libc.inotify_init1(0) > 0
sys.exit(7)`}})
		if len(got) != 3 {
			t.Error("they did not run")
		}
	})
}

// listen has a socket on the host that only a shared network shows.
func listen(t *testing.T) {
	l, err := net.Listen("unix", "@"+abstractName)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

// mark makes a file of the host, and returns its path without the leading slash.
func mark(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "marker")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(name, "/")
}

// content is the digest of a program, if there is one.
func content(t *testing.T, name string, missing error) [32]byte {
	if missing != nil {
		return [32]byte{}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(b)
}
