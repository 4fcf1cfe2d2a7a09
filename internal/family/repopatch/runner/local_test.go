package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"securebench/internal/sandbox"
)

// machine runs commands on the test machine: the code is this package's own.
type machine struct {
	t   testing.TB
	env []string // in place of an image's
}

func (m machine) run(c Command) Ran {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin = c.Dir, append(append([]string{}, m.env...), c.Env...), bytes.NewReader(c.Stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		m.t.Fatal(err)
	}
	code := cmd.ProcessState.ExitCode()
	if code < 0 {
		code = 137
	}
	return Ran{End: sandbox.Exited, ExitCode: code, Stdout: out.Bytes(), Stderr: errs.Bytes()}
}

// String is the grade without its restricted files.
func (g Grade) String() string {
	return fmt.Sprintf("%s/%s: %s %v", g.Outcome, g.Reason, g.Message, g.Metadata)
}

// write lays files into a folder.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// local is the machine with its own variables, for drivers that need the given
// Python modules.
func local(t testing.TB, modules string) machine {
	t.Helper()
	if testing.Short() {
		t.Skip("starts Python many times")
	}
	check := exec.CommandContext(t.Context(), "python3", "-c", "import "+modules)
	if out, err := check.CombinedOutput(); err != nil {
		t.Skipf("python3 of this machine has no %s: %v %s", modules, err, out)
	}
	return machine{t, []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1"}}
}

// plan probes and plans a run over a checkout.
func (m machine) plan(tests Tests, seed byte) *Plan {
	m.t.Helper()
	var found []byte
	if c, ok := Probe(tests); ok {
		ran := m.run(c)
		found = ran.Stdout
		if ran.ExitCode != 0 {
			m.t.Fatalf("probe: exit code %d: %s", ran.ExitCode, ran.Stderr)
		}
	}
	p, err := New(tests, found, [32]byte{seed})
	if err != nil {
		m.t.Fatal(err)
	}
	return p
}

// grade runs tests over a base and what a candidate changes in it.
func (m machine) grade(tests Tests, base, candidate map[string]string) Grade {
	m.t.Helper()
	tests.Dir = m.t.TempDir()
	write(m.t, tests.Dir, base)
	p := m.plan(tests, 1)
	write(m.t, tests.Dir, candidate)
	for name, text := range p.Files {
		write(m.t, tests.Dir, map[string]string{name: string(text)})
	}
	ran := m.run(p.Command)
	g := p.Grade(ran)
	if testing.Verbose() {
		m.t.Logf("exit code %d\n%s\n%s\n%s", ran.ExitCode, ran.Stderr, ran.Stdout, g.Restricted["test-results.json"])
	}
	return g
}

// pythonVersion is that of the machine's python3.
func pythonVersion(t testing.TB) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "python3", "-c", "import sys; print(sys.version)").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
