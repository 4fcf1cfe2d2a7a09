package holder

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"

	"golang.org/x/sys/unix"

	"securebench/internal/bounded"
	"securebench/internal/sandbox/wire"
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

// ServeRoot is [Serve] for a tree that is open. What it does to the tree it does with the
// rights of the thread that it is called on, and on no other.
func ServeRoot(root *os.Root, in io.Reader, out io.Writer) error {
	s := &server{root: root, calls: make(chan func()), ended: make(chan struct{})}
	// Opened now, because the owner of the tree may remove the permission later. If
	// there is none now, every request is answered so.
	if s.dir, s.closed = root.Open("."); s.closed == nil {
		defer s.dir.Close()
	}
	var err error
	go func() {
		defer close(s.ended)
		err = wire.Serve(in, out, s.handler(), maxRequests, maxRequests)
	}()
	for {
		select {
		case f := <-s.calls:
			f()
		case <-s.ended:
			if err != nil {
				return fmt.Errorf("serving the tree: %w", err)
			}
			return nil
		}
	}
}

// maxRequests is how many requests can be open: one, and others that were given up.
const maxRequests = 4

type server struct {
	root   *os.Root
	dir    *os.File
	closed error         // why dir could not be opened
	calls  chan func()   // for the thread of ServeRoot
	ended  chan struct{} // closed with the stream
}

// handler answers the requests of the package documentation, each on the thread of
// ServeRoot.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	on := func(pattern string, do http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			done := make(chan struct{})
			select {
			case s.calls <- func() { defer close(done); do(w, r) }:
				<-done
			case <-s.ended:
			}
		})
	}
	on("PUT /tree", func(w http.ResponseWriter, r *http.Request) { s.take(w, r, put) })
	on("POST /removals", func(w http.ResponseWriter, r *http.Request) { s.take(w, r, remove) })
	on("POST /archive", s.archive)
	on("GET /usage", func(w http.ResponseWriter, _ *http.Request) {
		u, err := s.usage()
		r := resultOf(err)
		r.Usage = u
		wire.Reply(w, r)
	})
	return mux
}

// take does to the tree what the body of a request says, which is read to its end.
func (s *server) take(w http.ResponseWriter, r *http.Request, do func(*os.Root, io.Reader) error) {
	err := do(s.root, r.Body)
	if _, cut := io.Copy(io.Discard, r.Body); err == nil && cut != nil {
		err = errors.New("the data is incomplete")
	}
	wire.Reply(w, resultOf(err))
}

// trailer has the result of an archive, as text in the path of a URL.
const trailer = "Result"

// archive answers with a part of the tree, and with how that ended.
func (s *server) archive(w http.ResponseWriter, r *http.Request) {
	var asked wanted
	b, err := bounded.ReadAll(r.Body, wire.FrameSize)
	if err == nil {
		asked, err = wire.Decode[wanted](b)
	}
	if err != nil {
		wire.Answer(w, err)
		return
	}
	w.Header().Set("Trailer", trailer)
	out := bufio.NewWriterSize(w, wire.FrameSize)
	err = get(s.root, asked.Path, asked.Limit, asked.Skip, out)
	said, encodeErr := wire.Encode(resultOf(err))
	if out.Flush() != nil || encodeErr != nil {
		return // without a result: nobody waits for it
	}
	w.Header().Set(trailer, url.PathEscape(string(said)))
}

// usage measures the tree.
func (s *server) usage() (*usage, error) {
	if s.closed != nil {
		return nil, fmt.Errorf("opening the tree: %w", s.closed)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(s.dir.Fd()), &st); err != nil {
		return nil, fmt.Errorf("measuring the tree: %w", err)
	}
	root, err := s.dir.Stat()
	if err != nil {
		return nil, fmt.Errorf("looking at the root: %w", err)
	}
	h := newHeader(".", root)
	size := int64(st.Bsize) //nolint:unconvert // its width depends on the architecture
	return &usage{
		Bytes:       int64(st.Blocks-st.Bfree) * size,
		BytesLimit:  int64(st.Blocks) * size,
		Inodes:      int64(st.Files - st.Ffree),
		InodesLimit: int64(st.Files),
		UID:         h.Uid,
		GID:         h.Gid,
		Mode:        h.Mode,
	}, nil
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
