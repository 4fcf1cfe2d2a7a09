package sandbox_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/pathname"
	"securebench/internal/sandbox"
)

// anyWorkspace is a workspace that is never used.
type anyWorkspace struct{ sandbox.Workspace }

func TestSpecCheck(t *testing.T) {
	good := func() sandbox.Spec {
		return sandbox.Spec{Image: sandbox.Image{ID: "sha256:x"}, Command: []string{"true"}, Workdir: "/data", Env: []string{"A=", "B=c=d"},
			Capabilities: []sandbox.Capability{sandbox.Kill},
			Mounts: []sandbox.Mount{{Workspace: anyWorkspace{}, Target: "/data"}, {Workspace: anyWorkspace{}, Target: "/data2", ReadOnly: true},
				{Workspace: anyWorkspace{}, Target: "/tmp/in"}}}
	}
	if err := good().Check(); err != nil {
		t.Errorf("a valid specification: %v", err)
	}
	alone := func() sandbox.Spec {
		return sandbox.Spec{Helper: []string{"sandbox-read"}, User: &sandbox.User{UID: 1, GID: 1}, Workdir: "/"}
	}
	if err := alone().Check(); err != nil {
		t.Errorf("the helper alone: %v", err)
	}
	for name, change := range map[string]func(*sandbox.Spec){
		"image":      func(s *sandbox.Spec) { s.Image.ID = "sha256:x" },
		"command":    func(s *sandbox.Spec) { s.Command = []string{"true"} },
		"init":       func(s *sandbox.Spec) { s.Init = true },
		"root":       func(s *sandbox.Spec) { s.WritableRoot = true },
		"no user":    func(s *sandbox.Spec) { s.User = nil },
		"home":       func(s *sandbox.Spec) { s.Home = "/home" },
		"files":      func(s *sandbox.Spec) { s.Mounts = good().Mounts },
		"capability": func(s *sandbox.Spec) { s.Capabilities = good().Capabilities },
		"tracing":    func(s *sandbox.Spec) { s.Tracing = true },
	} {
		spec := alone()
		change(&spec)
		if err := spec.Check(); err == nil || !strings.Contains(err.Error(), "the helper alone") {
			t.Errorf("the helper alone, %s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		change func(*sandbox.Spec)
		want   string
	}{
		"image":            {func(s *sandbox.Spec) { s.Image.ID = "" }, "image has no ID"},
		"no command":       {func(s *sandbox.Spec) { s.Command = nil }, "command is empty"},
		"empty command":    {func(s *sandbox.Spec) { s.Command = []string{""} }, "command is empty"},
		"NUL":              {func(s *sandbox.Spec) { s.Command = []string{"a\x00b"} }, "NUL"},
		"variable":         {func(s *sandbox.Spec) { s.Env = []string{"NOVALUE"} }, "not a NAME=VALUE pair"},
		"nameless":         {func(s *sandbox.Spec) { s.Env = []string{"=x"} }, "not a NAME=VALUE pair"},
		"user":             {func(s *sandbox.Spec) { s.User = &sandbox.User{GID: -1} }, "user 0:-1 is not valid"},
		"capability":       {func(s *sandbox.Spec) { s.Capabilities = []sandbox.Capability{"SYS_ADMIN"} }, `"SYS_ADMIN" is not granted`},
		"workdir":          {func(s *sandbox.Spec) { s.Workdir = "/proc/self/fd/8" }, "below /proc"},
		"no workspace":     {func(s *sandbox.Spec) { s.Mounts[0].Workspace = nil }, "needs a workspace or an overlay"},
		"root":             {func(s *sandbox.Spec) { s.Mounts[0].Target = "/" }, "must not be the root"},
		"root in disguise": {func(s *sandbox.Spec) { s.Mounts[0].Target = "//." }, "must not be the root"},
		"relative":         {func(s *sandbox.Spec) { s.Mounts[0].Target = "work" }, "not a plain absolute path"},
		"helper":           {func(s *sandbox.Spec) { s.Mounts[0].Target = sandbox.HelperPath }, "reserved"},
		"same":             {func(s *sandbox.Spec) { s.Mounts[1].Target = "/data/" }, "overlap"},
		"below":            {func(s *sandbox.Spec) { s.Mounts[2].Target = "/data/x" }, "overlap"},
		"above":            {func(s *sandbox.Spec) { s.Mounts[2].Target, s.Mounts[0].Target = "/a", "/a/b" }, "overlap"},
		"grants alone":     {func(s *sandbox.Spec) { s.Grants = s.Capabilities }, "needs the capability"},
		"foreign grant":    {func(s *sandbox.Spec) { s.Grants = []sandbox.Capability{sandbox.Chown} }, `"CHOWN" cannot be granted`},
		"granted SETPCAP": {func(s *sandbox.Spec) {
			s.Capabilities, s.Grants = []sandbox.Capability{sandbox.SetPCap}, []sandbox.Capability{sandbox.SetPCap}
		}, `"SETPCAP" cannot be granted`},
		"grants of no holder": {func(s *sandbox.Spec) {
			s.Init, s.Capabilities, s.Grants = true, []sandbox.Capability{sandbox.Chown, sandbox.SetUID}, []sandbox.Capability{sandbox.Chown}
		}, "needs the capability"},
	} {
		spec := good()
		c.change(&spec)
		if err := spec.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	spec := good()
	spec.Command, spec.Init = nil, true
	if err := spec.Check(); err != nil {
		t.Errorf("a first process without a command: %v", err)
	}
	spec.Capabilities, spec.Grants = append(sandbox.Grantable(), sandbox.SetPCap), []sandbox.Capability{sandbox.Chown}
	if err := spec.Check(); err != nil {
		t.Errorf("a grant: %v", err)
	}
	spec.Mounts[1].Target, spec.Mounts[0].ReadOnly = "/data/inner", true
	if err := spec.Check(); err != nil {
		t.Errorf("a read-only mount below another: %v", err)
	}
}

// TestMountsNeverOverlap checks that of the accepted mounts that a path belongs
// to only the outermost can be written, so that none hides what is written.
func TestMountsNeverOverlap(t *testing.T) {
	path := rapid.Custom(func(t *rapid.T) string {
		return "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", ".", ""}), 1, 4).Draw(t, "parts"), "/")
	})
	rapid.Check(t, func(t *rapid.T) {
		spec := sandbox.Spec{Image: sandbox.Image{ID: "x"}, Command: []string{"x"}}
		for _, p := range rapid.SliceOfN(path, 1, 4).Draw(t, "targets") {
			spec.Mounts = append(spec.Mounts, sandbox.Mount{Workspace: anyWorkspace{}, Target: p, ReadOnly: rapid.Bool().Draw(t, "read-only")})
		}
		if spec.Check() != nil {
			return
		}
		probe := path.Draw(t, "probe")
		for _, m := range spec.Mounts {
			for _, outer := range spec.Mounts {
				inner := pathname.Within(m.Target, outer.Target) && m != outer
				if inner && !m.ReadOnly && pathname.Within(probe, m.Target) {
					t.Fatalf("%q is in the writable mount %q, below another of %+v", probe, m.Target, spec.Mounts)
				}
			}
		}
	})
}

func TestDir(t *testing.T) {
	mounts := []sandbox.Mount{{Target: "/first"}, {Target: "/second"}}
	for want, spec := range map[string]sandbox.Spec{
		"/": {}, "/first": {Mounts: mounts}, "/own": {Mounts: mounts, Workdir: "/own"},
	} {
		if got := spec.Dir(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
