package contract

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"securebench/internal/sampletest"
	"securebench/internal/sandbox"
)

// isolation attacks the sandbox from inside. Each probe is a program that
// prints only what it should not have been able to do or see.
func (s *suite) isolation(t *testing.T) {
	// Engines poll for these two, and a busy machine polls late.
	t.Run("process limit", s.processLimit)
	t.Run("memory limit", s.memoryLimit)
	attacks := probes()
	if s.caps.Second {
		attacks = sampletest.Of(t, 4, attacks)
	}
	for _, user := range []sandbox.User{sandbox.Nobody, {}} {
		name := "as nobody"
		if user.UID == 0 {
			name = "as root"
		}
		parallel(t, name, func(t *testing.T) {
			for _, p := range attacks {
				parallel(t, p.Name, func(t *testing.T) { s.probe(t, user, p.Code) })
			}
		})
	}
	parallel(t, "user", s.users)
	parallel(t, "streams", s.streamsByName)
	parallel(t, "inode limit", s.inodeLimit)
	parallel(t, "survivors", s.survivors)
	parallel(t, "neighbours", s.neighbours)
	parallel(t, "host names", s.hostNames)
	parallel(t, "working directory", s.workingDirectory)
	parallel(t, "writable root", s.writableRoot)
	parallel(t, "capabilities", s.capabilities)
	parallel(t, "privileges", s.privileges)
	parallel(t, "privileged reach", s.privilegedReach)
	parallel(t, "tracing", s.tracing)
	parallel(t, "peer", s.peer)
	parallel(t, "read all", s.readAll)
}

// python is a sandbox that runs a Python program.
func (s *suite) python(code string, args ...string) sandbox.Spec {
	spec := s.spec("")
	spec.Command = append([]string{"python3", "-I", "-S", "-c", code}, args...)
	return spec
}

func (s *suite) probe(t *testing.T, user sandbox.User, code string) {
	t.Helper()
	spec := s.python(code)
	spec.User = &user
	got := s.run(t, spec)
	if got.End != sandbox.Exited || got.ExitCode != 0 || got.stdout != "" {
		t.Errorf("got %+v\n%s%s", got.Outcome, got.stdout, got.stderr)
	}
}

func (s *suite) users(t *testing.T) {
	spec := s.spec("echo $(id -u) $(id -g) $(hostname)")
	if got := s.run(t, spec); got.stdout != "65534 65534 sandbox\n" {
		t.Errorf("got %q", got.stdout)
	}
	spec.User = nil
	want := s.caps.Image.User
	spec.Command[2] = "test $(id -u):$(id -g) = $0"
	spec.Command = append(spec.Command, fmt.Sprintf("%d:%d", want.UID, want.GID))
	if got := s.run(t, spec); got.ExitCode != 0 {
		t.Errorf("without a user, the sandbox does not run as the image's, %v", want)
	}
}

// streamsByName: programs write to the standard streams by their names.
func (s *suite) streamsByName(t *testing.T) {
	for _, user := range []sandbox.User{sandbox.Nobody, {}} {
		spec := s.spec("echo error > /dev/stderr; echo output | tee /dev/stdout")
		spec.User = &user
		if got := s.run(t, spec); got.stdout != "output\noutput\n" || got.stderr != "error\n" {
			t.Errorf("as user %d: got %q, %q", user.UID, got.stdout, got.stderr)
		}
	}
}

// processLimit keeps bombs at their limit for a while: engines may look only
// now and then, and the more so the busier the machine is.
func (s *suite) processLimit(t *testing.T) {
	for name, c := range map[string]struct {
		code    string
		timeout time.Duration
		want    sandbox.Outcome
	}{
		"exits with an error": {probeForkBomb + "time.sleep(15); sys.exit(1)", bound, sandbox.Outcome{End: sandbox.Exited, Seen: []sandbox.End{sandbox.PidsLimit}, ExitCode: 1}},
		"exits normally":      {probeForkBomb + "time.sleep(15)", bound, sandbox.Outcome{End: sandbox.Exited, Seen: []sandbox.End{sandbox.PidsLimit}}},
		"never ends":          {probeForkBomb + "time.sleep(600)", 6 * time.Second, sandbox.Outcome{End: sandbox.PidsLimit, ExitCode: 124}},
	} {
		parallel(t, name, func(t *testing.T) {
			spec := s.python(c.code)
			spec.Limits.Pids, spec.Limits.Timeout = 32, c.timeout
			diffOutcome(t, c.want, s.run(t, spec).Outcome)
		})
	}
	t.Run("never stops", func(t *testing.T) {
		// The command itself forks once, before there is a bomb: a shell that
		// cannot fork ends immediately.
		spec := s.spec("bomb() { bomb | bomb & }; (bomb) & exec sleep 600")
		spec.Limits.Pids, spec.Limits.Timeout = 64, 3*time.Second
		if got := s.run(t, spec); got.End != sandbox.PidsLimit && got.End != sandbox.TimedOut {
			t.Errorf("got %+v", got.Outcome)
		}
	})
}

