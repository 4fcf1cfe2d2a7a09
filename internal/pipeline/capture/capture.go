// Package capture turns what an agent left behind into a candidate: a typed,
// bounded, content-addressed value. It runs after every process of the
// agent's sandbox is dead, and from then on only the stored bytes count.
package capture

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"securebench/internal/digest"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/holder"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// DefaultLimit is the largest candidate that is taken when no limit is given.
const DefaultLimit = 1 << 20

// tarOverhead is room for the headers around one captured file.
const tarOverhead = 16 << 10

// Where candidates come from, as records name it.
const (
	Stdout = "stdout" // an agent printed it
	File   = "file"   // an agent wrote it
	Replay = "replay" // a replay file holds it as text
	Given  = "given"  // it is the row's own
)

// Said reports whether candidates from there are what an agent said: a text in
// which the candidate stands.
func Said(from string) bool { return from == Stdout || from == Replay }

// Candidate is a captured value.
type Candidate struct {
	Kind   task.CandidateKind
	Data   []byte
	Digest string // of Data, "sha256:…"
	// From says where it came from: Stdout, File, Replay or Given.
	From string
	// Redacted says that a secret of the operator stood in what the agent
	// left and was taken out before anything was stored or scored.
	Redacted bool
}

// New makes a candidate of data.
func New(kind task.CandidateKind, from string, data []byte) Candidate {
	return Candidate{Kind: kind, Data: data, Digest: digest.Bytes(data), From: from}
}

// A Rejection says that an agent left no acceptable candidate. It is the
// agent's fault: the attempt fails and is not retried.
type Rejection struct {
	Reason  verdict.Reason
	Message string // in the framework's own words
}

// Error returns the message.
func (r *Rejection) Error() string { return r.Message }

func reject(reason verdict.Reason, format string, args ...any) *Rejection {
	return &Rejection{reason, fmt.Sprintf(format, args...)}
}

// Source is what a finished agent left behind.
type Source struct {
	Extraction task.Extraction
	Stdout     []byte
	Workspace  sandbox.Workspace
	// Public returns the digest of the public file that was laid at a path
	// of the workspace, or "".
	Public func(path string) string
	// Redact takes secrets out of captured bytes; nil takes out nothing.
	Redact func([]byte) []byte
	// Limit is the largest candidate in bytes; 0 is DefaultLimit.
	Limit int64
}

// Capture takes the candidate. The error is a [*Rejection] where the agent is
// at fault; every other error is the engine's.
func Capture(ctx context.Context, s Source) (Candidate, error) {
	if s.Limit <= 0 {
		s.Limit = DefaultLimit
	}
	data, from, err := s.take(ctx)
	if err != nil {
		return Candidate{}, err
	}
	c, err := Admit(s.Extraction.Kind, from, data, s.Limit)
	if err != nil || s.Redact == nil {
		return c, err
	}
	clean := New(c.Kind, c.From, s.Redact(data))
	clean.Redacted = clean.Digest != c.Digest
	return clean, nil
}

// Admit makes a candidate of data that is within the limit, 0 being
// DefaultLimit, and valid UTF-8. The error is a [*Rejection].
func Admit(kind task.CandidateKind, from string, data []byte, limit int64) (Candidate, error) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	if int64(len(data)) > limit {
		return Candidate{}, reject(verdict.CandidateTooLarge, "the candidate has %d bytes, the limit is %d", len(data), limit)
	}
	if !utf8.Valid(data) {
		return Candidate{}, reject(verdict.InvalidUTF8, "the candidate is not valid UTF-8")
	}
	return New(kind, from, data), nil
}

func (s Source) take(ctx context.Context) (data []byte, from string, err error) {
	switch s.Extraction.Mode {
	case task.FromStdout:
		return s.Stdout, Stdout, nil
	case task.FromFile:
		data, err := s.file(ctx)
		if s.Extraction.OrStdout && useStdout(err) {
			return s.Stdout, Stdout, nil
		}
		return data, File, err
	}
	return nil, "", fmt.Errorf("capture cannot take a candidate by %q", s.Extraction.Mode)
}

// useStdout reports whether a file is absent or untouched, so that standard
// output speaks instead. A file that is there but unfit is no reason to look
// elsewhere.
func useStdout(err error) bool {
	var r *Rejection
	return errors.As(err, &r) && r.Reason == verdict.CandidateMissing
}

// file reads the one file of the extraction out of the workspace.
func (s Source) file(ctx context.Context) ([]byte, error) {
	var buf bytes.Buffer
	err := s.Workspace.Get(ctx, s.Extraction.Path, s.Limit+tarOverhead, &buf)
	if errors.Is(err, sandbox.ErrTooLarge) {
		return nil, reject(verdict.CandidateTooLarge, "the candidate file is larger than %d bytes", s.Limit)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the candidate from the workspace: %w", err)
	}
	data, err := onlyFile(&buf, s.Extraction.Path, s.Limit)
	if err != nil {
		return nil, err
	}
	if s.Public != nil && s.Public(s.Extraction.Path) == digest.Bytes(data) {
		return nil, reject(verdict.CandidateMissing, "the agent did not change %s", s.Extraction.Path)
	}
	return data, nil
}

// onlyFile reads the archive of one path, which must be a regular file that
// nothing else in the workspace links to.
func onlyFile(archive io.Reader, path string, limit int64) ([]byte, error) {
	tr := tar.NewReader(archive)
	h, err := tr.Next()
	if errors.Is(err, io.EOF) {
		return nil, reject(verdict.CandidateMissing, "the agent left no %s", path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the workspace's archive: %w", err)
	}
	switch {
	case h.Typeflag != tar.TypeReg:
		return nil, reject(verdict.CandidateNotRegular, "%s is %s, not a regular file", path, typeName(h))
	case h.PAXRecords[holder.RecordLinks] != "":
		return nil, reject(verdict.CandidateNotRegular, "%s has other names: hard links are not taken", path)
	case h.Size > limit:
		return nil, reject(verdict.CandidateTooLarge, "the candidate has %d bytes, the limit is %d", h.Size, limit)
	}
	data, err := io.ReadAll(io.LimitReader(tr, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading the workspace's archive: %w", err)
	}
	return data, nil
}

func typeName(h *tar.Header) string {
	switch h.PAXRecords[holder.RecordType] {
	case holder.Unreadable:
		return "unreadable"
	case holder.Socket:
		return "a socket"
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return "a directory"
	case tar.TypeSymlink:
		return "a symbolic link"
	case tar.TypeLink:
		return "a hard link"
	case tar.TypeFifo:
		return "a pipe"
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	}
	return "a special file"
}
