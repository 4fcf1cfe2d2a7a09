package contract

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"

	"securebench/internal/sandbox"
)

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
			w := s.make(t, sandbox.WorkspaceSpec{Owner: sandbox.Nobody, Disk: 1 << 20})
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