// memoryLimit gives engines time to subscribe before memory runs out.
func (s *suite) memoryLimit(t *testing.T) {
	const start, bomb = "import os, sys, time\ntime.sleep(2)\n", "hoard = [bytearray(1 << 26) for _ in range(999)]\n"
	for name, c := range map[string]struct {
		code string
		end  sandbox.End
		exit int
	}{
		"command":                   {start + bomb, sandbox.OutOfMemory, 137},
		"child, then an error":      {start + "if os.fork() == 0: " + bomb + "os.wait()\nsys.exit(5)", sandbox.Exited, 5},
		"child, then a normal exit": {start + "if os.fork() == 0: " + bomb + "os.wait()", sandbox.Exited, 0},
	} {
		parallel(t, name, func(t *testing.T) {
			want := sandbox.Outcome{End: c.end, Seen: []sandbox.End{sandbox.OutOfMemory}, ExitCode: c.exit}
			diffOutcome(t, want, s.run(t, s.python(c.code)).Outcome)
		})
	}
	parallel(t, "with a root that can be written", func(t *testing.T) {
		spec := s.python(start + "hoard = bytearray(344 << 20)")
		spec.WritableRoot, spec.Limits.Disk = true, 64<<20
		want := sandbox.Outcome{End: sandbox.OutOfMemory, Seen: []sandbox.End{sandbox.OutOfMemory}, ExitCode: 137}
		diffOutcome(t, want, s.run(t, spec).Outcome)
		// As much as the limit, while the disk has something.
		spec.Command = s.python("open('/tmp/f', 'wb').write(bytes(48 << 20))\nhoard = bytearray(220 << 20)").Command
		diffOutcome(t, sandbox.Outcome{End: sandbox.Exited}, s.run(t, spec).Outcome)
	})
}

func (s *suite) inodeLimit(t *testing.T) {
	w := s.make(t, sandbox.WorkspaceSpec{Owner: sandbox.Nobody, Inodes: 100})
	got := s.in(t, w, "i=0; while touch f$i; do i=$((i+1)); done; exit 1")
	diffOutcome(t, sandbox.Outcome{End: sandbox.Exited, Seen: []sandbox.End{sandbox.DiskLimit}, ExitCode: 1}, got.Outcome)
}

