package initproc

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/tartest"
)

// say runs a shell script and returns its words.
func say(t testing.TB, c *Client, cmd Command) string {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout = &out
	if res, err := c.Run(t.Context(), cmd); err != nil || res.ExitCode != 0 {
		t.Fatalf("%q: %+v, %v, %q", cmd.Argv, res, err, &out)
	}
	return out.String()
}

// TestApply changes the files of a sandbox, other users' among them, and shows
// that the rights for that are gone with the first command, in init itself and
// in all that it starts.
func TestApply(t *testing.T) {
	c := applyingRoot.open(t)
	owned, mine := fileOf("srv/data", "hello", 0o640), folderOf("srv", 0o711)
	owned.Uid, owned.Gid, mine.Uid, mine.Gid = 1000, 1001, 65534, 65534
	link := linkOf("srv/link", "/etc/passwd")
	link.Uid, link.Gid = 7, 8
	changes := tartest.Pack(t, deletionOf("etc/debian_version"), fileOf("etc/hostname.new", "x", 0o644), mine, owned, link)
	if err := c.Apply(t.Context(), bytes.NewReader(changes)); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), bytes.NewReader(tartest.Pack(t, fileOf("srv/data", "twice", 0o604)))); err != nil {
		t.Errorf("once more: %v", err)
	}
	var refused *ApplyError
	if err := c.Apply(t.Context(), bytes.NewReader(tartest.Pack(t, fileOf("srv/link/x", "x", 0o644)))); !errors.As(err, &refused) || refused.Errno != unix.ELOOP {
		t.Errorf("through a link: %v", err)
	}
	got := say(t, c, shell("stat -c '%n %u:%g %a' /srv /srv/data /srv/link /etc/hostname.new; cat /srv/data; test ! -e /etc/debian_version"))
	want := "/srv 65534:65534 711\n/srv/data 0:0 604\n/srv/link 7:8 777\n/etc/hostname.new 0:0 644\ntwice"
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if err := c.Apply(t.Context(), bytes.NewReader(changes)); err == nil || errors.As(err, &refused) || errors.Is(err, ErrLost) {
		t.Errorf("after a command: got %v, want a refusal", err)
	}
	if fired, words := attack(t, c, probe("capabilities", sandbox.User{})); fired {
		t.Errorf("a command of root's has %s", words)
	}
	got = rightsOf(t, c, "1")
	for _, want := range []string{"CapPrm:\t00000000000000e0\n", "CapInh:\t0000000000000000\n", "CapAmb:\t0000000000000000\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("of init's threads, which have\n%s, none has %q: that which starts commands", got, want)
		}
	}
	if bound := "CapBnd:\t"; strings.Count(got, bound) != 1 || !strings.Contains(got, bound+"0000000000000000\n") {
		t.Errorf("commands can gain what threads of init are bounded by:\n%s", got)
	}
	for _, s := range []setup{sameUser, plainRoot, capableRoot} {
		if err := s.open(t).Apply(t.Context(), bytes.NewReader(changes)); err == nil || errors.As(err, &refused) {
			t.Errorf("as %s: got %v, want a refusal", s.name, err)
		}
	}
}

