package oci_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/oci"
)

// attack is a script that writes "worked" if it did, and a weakness with which it does.
type attack struct {
	name, script string
	root         bool // the script's user
	weaken       func(*specs.Spec)
}

func attacks() []attack {
	return []attack{
		{"change an owner", "touch /tmp/f && chown 7 /tmp/f && echo worked", true, func(s *specs.Spec) {
			c := []string{"CAP_CHOWN"}
			s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: c, Effective: c, Permitted: c}
		}},
		{"gain privileges", "grep -q 'NoNewPrivs:.0' /proc/self/status && echo worked", false,
			func(s *specs.Spec) { s.Process.NoNewPrivileges = false }},
		{"make namespaces", "unshare -U true && echo worked", false, func(s *specs.Spec) { s.Linux.Seccomp, s.Annotations = nil, nil }},
		{"read the host's state", "test -n \"$(cat /proc/interrupts)\" && echo worked", false, func(s *specs.Spec) { s.Linux.MaskedPaths = nil }},
		{"set kernel parameters", "echo 60 > /proc/sys/net/ipv4/tcp_fin_timeout && echo worked", true,
			func(s *specs.Spec) { s.Linux.ReadonlyPaths = nil }},
		{"write to the root", "mkdir /new && echo worked", true, func(s *specs.Spec) { s.Root.Readonly = false }},
		{"see other devices of the network", "test $(wc -l < /proc/net/dev) -gt 3 && echo worked", false, without(specs.NetworkNamespace)},
		{"see where the control group is", "grep -q securebench-test /proc/self/cgroup && echo worked", false, without(specs.CgroupNamespace)},
		{"use shared memory of the host", "test -n \"$(tail -n +2 /proc/sysvipc/shm)\" && echo worked", false, without(specs.IPCNamespace)},
		{"leave a core file", "test $(ulimit -H -c) != 0 && echo worked", false, func(s *specs.Spec) { s.Process.Rlimits = nil }},
		{"queue all signals of the host", limit("pending", 4096), false, func(s *specs.Spec) { s.Process.Rlimits = nil }},
		{"fill the message queues of the host", limit("msgqueue", 204800), false, func(s *specs.Spec) { s.Process.Rlimits = nil }},
		{"change the control group", "cd /sys/fs/cgroup && for d in . */; do mkdir $d/new && rmdir $d/new && echo worked; done 2> /dev/null", true,
			func(s *specs.Spec) {
				s.Linux.ReadonlyPaths = nil
				s.Mounts = slices.DeleteFunc(s.Mounts, func(m specs.Mount) bool { return m.Destination == "/sys/fs/cgroup" })
				s.Mounts = append(s.Mounts, specs.Mount{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"rw"}})
			}},
		{"have a hundred processes", "for i in $(seq 100); do sleep 60 & done && echo worked", false,
			func(s *specs.Spec) { s.Linux.Resources.Pids = nil }},
		{"use the machine's memory", "head -c 100M /dev/zero | tail -c 100M | wc -c | grep -q 104857600 && echo worked", false,
			func(s *specs.Spec) { s.Linux.Resources.Memory = nil }},
		{"fill the disk", "head -c 2M /dev/zero > /tmp/f && echo worked", false,
			func(s *specs.Spec) { option(s, "/tmp", "size=1048576", "size=4194304") }},
		{"use up the inodes", "for i in $(seq 20); do : > /tmp/$i || exit; done; echo worked", false,
			func(s *specs.Spec) { option(s, "/tmp", "nr_inodes=10", "nr_inodes=100") }},
	}
}

// limit is a script that works if a limit of processes is higher than it may be.
func limit(name string, most int) string {
	return fmt.Sprintf("while read _ n _ l _; do test $n = %s && test $l -gt %d && echo worked; done < /proc/self/limits", name, most)
}

// without shares a namespace with the host.
func without(kind specs.LinuxNamespaceType) func(*specs.Spec) {
	return func(s *specs.Spec) {
		var rest []specs.LinuxNamespace
		for _, n := range s.Linux.Namespaces {
			if n.Type != kind {
				rest = append(rest, n)
			}
		}
		s.Linux.Namespaces, s.Linux.Sysctl = rest, nil
	}
}

// option replaces an option of a mount.
func option(s *specs.Spec, target, from, to string) {
	for _, m := range s.Mounts {
		for i, o := range m.Options {
			if m.Destination == target && o == from {
				m.Options[i] = to
			}
		}
	}
}

// TestAttacks fires each attack at a box that was weakened, where it works, and at
// boxes with and without mapped users, where it does not.
func TestAttacks(t *testing.T) { withEach(t, attacksOn) }

func attacksOn(t *testing.T, p *place) {
	shared(t)
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			p.t = t
			box := func() oci.Box {
				b := p.box("/bin/sh", "-c", a.script)
				b.Mounts = append(b.Mounts, oci.Mount{Target: "/tmp", Size: 1 << 20, Inodes: 10, Mode: os.ModeSticky | 0o777})
				b.Limits.Pids, b.Memory = 64, 64<<20
				if a.root {
					b.User = sandbox.User{}
				}
				return b
			}
			if out, _ := p.run(box(), a.weaken); !strings.HasSuffix(out, "worked\n") {
				t.Errorf("the attack does not work where it should: %.300q", out)
			}
			for _, b := range []oci.Box{box(), p.mapped(box())} {
				if out, _ := p.run(b); strings.Contains(out, "worked") {
					t.Errorf("the attack works with mapped users %d", b.IDSize)
				}
			}
		})
	}
}