// survivors must not outlive the command, nor hold its output open.
func (s *suite) survivors(t *testing.T) {
	for name, script := range map[string]string{
		"background":   "sleep 1000 & exit 0",
		"double fork":  "(setsid sh -c 'trap \"\" TERM HUP; sleep 1000' &) ; exit 0",
		"kill init":    "kill -9 1; kill -TERM 1; exit 0",
		"stopped self": "(sleep 1; kill -CONT 1) & kill -STOP 1; exit 0",
	} {
		parallel(t, name, func(t *testing.T) {
			began := time.Now()
			got := s.run(t, s.spec(script))
			if got.End != sandbox.Exited {
				t.Errorf("got %+v", got.Outcome)
			}
			if took := time.Since(began); took > bound/2 {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// neighbours checks that two sandboxes share nothing while both run.
func (s *suite) neighbours(t *testing.T) {
	neighbour, search := probeNeighbour, probeNeighbourSearch
	if !s.caps.SharedDevices {
		neighbour, search = probeDevices+neighbour, probeDevices+search
	}
	s.beside(t, s.python(neighbour+"time.sleep(600)"), func() { s.probe(t, sandbox.Nobody, search) })
	s.probe(t, sandbox.Nobody, search)
}

// beside does something while a sandbox runs that has written to its output.
func (s *suite) beside(t *testing.T, spec sandbox.Spec, do func()) {
	t.Helper()
	b := s.open(t, spec)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started, done := newSignal(), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = b.Run(ctx, sandbox.Streams{Stdout: started})
	}()
	select {
	case <-started.c:
	case <-done:
		t.Fatal("the first sandbox ended")
	}
	do()
	cancel()
	<-done
}

// hostNames checks that no path of this process is visible in a sandbox.
func (s *suite) hostNames(t *testing.T) {
	w := s.workspace(t)
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	spec := s.python(probeHostSearch, wd, os.Args[0])
	spec.Mounts = []sandbox.Mount{{Workspace: w, Target: target}}
	if got := s.run(t, spec); got.ExitCode != 0 || got.stdout != "" {
		t.Errorf("got %+v\n%s%s", got.Outcome, got.stdout, got.stderr)
	}
}

func (s *suite) workingDirectory(t *testing.T) {
	w := s.workspace(t)
	for _, dir := range []string{"/proc/self/fd/8", "/proc", "/sys/kernel", "//proc/self", "/x/../proc", "relative", "/dev/fd"} {
		spec := s.spec(scriptOK)
		spec.Workdir = dir
		s.notOpened(t, spec, fmt.Sprintf("working directory %q is accepted", dir))
		spec = s.spec(scriptOK)
		spec.Mounts = []sandbox.Mount{{Workspace: w, Target: dir}}
		s.notOpened(t, spec, fmt.Sprintf("workspace target %q is accepted", dir))
	}
}

func (s *suite) writableRoot(t *testing.T) {
	spec := s.spec("echo x > /etc/note && cat /etc/note")
	spec.User = &sandbox.User{}
	if got := s.run(t, spec); got.ExitCode == 0 {
		t.Error("the root is writable")
	}
	spec.WritableRoot = true
	if got := s.run(t, spec); got.stdout != "x\n" {
		t.Errorf("got %q, %q", got.stdout, got.stderr)
	}
	if got := s.run(t, s.spec("cat /etc/note")); got.ExitCode == 0 {
		t.Error("the root of one sandbox is visible in another")
	}
	spec.Command[2] = "grep ' /tmp ' /proc/mounts; echo x > /tmp/note" // a part of the root, not of its own
	b := s.open(t, spec)
	var out strings.Builder
	if _, err := b.Run(t.Context(), sandbox.Streams{Stdout: &out}); err != nil || out.String() != "" {
		t.Errorf("got %q, %v", out.String(), err)
	}
	if r, ok := b.(sandbox.RootReader); ok {
		changes, err := r.Changes(t.Context(), 100)
		if err != nil || !slices.Contains(changes, sandbox.Change{Path: "/tmp/note", Kind: sandbox.Added, Type: sandbox.RegularFile}) {
			t.Errorf("changes of the root: %v, %v", changes, err)
		}
	}
}

// capabilities checks that a command that runs as root gets exactly those that
// it asks for, and that no other user gets any.
func (s *suite) capabilities(t *testing.T) {
	const show = "grep -E '^Cap(Prm|Eff|Bnd|Amb):' /proc/self/status | tr -d '\\n\\t'"
	for name, c := range map[string]struct {
		user sandbox.User
		caps []sandbox.Capability
		want string // effective
	}{
		"none":   {sandbox.User{}, nil, "0000000000000000"},
		"root":   {sandbox.User{}, []sandbox.Capability{sandbox.Kill, sandbox.SetGID, sandbox.SetUID, sandbox.SetPCap}, "00000000000001e0"},
		"nobody": {sandbox.Nobody, []sandbox.Capability{sandbox.SetUID}, "0000000000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := s.spec(show)
			spec.User, spec.Capabilities = &c.user, c.caps
			if got := s.run(t, spec); !strings.Contains(got.stdout, "CapEff:"+c.want) || strings.Count(got.stdout, c.want) < 2 {
				t.Errorf("got %q, want %s", got.stdout, c.want)
			}
		})
	}
	spec := s.spec(scriptOK)
	spec.Capabilities = []sandbox.Capability{"SYS_ADMIN"}
	s.notOpened(t, spec, "SYS_ADMIN is granted")
}

// tracing checks that processes of one user can debug each other only where
// the specification allows it.
func (s *suite) tracing(t *testing.T) {
	spec := s.python(probeTracing)
	if got := s.run(t, spec); got.ExitCode != 0 || got.stdout != "" {
		t.Errorf("by default: got %+v\n%s%s", got.Outcome, got.stdout, got.stderr)
	}
	spec.Tracing = true
	if got := s.run(t, spec); got.stdout != "traced\n" {
		t.Errorf("with tracing: got %+v\n%s%s", got.Outcome, got.stdout, got.stderr)
	}
}
