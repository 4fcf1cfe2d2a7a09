package machine

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/sandbox/sandboxtest"
)

// fake returns a program that is a shell script.
func fake(t *testing.T, script string) *program {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "fake")
	if err := sandboxtest.WriteProgram(path, []byte("#!/bin/sh\n"+script)); err != nil {
		t.Fatal(err)
	}
	return &program{path: path, dir: dir}
}

// TestRun: what a program says is a part of the error, escaped, and it has keys
// of its own.
func TestRun(t *testing.T) {
	p := fake(t, `case "$SECUREBENCH_KEYS" in "") exit 1;; esac; printf 'no\033[2J' >&2; exit "$1"`)
	if err := p.Run(t.Context(), "0"); err != nil {
		t.Error(err)
	}
	err := p.Run(t.Context(), "3")
	if err == nil || !strings.Contains(err.Error(), `exit status 3: no\x1b[2J`) {
		t.Errorf("got %q", err)
	}
}

// TestWatch: memory is read once the program is ready, and it is interrupted then.
func TestWatch(t *testing.T) {
	p := fake(t, `trap 'exit 130' INT; echo one >&2; echo two >&2; while :; do sleep 0.01; done`)
	two := func(line []byte) bool { return bytes.Equal(line, []byte("two\n")) }
	resident, peak, err := p.Watch(t.Context(), two, "run")
	if err != nil || resident < 1<<10 || peak < resident {
		t.Errorf("got %d and %d, %v", resident, peak, err)
	}
	_, _, err = fake(t, `echo one >&2; exit 12`).Watch(t.Context(), two, "run")
	if err == nil || !strings.Contains(err.Error(), "exit status 12") || !strings.Contains(err.Error(), "one") {
		t.Errorf("a program that ends early: %v", err)
	}
	if _, _, err = fake(t, `trap 'exit 5' INT; echo two >&2; while :; do sleep 0.01; done`).Watch(t.Context(), two, "run"); err == nil {
		t.Error("a program that does not end well after an interruption is no error")
	}
	ctx, stop := context.WithCancel(t.Context())
	if _, _, err = p.Watch(ctx, func([]byte) bool { stop(); return false }, "run"); !errors.Is(err, context.Canceled) {
		t.Errorf("an interruption: %v", err)
	}
}
