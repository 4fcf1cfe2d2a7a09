package initproc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/sandbox/sandboxtest"
)

// TestMissing: the answer of a sandbox that says something else is an error.
func TestMissing(t *testing.T) {
	programs := map[string]sandboxtest.Program{"agent": nil}
	e := sandboxtest.New(sandboxtest.Config{Programs: programs})
	ask := func(argv ...string) (string, error) {
		return initproc.Missing(t.Context(), e, initproc.Lookup{Image: sandbox.Image{ID: "sha256:x"}, Argv: argv})
	}
	if name, err := ask("agent"); name != "" || err != nil {
		t.Errorf("it is there: %q, %v", name, err)
	}
	if name, err := ask("other"); name != "other" || err != nil {
		t.Errorf("it is not: %q, %v", name, err)
	}
	if name, err := ask("sh", "-lc", "agent"); name != "sh" || err != nil {
		t.Errorf("no shell: %q, %v", name, err)
	}
	programs["sh"] = func(_ context.Context, p *sandboxtest.Process) int {
		fmt.Fprintln(p.Stdout, "Welcome!\nabsent")
		return 0
	}
	if name, err := ask("sh", "-lc", "agent"); name != "agent" || err != nil {
		t.Errorf("after a profile that prints: %q, %v", name, err)
	}
	programs["sh"] = func(_ context.Context, p *sandboxtest.Process) int {
		fmt.Fprintln(p.Stderr, "exec /bin/sh: exec format error")
		return 1
	}
	if name, err := ask("sh", "-lc", "agent"); name != "" || !errors.Is(err, sandbox.ErrUnusable) || !strings.Contains(err.Error(), "for another machine") {
		t.Errorf("a shell of another machine: %q, %v", name, err)
	}
	programs["sh"] = func(_ context.Context, p *sandboxtest.Process) int {
		fmt.Fprintln(p.Stdout, "who knows")
		return 3
	}
	if name, err := ask("sh", "-lc", "agent"); name != "" || err == nil || !strings.Contains(err.Error(), "code 3") {
		t.Errorf("another answer: %q, %v", name, err)
	}
}
