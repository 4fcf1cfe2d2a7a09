// Package candidate holds the value that a run scores: what an agent left
// behind, with a digest, a size and its origin. Text, code and patches are
// short and can be read whole. Trees are only ever streamed.
package candidate

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"unicode/utf8"

	"securebench/internal/digest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// DefaultLimit is the largest text, code or patch that is accepted when no
// limit is given, in bytes.
const DefaultLimit = 1 << 20

// MaxBytes is the largest text, code or patch that a limit can allow.
const MaxBytes = 256 << 20

// Origin says where a candidate came from, as records name it.
type Origin string

// The origins.
const (
	Stdout Origin = "stdout" // the agent printed it
	File   Origin = "file"   // the agent wrote it
	Replay Origin = "replay" // a replay file holds it as text
	Given  Origin = "given"  // it is the row's own
)

// Said reports whether a candidate of this origin is what an agent said: a
// text in which the candidate stands.
func (o Origin) Said() bool { return o == Stdout || o == Replay }

// ErrDamaged is returned at the end of a read when the content does not have
// the digest of its candidate.
var ErrDamaged = errors.New("stored candidate is damaged")

// Candidate names a captured value. It can be encoded; [Store.Find] finds the
// content of a decoded one.
type Candidate struct {
	Kind   task.CandidateKind `json:"kind"`
	Digest string             `json:"digest"` // of the content, or of the tree
	Size   int64              `json:"size"`   // of the stored form, in bytes
	Origin Origin             `json:"origin"`
	// Redacted says that a secret of the operator stood in what the agent
	// left, and was replaced before anything was stored or scored.
	Redacted bool `json:"redacted,omitzero"`

	open func() (io.ReadCloser, error)
}

// New makes a candidate that is held in memory. It cannot be a tree.
func New(kind task.CandidateKind, origin Origin, data []byte) Candidate {
	return Candidate{Kind: kind, Digest: digest.Bytes(data), Size: int64(len(data)), Origin: origin,
		open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// Said reports whether the candidate is what an agent said.
func (c Candidate) Said() bool { return c.Origin.Said() }

// IsTree reports whether the content is a tree.
func (c Candidate) IsTree() bool { return c.Kind == task.Workspace }

// Open returns the content: the bytes, or a tree as its canonical archive. The
// reader ends with [ErrDamaged] instead of [io.EOF] if the content is not what
// the candidate names, so nothing counts before the end was read.
func (c Candidate) Open() (io.ReadCloser, error) {
	if c.open == nil {
		return nil, fmt.Errorf("candidate %s has no content here", c.Digest)
	}
	r, err := c.open()
	if err != nil {
		return nil, err
	}
	if c.IsTree() {
		return newTreeCheck(r, c.Digest), nil
	}
	return &blobCheck{r: r, sum: sha256.New(), want: c.Digest, left: MaxBytes}, nil
}

// Bytes returns the content of a text, code or patch. It refuses trees, which
// are never held in memory.
func (c Candidate) Bytes() ([]byte, error) {
	if c.IsTree() {
		return nil, errors.New("a tree cannot be read into memory")
	}
	r, err := c.Open()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("reading candidate %s: %w", c.Digest, err)
	}
	return data, nil
}

// blobCheck compares what it passes on with a digest.
type blobCheck struct {
	r    io.ReadCloser
	sum  hash.Hash
	head []byte // as much of the content as tells a tree's lines
	want string
	left int64
}

func (b *blobCheck) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.sum.Write(p[:n])
	b.head = append(b.head, p[:min(n, len(digestHeader)-len(b.head))]...)
	if b.left -= int64(n); b.left < 0 || errors.Is(err, io.EOF) && (digest.Format(b.sum.Sum(nil)) != b.want || HasTreeDigest(b.head)) {
		return 0, ErrDamaged
	}
	return n, err
}

func (b *blobCheck) Close() error { return b.r.Close() }

// A Rejection says that an agent left no acceptable candidate. It is the
// agent's fault: the attempt fails and is not retried.
type Rejection struct {
	Reason  verdict.Reason `json:"reason"`
	Message string         `json:"message"` // in securebench's own words
}

// Error returns the message.
func (r *Rejection) Error() string { return r.Message }

// Reject makes a rejection.
func Reject(reason verdict.Reason, format string, args ...any) *Rejection {
	return &Rejection{reason, fmt.Sprintf(format, args...)}
}

// Admit makes a candidate of data within limit, 0 being [DefaultLimit]. Text
// and code must be valid UTF-8. The error is a [*Rejection].
func Admit(kind task.CandidateKind, origin Origin, data []byte, limit int64) (Candidate, error) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	if kind == task.Workspace {
		return Candidate{}, Reject(verdict.CandidateNotRegular, "the candidate must be a tree, not a text")
	}
	if HasTreeDigest(data) {
		return Candidate{}, errTreeDigest()
	}
	if int64(len(data)) > limit {
		return Candidate{}, Reject(verdict.CandidateTooLarge, "the candidate has %d bytes, the limit is %d", len(data), limit)
	}
	if kind != task.Patch && !utf8.Valid(data) {
		return Candidate{}, Reject(verdict.InvalidUTF8, "the candidate is not valid UTF-8")
	}
	return New(kind, origin, data), nil
}
