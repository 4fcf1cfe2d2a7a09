package require_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/native/require"
	"securebench/internal/sandbox/sandboxtest"
)

// config is that of a machine on which the engine runs.
func config(t *testing.T) require.Config {
	t.Helper()
	if os.Getenv("SECUREBENCH_TEST_NATIVE") == "never" {
		t.Skip("SECUREBENCH_TEST_NATIVE=never")
	}
	dir, err := os.MkdirTemp("/tmp", "sb-require-") // every folder above is passable for mapped users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // see above
		t.Fatal(err)
	}
	return require.Config{Images: filepath.Join(dir, "images"), Helper: enginetest.Helper(t), Dir: filepath.Join(dir, "run"),
		Group: fmt.Sprintf("securebench-test-%d/check", os.Getpid()), IDBase: 1_000_000, IDSize: 65536, Getenv: os.Getenv}
}

// named returns a requirement.
func named(t *testing.T, all []sandbox.Requirement, name string) sandbox.Requirement {
	t.Helper()
	i := slices.IndexFunc(all, func(r sandbox.Requirement) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("no requirement %q among %+v", name, all)
	}
	return all[i]
}

func TestCheck(t *testing.T) {
	cfg := config(t)
	all := require.Check(t.Context(), cfg)
	for _, r := range all {
		t.Logf("%v %s: %s %s", r.Holds, r.Name, r.Found, r.Fix)
		if r.Holds == (r.Fix != "") {
			t.Errorf("%s holds: %v, and its fix is %q", r.Name, r.Holds, r.Fix)
		}
		if r.Found == "" || strings.Contains(r.Found, "\n") {
			t.Errorf("%s: found %q", r.Name, r.Found)
		}
	}
	nothingLeft(t, cfg)
	complete(t, all)
}

// complete skips a test on a machine that lacks something.
func complete(t *testing.T, all []sandbox.Requirement) {
	t.Helper()
	var lacks []string
	for _, r := range all {
		if !r.Holds && !r.Optional {
			lacks = append(lacks, r.Name+": "+r.Found)
		}
	}
	switch {
	case len(lacks) == 0:
	case os.Getenv("SECUREBENCH_TEST_NATIVE") == "require":
		t.Fatalf("this machine lacks %s", lacks)
	default:
		t.Skipf("this machine lacks %s", lacks)
	}
}

// nothingLeft looks for what a check may leave.
func nothingLeft(t *testing.T, cfg require.Config) {
	t.Helper()
	for _, dir := range []string{cfg.Dir, filepath.Join(cfg.Images, "unfinished")} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) || len(entries) > 0 {
			t.Errorf("%s has %v, %v", dir, entries, err)
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		if groups, _ := filepath.Glob(pattern + cfg.Group); len(groups) > 0 {
			t.Errorf("the control groups %v are left", groups)
		}
		parents, _ := filepath.Glob(pattern + filepath.Dir(cfg.Group))
		for _, dir := range parents {
			_ = unix.Rmdir(dir) // of this test
		}
	}
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid > 0 {
		t.Errorf("process %d is left, %v", pid, err)
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(text), cfg.Dir) {
		t.Errorf("a mount is left, %v", err)
	}
}