// TestDestinations follows links that Apply made, through a link of the image's,
// until the first command starts.
func TestDestinations(t *testing.T) {
	c := applyingRoot.open(t)
	paths, want := []string{"/a", "/b", "/var/run"}, []string{"/a", "/srv/x", "/run"}
	apply := func(headers ...tar.Header) {
		if err := c.Apply(t.Context(), bytes.NewReader(tartest.Pack(t, headers...))); err != nil {
			t.Fatal(err)
		}
	}
	apply(linkOf("a", "a"), linkOf("b", "/srv/x"))
	for range maxPaths {
		paths, want = append(paths, "/root/x"), append(want, "/root/x")
	}
	leads := func(paths []string) (out []string, err error) {
		found, err := c.Destinations(t.Context(), paths)
		for _, p := range found {
			out = append(out, p.Path)
		}
		return out, err
	}
	if got, err := leads(paths); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := c.Destinations(t.Context(), []string{"/b", "/tmp", "/root/x/y"}); err != nil || !got[0].Missing || got[0].Mode != 0o755 ||
		got[1] != (Place{Path: "/tmp", Folder: true, Mode: 0o777}) || got[2].Writable(1000, 1000) {
		t.Errorf("got %+v, %v", got, err)
	}
	apply(linkOf("root/x", "/var/run/secrets"))
	if got, err := leads(paths[len(paths)-1:]); err != nil || !slices.Equal(got, []string{"/run/secrets"}) {
		t.Errorf("after another change: %q, %v", got, err)
	}
	say(t, c, shell("true"))
	if got, err := leads(paths); err == nil || errors.Is(err, ErrLost) {
		t.Errorf("after a command: %q, %v, want a refusal", got, err)
	}
}

// rightsOf are the capabilities of a process, as the kernel lists them.
func rightsOf(t testing.TB, c *Client, pid string) string {
	t.Helper()
	return say(t, c, shell("grep -h ^Cap /proc/"+pid+"/task/*/status | sort -u"))
}

// TestApplyKeepsProtection runs the attacks on init against one that has changed
// files.
func TestApplyKeepsProtection(t *testing.T) {
	c := applyingRoot.granting("CHOWN", "SYS_CHROOT").open(t)
	if err := c.Apply(t.Context(), bytes.NewReader(tartest.Pack(t, fileOf("srv/x", "x", 0o644)))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ptrace", "mem", "maps", "environ", "exe", "cwd", "fd", "process_vm_readv", "pidfd_getfd", "forge", "prlimit", "descriptors"} {
		cmd := probe(name, sandbox.User{})
		cmd.Capabilities = []sandbox.Capability{sandbox.Chown, sandbox.SysChroot}
		if fired, words := attack(t, c, cmd); fired {
			t.Errorf("%s succeeds: %s", name, words)
		}
	}
}

// TestGrants checks that a command has exactly what it was given, if it is
// root's, and that no other has any of that: not by being root, nor by a file
// with all bits set.
func TestGrants(t *testing.T) {
	const script = `touch /tmp/f$$; chown 1:1 /tmp/f$$ 2>/dev/null && echo CHOWN; /usr/sbin/chroot / true 2>/dev/null && echo SYS_CHROOT
		grep -E '^Cap(Prm|Eff|Inh|Amb)' /proc/self/status | grep -v ' *0000000000000000$' | cut -f 2 | sort -u`
	chown, chroot := sandbox.Chown, sandbox.SysChroot
	c := applyingRoot.granting("CHOWN", "SYS_CHROOT").open(t)
	for _, tt := range []struct {
		user  sandbox.User
		given []sandbox.Capability
		want  string
	}{
		{sandbox.User{}, nil, ""},
		{sandbox.User{}, []sandbox.Capability{chown}, "CHOWN\n0000000000000001\n"},
		{sandbox.User{}, []sandbox.Capability{chroot}, "SYS_CHROOT\n0000000000040000\n"},
		{sandbox.User{}, []sandbox.Capability{chown, chroot}, "CHOWN\nSYS_CHROOT\n0000000000040001\n"},
		{sandbox.User{}, nil, ""}, // also after others had them
		{sandbox.Nobody, []sandbox.Capability{chown, chroot}, ""},
	} {
		cmd := shell(script)
		cmd.User, cmd.Capabilities = tt.user, tt.given
		if got := say(t, c, cmd); got != tt.want {
			t.Errorf("%v with %v has %q, want %q", tt.user, tt.given, got, tt.want)
		}
	}
	cmd := shell("true")
	cmd.Capabilities = []sandbox.Capability{sandbox.FOwner} // init had it
	if res, err := c.Run(t.Context(), cmd); err == nil {
		t.Errorf("what the sandbox does not grant: %+v", res)
	}
	// Without the locked securebit root would have all that can be granted.
	weak := applyingRoot.granting("CHOWN", "SYS_CHROOT").without("dropping capabilities").open(t)
	if got := say(t, weak, shell(script)); !strings.HasPrefix(got, "CHOWN\n") {
		t.Errorf("against an init without the step: %q", got)
	}
	// An init that cannot give what it promises does not start.
	greedy := capableRoot
	greedy.grants = []string{"FOWNER"}
	if c, err := greedy.try(t); err == nil { // or it has ended already
		if res, err := c.Run(t.Context(), shell("true")); !errors.Is(err, ErrLost) {
			t.Errorf("an init that has too little: %+v, %v", res, err)
		}
	}
}