// shared gives the host a segment of shared memory for the time of a test.
func shared(t *testing.T) {
	t.Helper()
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil); err != nil {
			t.Error(err)
		}
	})
}

// TestHonest is the twin of the attacks: what a command may do works.
func TestHonest(t *testing.T) { withEach(t, honestOn) }

func honestOn(t *testing.T, p *place) {
	const script = `set -e
test -z "$GOMAXPROCS"; id; test -w /dev/null; head -c 8 /dev/urandom > /tmp/f; echo x > /dev/shm/f; mkdir /tmp/d; sleep 0 & wait
test "$(cat /tmp/in)" = given; printf 'all %s\n' fine; exit 7`
	for _, mapped := range []bool{false, true} {
		b := p.box("/bin/sh", "-c", script)
		b.Mounts = append(b.Mounts, oci.Mount{Target: "/tmp", Size: 1 << 20, Inodes: 10, Mode: os.ModeSticky | 0o777})
		if mapped {
			b = p.mapped(b)
		}
		file := b.Root + "-in"
		if err := p.ns.Do(func() error { return os.WriteFile(file, []byte("given"), 0o644) }); err != nil { //nolint:gosec // the sandbox's user reads it
			t.Fatal(err)
		}
		b.Mounts = append(b.Mounts, oci.Mount{Target: "/tmp/in", Source: file, ReadOnly: true})
		out, status := p.run(b)
		if status.ExitStatus() != 7 || !strings.Contains(out, "uid=65534 gid=65534 groups=65534") || !strings.HasSuffix(out, "all fine\n") {
			t.Errorf("mapped users %v: status %#x, %s", mapped, status, out)
		}
	}
}

// TestNoDescriptorLeaks opens a descriptor that every program inherits, as careless
// shells do: a program has it, a container does not.
func TestNoDescriptorLeaks(t *testing.T) { withEach(t, noDescriptorLeaksOn) }

func noDescriptorLeaksOn(t *testing.T, p *place) {
	leaked, err := unix.Dup(2)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leaked)
	script := fmt.Sprintf("test -e /proc/self/fd/%d && echo worked", leaked)
	c := &container{copied: make(chan error, 2)}
	p.launch(c, shell(script))
	if c.join(t); c.stdout.String() != "worked\n" {
		t.Errorf("a program does not have the descriptor: %s", c.stdout.String())
	}
	if out, _ := p.run(p.box("/bin/sh", "-c", script)); strings.Contains(out, "worked") {
		t.Error("the container has the descriptor")
	}
}

// TestPeer shares a network, which takes the user namespace with it, and nothing else.
func TestPeer(t *testing.T) { withEach(t, peerOn) }

func peerOn(t *testing.T, p *place) {
	for _, mapped := range []bool{false, true} {
		first := p.box("/bin/sh", "-c", "readlink /proc/self/ns/net /proc/self/ns/ipc; read wait")
		second := p.box("/bin/sh", "-c", "readlink /proc/self/ns/net /proc/self/ns/ipc")
		if mapped {
			first, second = p.mapped(first), p.mapped(second)
		}
		c := p.start(first)
		if c.failed != nil {
			t.Fatal(c.failed)
		}
		second.Peer = c.pid
		out, _ := p.run(second)
		c.end(t)
		a, b := strings.Fields(c.stdout.String()), strings.Fields(out)
		if len(a) != 2 || len(b) != 2 || a[0] != b[0] || a[1] == b[1] {
			t.Errorf("mapped users %v: namespaces %q and %q", mapped, a, b)
		}
	}
}

// TestCannotStart has the exit codes of a shell for commands that cannot be executed,
// and an error for a runtime that cannot start anything.
func TestCannotStart(t *testing.T) { withEach(t, cannotStartOn) }

func cannotStartOn(t *testing.T, p *place) {
	for _, c := range []struct {
		command string
		code    int
	}{{"no-such-program", 127}, {"/no/such/program", 127}, {"/usr", 126}, {"/proc/version", 126}} {
		failed := p.start(p.box(c.command))
		failed.join(t)
		if failed.failed == nil {
			t.Errorf("%s was started", c.command)
		}
		var code int
		var reason error
		if err := p.ns.Do(func() error { code, reason = oci.Failure(failed.call.Log); return nil }); err != nil || code != c.code || reason == nil {
			t.Errorf("%s: exit code %d, want %d: %v", c.command, code, c.code, reason)
		}
	}
	broken := p.box("/bin/true")
	broken.Mounts = append(broken.Mounts, oci.Mount{Target: "/exec", Source: "/exec: no such file or directory"})
	failed := p.start(broken)
	failed.join(t)
	if err := p.ns.Do(func() error {
		code, reason := oci.Failure(failed.call.Log)
		if code != 0 || reason == nil {
			t.Errorf("a mount that cannot be made: exit code %d, %v", code, reason)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
