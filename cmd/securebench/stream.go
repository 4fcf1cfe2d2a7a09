package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"securebench/internal/redact"
	"securebench/internal/source"
)

// errNobodyReads ends a write to a pipe that is open, full and not read.
var errNobodyReads = errors.New("nobody reads it")

// stream is standard output or standard error. It remembers the first write
// that failed, since most of what is printed has nobody to look at an error.
type stream struct {
	name string
	w    io.Writer
	// gone is called when the reader has closed its end.
	gone func()
	// giveUp, once it is closed, ends a write that waits for its reader.
	giveUp <-chan struct{}

	mu  sync.Mutex
	err error
}

// Write writes all of p, or fails as every later write will.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		if err := s.write(bytes.Clone(p)); err != nil {
			s.err = &writeError{s.name, err}
		}
	}
	if s.err != nil {
		return 0, s.err
	}
	return len(p), nil
}

// write waits for its reader until it is told to give up; then nothing else
// uses p.
func (s *stream) write(p []byte) error {
	done := make(chan error, 1)
	go func() { _, err := s.w.Write(p); done <- err }()
	select {
	case err := <-done:
		if errors.Is(err, syscall.EPIPE) {
			s.gone()
		}
		if pe := (*os.PathError)(nil); errors.As(err, &pe) {
			err = pe.Err
		}
		return err
	case <-s.giveUp:
		return errNobodyReads
	}
}

// failed returns the first error of writing, or nil.
func (s *stream) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// writeError is a failed write to a stream, in words.
type writeError struct {
	stream string
	cause  error
}

func (e *writeError) Error() string {
	if errors.Is(e.cause, syscall.EPIPE) {
		return e.stream + " was closed before all of it was written"
	}
	return fmt.Sprintf("%s could not be written: %v", e.stream, e.cause)
}

func (e *writeError) Unwrap() error { return e.cause }

// file is the file below, if there is one.
func (s *stream) file() (*os.File, bool) {
	f, ok := s.w.(*os.File)
	return f, ok
}

// errorLines splits the message of an error where errors were joined. Any
// other line break in it came with a name from outside, and must not begin a
// line of ours.
func errorLines(err error) []string {
	var inner []error
	switch e := err.(type) { //nolint:errorlint // this walks the tree
	case *os.PathError, *os.LinkError: // their parts are a name and a cause
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	}
	msg := err.Error()
	out, rest := []string{""}, msg
	add := func(lines ...string) {
		out[len(out)-1] += lines[0]
		out = append(out, lines[1:]...)
	}
	for _, e := range inner {
		if e == nil {
			continue
		}
		before, after, ok := strings.Cut(rest, e.Error())
		if !ok {
			continue
		}
		if before == "\n" && len(inner) > 1 { // as errors.Join puts them together
			out, before = append(out, ""), ""
		}
		add(oneLine(before, err))
		add(errorLines(e)...)
		rest = after
	}
	add(oneLine(rest, err))
	return out
}

// oneLine makes a part of an error's message one line for a terminal.
func oneLine(text string, err error) string { return redact.Escape(source.Reword(text, err)) }
