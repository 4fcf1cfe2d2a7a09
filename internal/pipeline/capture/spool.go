package capture

import (
	"bytes"
	"io"
	"os"

	"securebench/internal/candidate"
	"securebench/internal/verdict"
)

// spoolMemory is how much of a spool is kept in memory, in bytes.
const spoolMemory = 1 << 20

// A spool keeps content that is needed twice, much of it on disk.
type spool struct {
	limit   int64 // bytes; more are a [candidate.Rejection]
	n       int64
	buf     bytes.Buffer
	f       *os.File // without a name; nil if it was never needed
	spilled bool     // the content is in the file
}

func (s *spool) Write(p []byte) (int, error) {
	if int64(len(p)) > s.limit-s.n { // what replaces a secret can be longer
		return 0, candidate.Reject(verdict.CandidateTooLarge, "the tree has more than %d bytes without its secrets", s.limit)
	}
	s.n += int64(len(p))
	if !s.spilled && s.n <= spoolMemory {
		return s.buf.Write(p)
	}
	if !s.spilled {
		if err := s.spill(); err != nil {
			return 0, err
		}
	}
	return s.f.Write(p)
}

// spill moves the content to the file.
func (s *spool) spill() error {
	s.spilled = true
	if s.f == nil {
		f, err := os.CreateTemp("", "securebench-")
		if err != nil {
			return err
		}
		s.f = f
		if err := os.Remove(f.Name()); err != nil { // it exists as long as it is open
			return err
		}
	}
	_, err := s.buf.WriteTo(s.f)
	return err
}

// section reads a part of the content.
func (s *spool) section(at, size int64) io.Reader {
	if s.spilled {
		return io.NewSectionReader(s.f, at, size)
	}
	return bytes.NewReader(s.buf.Bytes()[at : at+size])
}

// reset makes the spool empty.
func (s *spool) reset() error {
	s.n, s.spilled = 0, false
	s.buf.Reset()
	if s.f == nil {
		return nil
	}
	if err := s.f.Truncate(0); err != nil {
		return err
	}
	_, err := s.f.Seek(0, io.SeekStart)
	return err
}

func (s *spool) close() {
	if s.f != nil {
		_ = s.f.Close() // its name is already removed
	}
}
