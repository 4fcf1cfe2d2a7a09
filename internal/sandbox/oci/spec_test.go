package oci_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/oci"
)

var update = flag.Bool("update", false, "write the golden files")

// boxes are a plain box, and one that has all that a box can have.
func boxes() map[string]oci.Box {
	plain := oci.Box{
		Root: "/private/1/root", ReadOnly: true, Args: []string{"python3", "-I", "driver.py"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/workspace",
		User: sandbox.Nobody, Limits: sandbox.Limits{}.WithDefaults(), Memory: 1280 << 20, Cgroup: "/securebench/owner/box", Hostname: "sandbox",
		Mounts: []oci.Mount{
			{Target: "/workspace", Source: "/private/1/workspace"},
			{Target: "/tmp", Size: 256 << 20, Inodes: 65536, Mode: os.ModeSticky | 0o777},
		},
	}
	full := plain
	full.Args, full.Dir, full.ReadOnly, full.Hostname = []string{"/.securebench/helper", "sandbox-init"}, "/", false, ""
	full.User = sandbox.User{}
	full.Capabilities = []sandbox.Capability{sandbox.SetUID, sandbox.Chown, sandbox.SysChroot}
	full.IDBase, full.IDSize, full.Peer, full.Tracing = 1_000_000, 65536, 4711, true
	full.Limits.CPUs = 0.001
	full.Mounts = []oci.Mount{
		{Target: "/workspace/sub", Source: "/private/1/overlay", ReadOnly: true},
		{Target: "/workspace/", Source: "/private/1/workspace"},
		{Target: "/home/agent", Size: 1 << 20, Inodes: 10, Mode: 0o700, User: sandbox.User{UID: 7, GID: 8}},
	}
	return map[string]oci.Box{"plain": plain, "full": full}
}

// TestSpec compares whole specifications with golden files, so that every change of
// the hardening is seen. The architectures and limits of single processes are the
// machine's, and the list of system calls has tests of its own.
func TestSpec(t *testing.T) {
	for name, box := range boxes() {
		spec, err := box.Spec()
		if err != nil {
			t.Fatal(err)
		}
		spec.Process.Rlimits, spec.Linux.Seccomp.Architectures, spec.Linux.Seccomp.Syscalls = nil, nil, nil
		text, err := oci.Encode(spec)
		if err != nil {
			t.Fatal(err)
		}
		got := jsontext.Value(text)
		if err := got.Indent(jsontext.WithIndent("  ")); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+".json")
		if *update {
			if err := os.WriteFile(golden, append(got, '\n'), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bytes.TrimSpace(want), got) {
			t.Errorf("%s: the specification is not that of %s (-update writes it):\n%s", name, golden, got)
		}
	}
}

func TestRlimits(t *testing.T) {
	spec, err := boxes()["plain"].Spec()
	if err != nil {
		t.Fatal(err)
	}
	limits := map[string]specs.POSIXRlimit{}
	for _, l := range spec.Process.Rlimits {
		limits[l.Type] = l
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	want := min(65536, files.Max)
	if core := limits["RLIMIT_CORE"]; core.Type == "" || core.Soft != 0 || core.Hard != 0 {
		t.Errorf("core files: %+v", core)
	}
	if l := limits["RLIMIT_NOFILE"]; l.Soft != want || l.Hard != want {
		t.Errorf("open files: %+v, want %d", l, want)
	}
}

func TestSeccomp(t *testing.T) {
	allowed := func(change func(*oci.Box)) map[string]bool {
		box := boxes()["plain"]
		change(&box)
		spec, err := box.Spec()
		if err != nil {
			t.Fatal(err)
		}
		p := spec.Linux.Seccomp
		if p.DefaultAction != specs.ActErrno || p.DefaultErrnoRet == nil || *p.DefaultErrnoRet != uint(unix.EPERM) {
			t.Errorf("the default is %s", p.DefaultAction)
		}
		if len(p.Architectures) == 0 {
			t.Error("the profile is for no architecture")
		}
		calls := map[string]bool{}
		for _, rule := range p.Syscalls {
			for _, name := range rule.Names {
				calls[name] = calls[name] || rule.Action == specs.ActAllow
			}
		}
		return calls
	}
	plain := allowed(func(*oci.Box) {})
	tracing := allowed(func(b *oci.Box) { b.Tracing = true })
	chroot := allowed(func(b *oci.Box) { b.Capabilities = []sandbox.Capability{sandbox.SysChroot} })
	for _, c := range []struct {
		call                   string
		plain, tracing, chroot bool
	}{
		{"read", true, true, true},
		{"ptrace", false, true, false},
		{"chroot", false, false, true},
		{"mount", false, false, false},
		{"keyctl", false, false, false},
		{"clone3", false, false, false},
		{"socket", true, true, true},
	} {
		if plain[c.call] != c.plain || tracing[c.call] != c.tracing || chroot[c.call] != c.chroot {
			t.Errorf("%s: allowed %v, with tracing %v, with chroot %v", c.call, plain[c.call], tracing[c.call], chroot[c.call])
		}
	}
}

func TestSpecRefuses(t *testing.T) {
	for name, change := range map[string]func(*oci.Box){
		"the host's root":          func(b *oci.Box) { b.Root = "/" },
		"a root by a relative way": func(b *oci.Box) { b.Root = "root" },
		"no command":               func(b *oci.Box) { b.Args = nil },
		"no group":                 func(b *oci.Box) { b.Cgroup = "" },
		"endless memory":           func(b *oci.Box) { b.Memory = 0 },
		"endless processes":        func(b *oci.Box) { b.Limits.Pids = -1 },
		"endless CPUs":             func(b *oci.Box) { b.Limits.CPUs = 0 },
		"a negative user":          func(b *oci.Box) { b.User.UID = -1 },
		"a user without mapping":   func(b *oci.Box) { b.IDBase, b.IDSize = 1_000_000, 65534 },
		"a mapping to root":        func(b *oci.Box) { b.IDSize = 65536 },
		"a mount over the root":    func(b *oci.Box) { b.Mounts[0].Target = "/." },
		"a relative source":        func(b *oci.Box) { b.Mounts[0].Source = "workspace" },
		"an endless tmpfs":         func(b *oci.Box) { b.Mounts[1].Size = 0 },
		"a tmpfs of endless files": func(b *oci.Box) { b.Mounts[1].Inodes = 0 },
		"a hidden system folder":   func(b *oci.Box) { b.Mounts[0].Target = "/proc/sys" },
		"a device folder":          func(b *oci.Box) { b.Mounts[0].Target = "/dev" },
	} {
		box := boxes()["plain"]
		box.Mounts = slices.Clone(box.Mounts)
		change(&box)
		if spec, err := box.Spec(); err == nil {
			t.Errorf("%s: it was specified: %+v", name, spec)
		}
	}
}

func TestEncodeKeepsZeros(t *testing.T) {
	spec, err := boxes()["plain"].Spec()
	if err != nil {
		t.Fatal(err)
	}
	text, err := oci.Encode(spec)
	if err != nil {
		t.Fatal(err)
	}
	// Left out, each of these would mean something else.
	for _, part := range []string{`"capabilities":{}`, `"noNewPrivileges":true`, `"allow":false`, `"uid":65534`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("config.json has no %s", part)
		}
	}
}
