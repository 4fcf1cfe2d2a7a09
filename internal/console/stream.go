// Package console prints output for the operator: streams that remember write
// errors, errors as separate lines, and quoted shell words.
package console

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"securebench/internal/fault"
)

// lastChance is how long a write waits for its reader after GiveUp: long
// enough for one that reads, for example for the command that resumes a run.
const lastChance = 200 * time.Millisecond

// ErrNoReader ends a write to a pipe that is open, full and not read.
var ErrNoReader = errors.New("it is not being read")

// Stream is standard output or standard error. It remembers the first write
// that failed, since most callers do not check for an error.
type Stream struct {
	Name string
	W    io.Writer
	// Gone is called when the reader has closed its end.
	Gone func()
	// GiveUp, once it is closed, soon ends a write that waits for its reader.
	GiveUp <-chan struct{}
	// Size measures the terminal behind W; it is nil if there is none.
	Size func() (columns, rows int)

	mu  sync.Mutex
	err error
}

// Write writes all of p. After an error, every later write also fails.
func (s *Stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		if err := s.write(bytes.Clone(p)); err != nil {
			s.err = fault.As(fault.Internal, &writeError{s.Name, err})
		}
	}
	if s.err != nil {
		return 0, s.err
	}
	return len(p), nil
}

// write waits for the reader until GiveUp is closed; it owns p.
func (s *Stream) write(p []byte) error {
	done := make(chan error, 1)
	go func() { _, err := s.W.Write(p); done <- err }()
	var err error
	select {
	case err = <-done:
	case <-s.GiveUp:
		select {
		case err = <-done:
		case <-time.After(lastChance):
			return ErrNoReader
		}
	}
	if errors.Is(err, syscall.EPIPE) {
		s.Gone()
	}
	if pe := (*os.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	return err
}

// Failed returns the first write error, or nil.
func (s *Stream) Failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// writeError describes a failed write to a stream.
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

// File returns the underlying file, if there is one.
func (s *Stream) File() (*os.File, bool) {
	f, ok := s.W.(*os.File)
	return f, ok
}

// Columns returns how many columns the terminal of the stream has, 0 if there is none.
func (s *Stream) Columns() int {
	if s.Size == nil {
		return 0
	}
	columns, _ := s.Size()
	return columns
}
