// Package candidate defines the value that a run scores: an agent's result,
// with a digest, a size and an origin. Text, code and patches are short and
// can be read whole. Trees are always streamed.
package candidate

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync/atomic"
	"unicode/utf8"

	"securebench/internal/digest"
	"securebench/internal/durable"
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
	Stdout  Origin = "stdout"   // printed by the agent
	File    Origin = "file"     // written by the agent to a file
	GitDiff Origin = "git_diff" // what the agent changed in its repository
	Replay  Origin = "replay"   // given as text in a replay file
	Given   Origin = "given"    // supplied by the row
)

// Said reports whether a candidate of this origin is an agent's output: a text
// that may contain more than the answer.
func (o Origin) Said() bool { return o == Stdout || o == Replay }

// ErrDamaged is returned at the end of a read if the content does not match
// the candidate's digest.
var ErrDamaged = errors.New("stored candidate is damaged")

// Candidate names a captured value. It can be encoded; [Store.Find] finds the
// content of a decoded one.
type Candidate struct {
	Kind   task.CandidateKind `json:"kind"`
	Digest string             `json:"digest"` // of the content, or of the tree
	Size   int64              `json:"size"`   // of the stored form, in bytes
	Origin Origin             `json:"origin"`
	// Redacted is set if the candidate contained a secret of the operator,
	// which was replaced before anything was stored or scored.
	Redacted bool `json:"redacted,omitzero"`
	// CutOff is set if a model's answer had reached its most tokens: its last words may
	// not be what it was about to say.
	CutOff bool `json:"cut_off,omitzero"`

	open  func() (io.ReadCloser, error)
	flush *durable.Flush
	held  *held // of a tree that is held open
}

// Flush is that of a candidate that was put into a store: it is on disk when the flush
// has ended.
func (c Candidate) Flush() *durable.Flush { return c.flush }

// New returns a candidate that is kept in memory. It cannot be a tree.
func New(kind task.CandidateKind, origin Origin, data []byte) Candidate {
	return Candidate{Kind: kind, Digest: digest.Bytes(data), Size: int64(len(data)), Origin: origin,
		open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// Said reports whether the candidate is an agent's output.
func (c Candidate) Said() bool { return c.Origin.Said() }

// IsTree reports whether the content is a tree.
func (c Candidate) IsTree() bool { return c.Kind == task.Workspace }

// Open returns the content: the bytes, or a tree as its canonical archive. The
// reader ends with [ErrDamaged] instead of [io.EOF] if the content does not
// match the digest, so the content is valid only once it was read to the end.
func (c Candidate) Open() (io.ReadCloser, error) {
	r, err := c.Unchecked()
	if err != nil {
		return nil, err
	}
	switch {
	case c.held != nil && c.held.checked.Load():
		return r, nil
	case c.held != nil:
		return newTreeCheck(r, c.Digest, func() { c.held.checked.Store(true) }), nil
	case c.IsTree():
		return newTreeCheck(r, c.Digest, func() {}), nil
	}
	return &blobCheck{r: r, sum: sha256.New(), want: c.Digest, left: MaxBytes}, nil
}

// Unchecked is Open for a reader that finds out the digest itself, such as another store.
func (c Candidate) Unchecked() (io.ReadCloser, error) {
	if c.open == nil {
		return nil, fmt.Errorf("candidate %s has no content here", c.Digest)
	}
	return c.open()
}

// held is what the readers of one file know of each other.
type held struct {
	checked atomic.Bool // a reader has found the digest at the file's end
}

// Hold opens a stored tree once for several reads: it returns the candidate with readers
// of that one file, of which only those are checked that begin before one was read to
// its end. The file is closed by done, after which nothing is read. Another candidate is
// returned as it is.
func (c Candidate) Hold() (_ Candidate, done func() error, err error) {
	done = func() error { return nil }
	if !c.IsTree() || c.open == nil {
		return c, done, nil
	}
	r, err := c.open()
	if err != nil {
		return c, done, fmt.Errorf("opening candidate %s: %w", c.Digest, err)
	}
	f, ok := r.(*os.File)
	if !ok { // of a bundle
		return c, done, r.Close()
	}
	info, err := f.Stat()
	if err != nil {
		return c, done, errors.Join(err, f.Close())
	}
	c.held = &held{}
	c.open = func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(f, 0, info.Size())), nil }
	return c, f.Close, nil
}

// Bytes returns the content of a text, code or patch. It refuses trees, which
// are never read into memory.
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

// blobCheck passes content on and compares it with a digest.
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

// A Rejection reports that an agent left no acceptable candidate. It is the
// agent's fault: the attempt fails and is not retried.
type Rejection struct {
	Reason  verdict.Reason `json:"reason"`
	Message string         `json:"message"` // in securebench's own words
}

// Error returns the message.
func (r *Rejection) Error() string { return r.Message }

// Reject returns a rejection.
func Reject(reason verdict.Reason, format string, args ...any) *Rejection {
	return &Rejection{reason, fmt.Sprintf(format, args...)}
}

// Admit returns a candidate with the given data, if it is within limit; 0
// means [DefaultLimit]. Text and code must be valid UTF-8. The error is a
// [*Rejection].
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
