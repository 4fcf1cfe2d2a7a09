package candidate

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"securebench/internal/digest"
	"securebench/internal/source"
	"securebench/internal/task"
)

// Sink takes candidates as they are captured.
type Sink interface {
	// Put takes the content of a candidate, a tree as its canonical archive,
	// and returns it with its digest. The result can be opened if the sink
	// keeps it.
	Put(kind task.CandidateKind, origin Origin, content io.Reader) (Candidate, error)
}

// Store keeps candidates by their digest. Equal candidates are stored once. It
// is safe for concurrent use.
type Store struct{ root *os.Root }

var _ Sink = (*Store)(nil)

// ErrStore is wrapped by the errors of a store that cannot be written.
var ErrStore = errors.New("the candidate store cannot be written")

// OpenStore opens the store in dir, which must exist.
func OpenStore(dir string) (*Store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the candidate store: %w", err)
	}
	return &Store{root}, nil
}

// Close releases the store.
func (s *Store) Close() error { return s.root.Close() }

// Put stores a candidate and flushes it to disk. A damaged file that is there
// under the same name is replaced.
func (s *Store) Put(kind task.CandidateKind, origin Origin, content io.Reader) (Candidate, error) {
	// A name of its own: two workers may store equal candidates at once.
	tmp := ".new-" + rand.Text()
	f, err := s.root.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return Candidate{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	w := &writer{f: f}
	sum, err := receive(kind, content, w)
	if w.err != nil {
		err = fmt.Errorf("%w: %w", ErrStore, w.err)
	}
	c := Candidate{Kind: kind, Digest: sum, Size: w.n, Origin: origin}
	if err == nil {
		var there bool
		if there, err = s.holds(c); there {
			return s.attach(c), errors.Join(f.Close(), s.root.Remove(tmp))
		}
	}
	if err == nil {
		err = s.keep(f, tmp, sum)
	}
	if err != nil {
		return Candidate{}, fmt.Errorf("storing the candidate: %w", errors.Join(err, f.Close(), s.root.Remove(tmp)))
	}
	return s.attach(c), nil
}

// receive copies the content to w and returns its digest.
func receive(kind task.CandidateKind, content io.Reader, w io.Writer) (sum string, err error) {
	if kind == task.Workspace {
		return ReadTree(io.TeeReader(content, w), stored(), nil)
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, h), io.LimitReader(content, MaxBytes+1))
	if err == nil && n > MaxBytes {
		err = fmt.Errorf("the candidate is larger than %d bytes", MaxBytes)
	}
	return digest.Format(h.Sum(nil)), err
}

// holds reports whether the store has this candidate, undamaged.
func (s *Store) holds(c Candidate) (bool, error) {
	r, err := s.attach(c).Open()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrStore, err)
	}
	_, err = io.Copy(io.Discard, r)
	if err = errors.Join(err, r.Close()); err != nil && !errors.Is(err, ErrDamaged) {
		return false, fmt.Errorf("%w: %w", ErrStore, err)
	}
	return err == nil, nil
}

// keep makes a written file a candidate.
func (s *Store) keep(f *os.File, tmp, sum string) error {
	name, err := digest.Hex(sum)
	if err != nil {
		return err
	}
	err = f.Sync()
	if err == nil {
		err = s.root.Rename(tmp, name)
	}
	if err == nil {
		err = s.sync()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	return f.Close()
}

// sync makes new names durable.
func (s *Store) sync() error {
	d, err := s.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writer tells its own errors from those of what is read.
type writer struct {
	f   *os.File
	n   int64
	err error
}

func (w *writer) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	w.n += int64(n)
	w.err = errors.Join(w.err, err)
	return n, err
}

// Find returns the stored candidate that c names, ready to be opened. Its size
// is that of the stored form; the digest is checked when it is read.
func (s *Store) Find(c Candidate) (Candidate, error) {
	f, err := s.file(c.Digest)
	if err != nil {
		return Candidate{}, fmt.Errorf("finding candidate %s: %w", c.Digest, err)
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return Candidate{}, fmt.Errorf("finding candidate %s: %w", c.Digest, err)
	}
	c.Size = info.Size()
	return s.attach(c), nil
}

func (s *Store) attach(c Candidate) Candidate {
	sum := c.Digest
	c.open = func() (io.ReadCloser, error) { return s.file(sum) }
	return c
}

func (s *Store) file(sum string) (*os.File, error) {
	name, err := digest.Hex(sum)
	if err != nil {
		return nil, err
	}
	return source.OpenIn(s.root, name, os.O_RDONLY, 0)
}

// FromFS names a stored candidate in a directory or bundle that is open for
// reading. Its digest is checked when it is read.
func FromFS(fsys fs.FS, name string, c Candidate) Candidate {
	c.open = func() (io.ReadCloser, error) { return fsys.Open(name) }
	return c
}

// treeCheck passes an archive on while another goroutine reads it as a tree.
type treeCheck struct {
	raw  io.ReadCloser
	w    *io.PipeWriter
	done chan error
	err  error // of the end, once it is known
}

func newTreeCheck(raw io.ReadCloser, want string) *treeCheck {
	r, w := io.Pipe()
	t := &treeCheck{raw: raw, w: w, done: make(chan error, 1)}
	go func() {
		sum, err := ReadTree(r, stored(), nil)
		if err != nil || sum != want {
			err = errors.Join(ErrDamaged, err)
		}
		_ = r.CloseWithError(err) // it never fails
		t.done <- err
	}()
	return t
}

func (t *treeCheck) Read(p []byte) (int, error) {
	if t.err != nil {
		return 0, t.err
	}
	n, err := t.raw.Read(p)
	if n > 0 {
		if _, werr := t.w.Write(p[:n]); werr != nil {
			t.end(nil)
			return 0, t.err
		}
	}
	if err != nil {
		t.end(err)
		if n == 0 {
			return 0, t.err
		}
	}
	return n, nil
}

// end waits for the check; err is how reading ended.
func (t *treeCheck) end(err error) {
	if errors.Is(err, io.EOF) {
		_ = t.w.Close() // it never fails
	} else {
		_ = t.w.CloseWithError(err)
	}
	checked := <-t.done
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		t.err = err
	case checked != nil:
		t.err = checked
	default:
		t.err = io.EOF
	}
}

func (t *treeCheck) Close() error {
	if t.err == nil {
		t.end(fs.ErrClosed)
	}
	return t.raw.Close()
}

// Check reads a stored candidate, whose kind need not be known, and compares
// it with its digest. size is what it reads at most.
func Check(r io.ReadSeeker, sum string) error {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return err
	}
	if digest.Format(h.Sum(nil)) == sum {
		return nil
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	var not *Rejection
	switch got, err := ReadTree(r, stored(), nil); {
	case errors.As(err, &not), err == nil && got != sum:
		return ErrDamaged
	default:
		return err
	}
}
