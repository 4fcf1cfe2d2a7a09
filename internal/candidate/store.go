package candidate

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"securebench/internal/digest"
	"securebench/internal/durable"
	"securebench/internal/source"
	"securebench/internal/task"
)

// Sink stores candidates as they are captured.
type Sink interface {
	// Put stores the content of a candidate, a tree as its canonical archive,
	// and returns the candidate with its digest. The result can be opened if
	// the sink keeps the content.
	Put(kind task.CandidateKind, origin Origin, content io.Reader) (Candidate, error)
}

// Store keeps candidates by their digest. Equal candidates are stored once. It
// is safe for concurrent use.
type Store struct {
	root    *os.Root
	flusher durable.Flusher

	mu       sync.Mutex
	flushing map[string]*durable.Flush // by digest; those that failed stay
}

var _ Sink = (*Store)(nil)

// ErrStore is wrapped by the errors of a store that cannot be written.
var ErrStore = errors.New("the candidate store cannot be written")

// OpenStore opens the store in dir, which must exist.
func OpenStore(dir string) (*Store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the candidate store: %w", err)
	}
	return &Store{root: root, flushing: map[string]*durable.Flush{}}, nil
}

// Close waits until the store is on disk, and releases it.
func (s *Store) Close() error {
	s.flusher.Wait()
	return s.root.Close()
}

// Put stores a candidate, whose [Candidate.Flush] continues in the background. An
// existing damaged file is replaced.
func (s *Store) Put(kind task.CandidateKind, origin Origin, content io.Reader) (c Candidate, err error) {
	c = Candidate{Kind: kind, Origin: origin}
	if kind == task.Workspace {
		err = s.stream(&c, content)
	} else {
		err = s.write(&c, content)
	}
	if err != nil {
		return Candidate{}, fmt.Errorf("storing the candidate: %w", err)
	}
	c.flush = s.flush(c.Digest)
	return s.attach(c), nil
}

// flush returns the flush of a stored candidate, even if another caller has
// just stored; nil if it is on disk.
func (s *Store) flush(sum string) *durable.Flush {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushing[sum]
}

// write stores content that is short enough to be looked up first, because
// agents often submit the same.
func (s *Store) write(c *Candidate, content io.Reader) error {
	var data bytes.Buffer
	var err error
	if c.Digest, err = Copy(c.Kind, content, &data); err != nil {
		return err
	}
	c.Size = int64(data.Len())
	there, err := s.holds(s.attach(*c))
	if err != nil || there {
		return err
	}
	f, err := s.create()
	if err != nil {
		return err
	}
	if _, err = f.Write(data.Bytes()); err != nil {
		err = fmt.Errorf("%w: %w", ErrStore, err)
	} else {
		err = s.commit(f, c.Digest)
	}
	return errors.Join(err, f.Discard())
}

// stream stores a tree, whose digest is known only after it has been written: a file
// that is there already is not read, but replaced.
func (s *Store) stream(c *Candidate, content io.Reader) error {
	f, err := s.create()
	if err != nil {
		return err
	}
	w := &writer{f: f.File}
	c.Digest, err = Copy(c.Kind, content, w)
	c.Size = w.n
	if w.err != nil {
		err = fmt.Errorf("%w: %w", ErrStore, w.err)
	}
	if err == nil {
		err = s.commit(f, c.Digest)
	}
	return errors.Join(err, f.Discard())
}

// create creates a unique file, because two workers may store equal candidates
// at the same time.
func (s *Store) create() (*durable.File, error) {
	f, err := durable.Create(s.root, durable.UniqueName("."), 0o644)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStore, err)
	}
	return f, nil
}

