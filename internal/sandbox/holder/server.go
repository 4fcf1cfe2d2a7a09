package holder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Serve answers requests about the tree below root until in ends. It returns
// nil when in ends between two requests, and otherwise the error of the streams.
// Errors of the tree are answered, not returned.
func Serve(root string, in io.Reader, out io.Writer) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return fmt.Errorf("opening the tree: %w", err)
	}
	defer r.Close()
	return ServeRoot(r, in, out)
}

// ServeRoot is [Serve] for a tree that is open. It has the rights of the thread
// that it is called on, and uses no other.
func ServeRoot(root *os.Root, in io.Reader, out io.Writer) error {
	s := &server{root: root, in: newFrameReader(in), out: newFrameWriter(out)}
	// Opened now, because the owner of the tree may remove the permission later. If
	// there is none now, every request is answered so.
	if s.dir, s.closed = root.Open("."); s.closed == nil {
		defer s.dir.Close()
	}
	for {
		if err := s.one(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("serving the tree: %w", err)
		}
	}
}

type server struct {
	root   *os.Root
	dir    *os.File
	closed error // why dir could not be opened
	in     *frameReader
	out    *frameWriter
}

// one answers one request. Its error is io.EOF after the last one.
func (s *server) one() error {
	k, payload, err := s.in.next()
	if err != nil {
		return err
	}
	if k != kindRequest {
		return fmt.Errorf("kind %q where a request must be: %w", k, errProtocol)
	}
	var req request
	if err := decode(payload, &req); err != nil {
		return err
	}
	switch req.Op {
	case opPut:
		return s.serveData(func(data io.Reader) error { return put(s.root, data) })
	case opRemove:
		return s.serveData(func(data io.Reader) error { return remove(s.root, data) })
	case opGet:
		return s.end(resultOf(get(s.root, req.Path, req.Limit, req.Skip, dataWriter{s.out})))
	case opUsage:
		return s.serveUsage()
	}
	return fmt.Errorf("operation %q: %w", req.Op, errProtocol)
}

// serveData serves a request that data follows.
func (s *server) serveData(do func(io.Reader) error) error {
	data := &dataReader{f: s.in}
	failed := do(data)
	if err := data.drain(); err != nil {
		return err
	}
	var sent result
	if err := decode(data.end, &sent); err != nil {
		return err
	}
	if failed == nil && sent.Code != codeOK {
		failed = errors.New("the data is incomplete")
	}
	return s.end(resultOf(failed))
}

func (s *server) serveUsage() error {
	if s.closed != nil {
		return s.end(resultOf(fmt.Errorf("opening the tree: %w", s.closed)))
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(s.dir.Fd()), &st); err != nil {
		return s.end(resultOf(fmt.Errorf("measuring the tree: %w", err)))
	}
	root, err := s.dir.Stat()
	if err != nil {
		return s.end(resultOf(fmt.Errorf("looking at the root: %w", err)))
	}
	h := newHeader(".", root)
	size := int64(st.Bsize) //nolint:unconvert // its width depends on the architecture
	return s.end(result{Usage: &usage{
		Bytes:       int64(st.Blocks-st.Bfree) * size,
		BytesLimit:  int64(st.Blocks) * size,
		Inodes:      int64(st.Files - st.Ffree),
		InodesLimit: int64(st.Files),
		UID:         h.Uid,
		GID:         h.Gid,
		Mode:        h.Mode,
	}})
}

func (s *server) end(r result) error {
	b, err := encode(r)
	if err != nil {
		return err
	}
	if err := s.out.write(kindEnd, b); err != nil {
		return err
	}
	return s.out.flush()
}

// openDir opens directory name of dir, without following a link even if the
// name is replaced between lstat and open. The error of a name that is not a
// directory is fs.ErrNotExist: a walk skips it.
func openDir(dir *os.Root, name string) (*os.Root, error) {
	seen, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, fmt.Errorf("%q is not a directory: %w", name, fs.ErrNotExist)
	}
	sub, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	got, err := sub.Stat(".")
	if err == nil && !os.SameFile(seen, got) {
		err = fmt.Errorf("opening %q: %w", name, errChanged)
	}
	if err != nil {
		return nil, errors.Join(err, sub.Close())
	}
	return sub, nil
}