// TestApplyEndsWithItsReader checks that an error of the archive's reader is the
// caller's, however late, that the end of the context ends the call, and that
// init is of use afterwards.
func TestApplyEndsWithItsReader(t *testing.T) {
	c := applyingRoot.open(t)
	damaged := errors.New("the stored bytes are not those of the digest")
	whole := tartest.Pack(t, fileOf("srv/x", strings.Repeat("x", 100_000), 0o644))
	for name, r := range map[string]io.Reader{
		"at once":       iotest.ErrReader(damaged),
		"in the middle": io.MultiReader(bytes.NewReader(whole[:50_000]), iotest.ErrReader(damaged)),
		"at the end":    io.MultiReader(bytes.NewReader(whole), iotest.ErrReader(damaged)),
	} {
		if err := c.Apply(t.Context(), r); !errors.Is(err, damaged) {
			t.Errorf("%s: got %v, want the reader's error", name, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	go func() {
		_, _ = w.Write(whole[:2000])
		cancel(damaged)
	}()
	if err := c.Apply(ctx, r); !errors.Is(err, damaged) {
		t.Errorf("cancelled: got %v, want the cause", err)
	}
	var refused *ApplyError
	if err := c.Apply(t.Context(), bytes.NewReader(whole[:50_000])); err == nil || errors.As(err, &refused) {
		t.Errorf("half an archive: %v", err)
	}
	if err := c.Apply(t.Context(), bytes.NewReader(whole)); err != nil {
		t.Errorf("after all that: %v", err)
	}
	if got := say(t, c, shell("wc -c < /srv/x")); got != "100000\n" {
		t.Errorf("got %q", got)
	}
}

// TestApplyFillsTheDisk checks that a full disk is the archive's fault, and what
// the engine mounts is out of its reach.
func TestApplyFillsTheDisk(t *testing.T) {
	c := applyingRoot.open(t)
	many := make([]tar.Header, 20)
	for i := range many {
		many[i] = fileOf(fmt.Sprintf("small/many/%d", i), "", 0o644)
	}
	for name, tt := range map[string]struct {
		changes []tar.Header
		path    string
		errno   syscall.Errno
	}{
		"bytes":         {[]tar.Header{fileOf("small/big", strings.Repeat("x", 2<<20), 0o644)}, "small/big", unix.ENOSPC},
		"files":         {many, "small/many/", unix.ENOSPC},
		"a mount point": {[]tar.Header{deletionOf("small")}, "small", unix.EBUSY},
		"no mount":      {[]tar.Header{deletionOf("dev/shm")}, "dev/shm", unix.EPERM},
	} {
		var refused *ApplyError
		if err := c.Apply(t.Context(), bytes.NewReader(tartest.Pack(t, tt.changes...))); !errors.As(err, &refused) ||
			refused.Errno != tt.errno || !strings.HasPrefix(refused.Path, tt.path) {
			t.Errorf("%s: got %v", name, err)
		}
		if err := c.Apply(t.Context(), bytes.NewReader(tartest.Pack(t, deletionOf("small/big"), deletionOf("small/many")))); err != nil {
			t.Errorf("%s: making room: %v", name, err)
		}
	}
}