// TestLacking takes away what the engine needs, one thing after the other.
func TestLacking(t *testing.T) {
	complete(t, require.Check(t.Context(), config(t)))
	script := func(text string) func(*testing.T, *require.Config) {
		return func(t *testing.T, cfg *require.Config) {
			cfg.Runtime = filepath.Join(t.TempDir(), "runtime")
			if err := sandboxtest.WriteProgram(cfg.Runtime, []byte("#!/bin/sh\n"+text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*testing.T, *require.Config)
		lacks  string
		found  string
	}{
		"no helper":               {func(_ *testing.T, cfg *require.Config) { cfg.Helper = "" }, require.Helper, "none"},
		"a helper that cannot":    {func(_ *testing.T, cfg *require.Config) { cfg.Helper = "/etc" }, require.Helper, "not a program"},
		"a helper with libraries": {func(_ *testing.T, cfg *require.Config) { cfg.Helper = "/bin/sh" }, require.Helper, "CGO_ENABLED=0"},
		"no runtime":              {func(_ *testing.T, cfg *require.Config) { cfg.Runtime = "/no/such/runtime" }, require.Runtime, "not installed"},
		"something else":          {script("echo something else"), require.Runtime, "not runc"},
		"a runtime that fails":    {script(`case "$1" in --version) echo runc version 9;; *) exit 1;; esac`), require.Sandbox, "no reason"},
		"a store without a place": {func(_ *testing.T, cfg *require.Config) { cfg.Images = "/proc/images" }, require.Store, "/proc"},
		"a place that is nowhere": {func(_ *testing.T, cfg *require.Config) { cfg.Dir = "/proc/run" }, require.Mounts, "/proc"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t)
			c.change(t, &cfg)
			all := require.Check(t.Context(), cfg)
			r := named(t, all, c.lacks)
			if r.Holds || !strings.Contains(r.Found, c.found) || r.Fix == "" {
				t.Errorf("%+v", r)
			}
			if s := named(t, all, require.Filter); s.Holds {
				t.Errorf("what cannot be known holds: %+v", s)
			}
			nothingLeft(t, cfg)
		})
	}
}

// TestCommandEnds: a command that cannot be started is noticed at once.
func TestCommandEnds(t *testing.T) {
	complete(t, require.Check(t.Context(), config(t)))
	for _, runtime := range []string{"runc", "crun"} {
		t.Run(runtime, func(t *testing.T) {
			if _, err := exec.LookPath(runtime); err != nil {
				t.Skip(err)
			}
			cfg := config(t)
			cfg.Runtime, cfg.Helper = runtime, foreignHelper(t, cfg.Helper)
			all := require.Check(t.Context(), cfg)
			if r := named(t, all, require.Sandbox); r.Holds || !strings.Contains(r.Found, "ended at once") {
				t.Errorf("%+v", r)
			}
			nothingLeft(t, cfg)
		})
	}
}

// foreignHelper copies a program as one for a processor that does not exist.
func foreignHelper(t *testing.T, helper string) string {
	t.Helper()
	program, err := os.ReadFile(helper)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint16(program[18:], 0xfff0) // e_machine
	file := filepath.Join(t.TempDir(), "helper")
	if err := sandboxtest.WriteProgram(file, program); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestUnconfined has a runtime that leaves out a part of the confinement, which only
// trying it shows.
func TestUnconfined(t *testing.T) {
	complete(t, require.Check(t.Context(), config(t)))
	for name, c := range map[string]struct{ edit, lacks string }{
		"no filter":                 {`s/"seccomp":/"nothing":/`, require.Filter},
		"new privileges":            {`s/"noNewPrivileges":true/"noNewPrivileges":false/`, require.Privileges},
		"capabilities":              {`s/"capabilities":{}/"capabilities":{"bounding":["CAP_SYS_ADMIN"]}/`, require.Privileges},
		"endless memory":            {`s/"memory":{[^}]*},//`, require.Limits},
		"endless processes":         {`s/,"pids":{[^}]*}//`, require.Limits},
		"all processors":            {`s/"cpu":{[^}]*},//`, require.Limits},
		"the host's control groups": {`s/{"type":"cgroup"},//`, require.Namespaces},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t)
			cfg.Runtime = weakRuntime(t, c.edit)
			all := require.Check(t.Context(), cfg)
			if r := named(t, all, c.lacks); r.Holds || r.Fix == "" {
				t.Errorf("%+v", all)
			}
			nothingLeft(t, cfg)
		})
	}
}

// weakRuntime is runc behind a script that edits the specification.
func weakRuntime(t *testing.T, edit string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "runtime")
	text := fmt.Sprintf(`#!/bin/sh
for a; do
	test "$previous" = --bundle && { sed -i '%s' "$a/config.json" || exit 1; }
	previous=$a
done
exec runc "$@"
`, edit)
	if err := sandboxtest.WriteProgram(file, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return file
}
