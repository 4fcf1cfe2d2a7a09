package contract

import (
	"archive/tar"
	"bytes"
	"context"
	"strings"
	"testing"

	"securebench/internal/sandbox"
)

// probeCapabilityUse tries, each in a process of its own, what root can do only
// with a capability, and prints the names of those that worked. The workspace
// belongs to another user. Binding a low port is missing: engines allow it to
// everybody in a network namespace of its own.
const probeCapabilityUse = `
import os, signal, time

def other():
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setuid(1)
        os.write(w, b"x")
        time.sleep(600)
    os.close(w)
    assert os.read(r, 1) # that is, it has become somebody else
    os.kill(pid, signal.SIGKILL)

def setgid_bit():
    os.chmod("/workspace/other", 0o2750)
    assert os.stat("/workspace/other").st_mode & 0o2000

for name, use in {
    "CHOWN": lambda: os.chown("/workspace/mine", 1, 1),
    "DAC_OVERRIDE": lambda: open("/workspace/other").read(),
    "FOWNER": lambda: os.utime("/workspace/other", (1, 1)),
    "FSETID": setgid_bit,
    "SETUID": lambda: os.setuid(1),
    "SETGID": lambda: os.setgid(1),
    "KILL": other,
    "SYS_CHROOT": lambda: os.chroot("/tmp"),
}.items():
    pid = os.fork()
    if pid == 0:
        try:
            use()
        except BaseException:
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1] == 0:
        print(name)
`

// privileges checks that capabilities have their effect where they are granted
// and that root can do nothing of the kind where they are not.
func (s *suite) privileges(t *testing.T) {
	const all = "CHOWN DAC_OVERRIDE FOWNER FSETID SETUID SETGID KILL SYS_CHROOT"
	for name, c := range map[string]struct {
		granted []sandbox.Capability
		want    string
	}{
		"none": {nil, ""},
		"all":  {sandbox.Grantable(), all},
		// Killing needs a process of another user, and the set-group-ID bit a
		// file of another user, so each of the two needs a second capability.
		"some": {[]sandbox.Capability{sandbox.SetUID, sandbox.FOwner}, "FOWNER SETUID"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := s.engine.Workspace(t.Context(), sandbox.WorkspaceSpec{Owner: sandbox.Nobody, Disk: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = w.Close(context.Background()) })
			if err := w.Put(t.Context(), privateFiles(t)); err != nil {
				t.Fatal(err)
			}
			spec := s.python(probeCapabilityUse)
			spec.User, spec.Capabilities = &sandbox.User{}, c.granted
			spec.Mounts = []sandbox.Mount{{Workspace: w, Target: "/workspace"}}
			if got := s.run(t, spec); strings.Join(strings.Fields(got.stdout), " ") != c.want {
				t.Errorf("root with %v can use %q, want %q\n%s", c.granted, got.stdout, c.want, got.stderr)
			}
		})
	}
}

// privateFiles is an archive of a file of root's and one of another user's.
func privateFiles(t *testing.T) *bytes.Buffer {
	t.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for name, uid := range map[string]int{"mine": 0, "other": sandbox.Nobody.UID} {
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Uid: uid, Gid: uid}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return &buf
}
