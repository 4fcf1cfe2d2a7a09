package capture

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"securebench/internal/candidate"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/holder"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// errStopped ends a stream whose reader is done.
var errStopped = errors.New("the tree is not read to its end")

// tree streams a folder of the workspace into the sink. Three parts run side by
// side: the workspace writes its archive, the converter makes it canonical,
// and the sink stores it.
func (j job) tree(ctx context.Context) (candidate.Candidate, error) {
	folder := j.Extraction.Path
	if folder == "" {
		folder = "."
	}
	archive, in := io.Pipe()
	canonical, out := io.Pipe()
	got, made := make(chan error, 1), make(chan error, 1)
	go func() {
		err := j.space.Get(ctx, folder, j.Tree.ArchiveSize(), in)
		_ = in.CloseWithError(err) // it never fails
		got <- err
	}()
	c := &converter{job: j, prefix: strings.TrimPrefix(folder+"/", "./")}
	go func() {
		err := c.convert(archive, out)
		_ = out.CloseWithError(err)
		_, _ = io.Copy(io.Discard, archive) // the workspace stays usable
		made <- err
	}()
	cand, err := j.Sink.Put(task.Workspace, candidate.File, canonical)
	_ = canonical.CloseWithError(errStopped)
	convertErr, getErr := <-made, <-got
	switch {
	case errors.Is(getErr, sandbox.ErrTooLarge):
		return cand, candidate.Reject(verdict.CandidateTooLarge, "the tree has more than %d bytes or %d files", j.Tree.Bytes, j.Tree.Files)
	case getErr != nil:
		return cand, fmt.Errorf("reading the tree from the workspace: %w", getErr)
	case convertErr != nil && !errors.Is(convertErr, errStopped):
		return cand, convertErr
	}
	cand.Redacted = c.redacted
	return cand, err
}

// converter makes the archive of a workspace canonical.
type converter struct {
	job
	prefix   string // of the captured folder
	redacted bool
}

func (c *converter) convert(archive io.Reader, w io.Writer) error {
	tr, tw := tar.NewReader(archive), candidate.NewTreeWriter(w, c.Tree)
	entries := 0
	for ; ; entries++ {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the workspace's archive: %w", err)
		}
		if h.Name+"/" == c.prefix || h.Name == c.prefix {
			if h.Typeflag != tar.TypeDir {
				return candidate.Reject(verdict.CandidateNotRegular, "%s is %s, not a folder", c.Extraction.Path, typeName(h))
			}
			continue
		}
		if err := c.entry(tw, h, tr); err != nil {
			return err
		}
	}
	if entries == 0 {
		return candidate.Reject(verdict.CandidateMissing, "the agent left no files")
	}
	_, err := tw.Close()
	return err
}

// entry adds one entry, without the secrets in its content. A file with
// several names in the workspace becomes one file per name.
func (c *converter) entry(tw *candidate.TreeWriter, h *tar.Header, content io.Reader) error {
	// Before anything else, since what is refused is named.
	for _, name := range []string{h.Name, h.Linkname} {
		if !bytes.Equal(c.Secrets.Bytes([]byte(name)), []byte(name)) {
			return candidate.Reject(verdict.CandidateNotRegular, "a name in the tree contains a secret of the operator")
		}
	}
	if h.PAXRecords[holder.RecordType] != "" {
		return candidate.Reject(verdict.CandidateNotRegular, "tree entry %.80q is %s", h.Name, typeName(h))
	}
	e, err := candidate.ForeignEntry(h, holder.RecordLinks)
	if err != nil {
		return err
	}
	e.Path = strings.TrimPrefix(e.Path, c.prefix)
	if c.Secrets.Empty() {
		return tw.Add(e, content)
	}
	if e.Size > c.Tree.Bytes {
		return tw.Add(e, content) // which refuses it
	}
	s := &spool{limit: c.Tree.Bytes}
	defer s.close()
	if err := c.redact(s, &e, content); err != nil {
		return fmt.Errorf("redacting the tree: %w", err)
	}
	r, err := s.reader()
	if err != nil {
		return fmt.Errorf("redacting the tree: %w", err)
	}
	return tw.Add(e, r)
}

// redact copies a file to the spool without its secrets: its new size has to
// be known before it is written.
func (c *converter) redact(s *spool, e *candidate.Entry, content io.Reader) error {
	if !e.Mode.IsRegular() {
		return nil
	}
	before, after := sha256.New(), sha256.New()
	w := c.Secrets.Writer(io.MultiWriter(s, after))
	if _, err := io.Copy(w, io.TeeReader(content, before)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	e.Size = s.n
	c.redacted = c.redacted || !bytes.Equal(before.Sum(nil), after.Sum(nil))
	return nil
}

// spoolMemory is how much of a file is kept in memory, in bytes.
const spoolMemory = 1 << 20

// spool buffers one file, a large one on disk.
type spool struct {
	limit int64 // bytes; more are a [candidate.Rejection]
	buf   bytes.Buffer
	f     *os.File
	n     int64
}

func (s *spool) Write(p []byte) (int, error) {
	if s.n+int64(len(p)) > s.limit { // what replaces a secret can be longer
		return 0, candidate.Reject(verdict.CandidateTooLarge, "the tree has more than %d bytes without its secrets", s.limit)
	}
	s.n += int64(len(p))
	if s.f == nil && s.n <= spoolMemory {
		return s.buf.Write(p)
	}
	if s.f == nil {
		f, err := os.CreateTemp("", "securebench-")
		if err != nil {
			return 0, err
		}
		s.f = f
		if err := os.Remove(f.Name()); err != nil { // it exists as long as it is open
			return 0, err
		}
		if _, err := s.buf.WriteTo(f); err != nil {
			return 0, err
		}
	}
	return s.f.Write(p)
}

func (s *spool) reader() (io.Reader, error) {
	if s.f == nil {
		return &s.buf, nil
	}
	_, err := s.f.Seek(0, io.SeekStart)
	return s.f, err
}

func (s *spool) close() {
	if s.f != nil {
		_ = s.f.Close() // its name is already removed
	}
}
