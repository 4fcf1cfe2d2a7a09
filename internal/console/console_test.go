package console_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"securebench/internal/awaittest"
	"securebench/internal/console"
	"securebench/internal/fault"
)

// TestErrorLines: only securebench starts lines of an error; a line break in a
// name does not one of them.
func TestErrorLines(t *testing.T) {
	lie := "a\nsecurebench: error: b\x1b[2J"
	missing := &fs.PathError{Op: "openat", Path: lie, Err: syscall.ENOENT}
	joined := errors.Join(errors.New("one"), fmt.Errorf("two: %w", missing))
	for _, c := range []struct {
		err  error
		want []string
	}{
		{errors.New(lie), []string{`a\x0asecurebench: error: b\x1b[2J`}},
		{missing, []string{`a\x0asecurebench: error: b\x1b[2J: no such file or directory`}},
		{joined, []string{"one", `two: a\x0asecurebench: error: b\x1b[2J: no such file or directory`}},
		{fault.As(fault.Pack, fmt.Errorf("three %s: %w (do)", "\n", joined)),
			[]string{`three \x0a: one`, `two: a\x0asecurebench: error: b\x1b[2J: no such file or directory (do)`}},
		{fmt.Errorf("%w: %w", errors.New("four"), joined), []string{"four: one", `two: a\x0asecurebench: error: b\x1b[2J: no such file or directory`}},
		{errors.Join(joined, errors.New(lie)), []string{"one", `two: a\x0asecurebench: error: b\x1b[2J: no such file or directory`, `a\x0asecurebench: error: b\x1b[2J`}},
	} {
		if got := console.ErrorLines(c.err); strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("%q:\n%q, want\n%q", c.err, got, c.want)
		}
	}
}

// TestManyErrors: the lines of very many errors take time that grows with their
// number.
func TestManyErrors(t *testing.T) {
	errs := make([]error, 200_000)
	for i := range errs {
		errs[i] = errors.New("a")
	}
	if got := console.ErrorLines(fault.As(fault.Pack, errors.Join(errs...))); len(got) != len(errs) {
		t.Errorf("%d lines", len(got))
	}
}

// TestStreamGivesUp: a pipe without a reader blocks a write only until the
// operator wants to stop.
func TestStreamGivesUp(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	stuck := make(chan struct{})
	s := &console.Stream{Name: "standard error", W: w, Gone: func() {}, GiveUp: stuck}
	done := make(chan error, 1)
	go func() { _, err := s.Write(bytes.Repeat([]byte("x"), 1<<20)); done <- err }()
	select {
	case err := <-done:
		t.Fatalf("a full pipe took it: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(stuck)
	select {
	case err := <-done:
		if !errors.Is(err, console.ErrNoReader) {
			t.Error(err)
		}
	case <-time.After(awaittest.Hung):
		t.Fatal("it waits")
	}
	if err := s.Failed(); err == nil || err.Error() != "standard error could not be written: it is not being read" {
		t.Error(err)
	}
}

// slowWriter is a reader that takes its time.
type slowWriter struct{ bytes.Buffer }

func (w *slowWriter) Write(p []byte) (int, error) {
	time.Sleep(5 * time.Millisecond)
	return w.Buffer.Write(p)
}

// TestStreamReachesReaders: what is printed after the operator wants to stop
// reaches whoever reads.
func TestStreamReachesReaders(t *testing.T) {
	stuck := make(chan struct{})
	close(stuck)
	w := &slowWriter{}
	s := &console.Stream{Name: "standard error", W: w, Gone: func() {}, GiveUp: stuck}
	want := ""
	for i := range 20 {
		line := fmt.Sprintf("resume %d\n", i)
		want += line
		if _, err := s.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.String(); got != want {
		t.Errorf("%q was printed, want %q", got, want)
	}
}

// TestUncoloured: what colours a text or moves a cursor is gone, and nothing else.
func TestUncoloured(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\ttext\n":                            "plain\ttext\n",
		"\x1b[1;31mred\x1b[0m and \x1b[2Jmore":     "red and more",
		"\x1b]0;title\x07rest":                     "rest",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
		"10 %\r20 %\r\n30 %":                       "10 %\n20 %\n30 %",
		"übermäßig 日本":                             "übermäßig 日本",
	} {
		if got := console.Uncoloured(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