func (s *Store) commit(f *durable.File, sum string) error {
	name, err := digest.Hex(sum)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	s.mu.Lock() // whoever finds the file finds its flush
	defer s.mu.Unlock()
	flush, err := f.CommitLater(&s.flusher, name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	s.flushing[sum] = s.flusher.Go(func() error {
		if err := flush.Wait(); err != nil {
			return fmt.Errorf("%w: %w", ErrStore, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.flushing, sum)
		return nil
	})
	return nil
}

var errTooLarge = fmt.Errorf("the candidate is larger than %d bytes", MaxBytes)

// Copy copies the content of a candidate, a tree as its canonical archive, to w
// and returns its digest.
func Copy(kind task.CandidateKind, content io.Reader, w io.Writer) (sum string, err error) {
	if kind == task.Workspace {
		return ReadTree(io.TeeReader(content, w), stored(), nil)
	}
	var head bytes.Buffer
	_, err = io.CopyN(&head, content, int64(len(digestHeader)))
	switch {
	case err == nil && HasTreeDigest(head.Bytes()):
		return "", errTreeDigest()
	case errors.Is(err, io.EOF):
		content = strings.NewReader("") // nothing is read beyond the end
	case err != nil:
		return "", err
	}
	h := sha256.New()
	size, err := io.Copy(io.MultiWriter(w, h), io.LimitReader(io.MultiReader(&head, content), MaxBytes+1))
	if err == nil && size > MaxBytes {
		err = errTooLarge
	}
	return digest.Format(h.Sum(nil)), err
}

// holds reports whether the store has this candidate, undamaged.
func (s *Store) holds(c Candidate) (bool, error) {
	r, err := c.Open()
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

// writer distinguishes its own errors from those of the source.
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

// Find returns the stored candidate with the digest of c, ready to be opened.
// Its size is that of the stored form; the digest is checked when it is read.
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

// Check reports whether the store has this candidate, undamaged. It is
// streamed.
func (s *Store) Check(sum string) error {
	_, err := Check(func() (io.ReadCloser, error) { return s.file(sum) }, sum, io.Discard)
	return err
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

// FromFS returns a stored candidate in a directory or bundle that is open for
// reading. Its digest is checked when it is read.
func FromFS(fsys fs.FS, name string, c Candidate) Candidate {
	c.open = func() (io.ReadCloser, error) { return fsys.Open(name) }
	return c
}

// treeCheck passes an archive on while another goroutine checks it as a tree.
type treeCheck struct {
	raw  io.ReadCloser
	w    *io.PipeWriter
	done chan error
	good func() // called once the digest was found
	err  error  // of the end, once it is known
}

func newTreeCheck(raw io.ReadCloser, want string, good func()) *treeCheck {
	r, w := io.Pipe()
	t := &treeCheck{raw: raw, w: w, done: make(chan error, 1), good: good}
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
		t.good()
		t.err = io.EOF
	}
}

func (t *treeCheck) Close() error {
	if t.err == nil {
		t.end(fs.ErrClosed)
	}
	return t.raw.Close()
}

// Check streams a stored candidate, whose kind need not be known, and compares it
// with its digest. It reports whether that is the digest of a tree, and copies what
// is none to text, which is good if there is no error. Only a text that begins like
// an archive is read twice.
func Check(open func() (io.ReadCloser, error), sum string, text io.Writer) (tree bool, err error) {
	for tree = true; ; tree = false {
		r, err := open()
		if err != nil {
			return false, err
		}
		in := bufio.NewReaderSize(r, tarBlock)
		head, _ := in.Peek(tarBlock) // an error comes again
		tree = tree && archived(head)
		kind, to := task.Text, text
		if tree {
			kind, to = task.Workspace, io.Discard
		}
		got, err := Copy(kind, in, to)
		var not *Rejection
		if err = errors.Join(err, r.Close()); err != nil && !errors.As(err, &not) && !errors.Is(err, errTooLarge) {
			return false, err
		}
		if err == nil && got == sum {
			return tree, nil
		}
		if !tree {
			return false, ErrDamaged
		}
	}
}

// archived reports whether content can be an archive by its first block: that of an
// empty one is zero.
func archived(head []byte) bool {
	return len(head) == tarBlock && (bytes.HasPrefix(head[257:], []byte("ustar")) || bytes.Count(head, []byte{0}) == tarBlock)
}
