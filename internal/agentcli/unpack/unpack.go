// Package unpack unpacks npm packages, whose content nobody has looked at, into a
// folder that nothing can leave.
package unpack

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"securebench/internal/redact"
)

// ErrPackage is the error of a package that is not as packages are.
var ErrPackage = errors.New("not a usable package")

// Limits bound what a package may contain.
type Limits struct {
	Files int   // folders and what is left out included
	Bytes int64 // of all files together, unpacked
	Depth int   // of folders
	Name  int   // bytes of a path
}

// DefaultLimits are those of an agent's package.
func DefaultLimits() Limits { return Limits{Files: 20_000, Bytes: 3 << 30, Depth: 32, Name: 512} }

// Place says where a file of a package goes, from its path below the package's
// first folder: a valid path below the root, or "" to leave it out.
type Place func(name string) string

// Tarball unpacks a package's files into an empty folder. Each is owned by the
// caller and readable by all; of its mode, whether it can be executed is kept.
// A link, a device, a name that leads out or comes twice, and content beyond the
// limits is an error.
func Tarball(ctx context.Context, r io.Reader, root *os.Root, place Place, limits Limits) error {
	zipped, err := gzip.NewReader(bufio.NewReaderSize(r, 1<<20))
	if err != nil {
		return fmt.Errorf("%w: it is not compressed with gzip", ErrPackage)
	}
	zipped.Multistream(false)
	// Headers and padding are small beside the files; a stream of headers alone
	// ends here.
	left := limits.Bytes + int64(limits.Files)*4096 + 1<<20
	u := &unpacking{root: root, place: place, limits: limits, seen: map[string]bool{}, left: limits.Bytes}
	in := tar.NewReader(&bounded{ctx, zipped, left})
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return u.readError(ctx, err)
		}
		if err := u.entry(h, in); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
	}
}

// bounded ends a stream that is longer than a package may be, and one that is no
// longer wanted.
type bounded struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

var errTooMuch = fmt.Errorf("%w: it is too large", ErrPackage)

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

type unpacking struct {
	root   *os.Root
	place  Place
	limits Limits
	seen   map[string]bool // names of entries, as they were given
	count  int
	left   int64
}

func (u *unpacking) readError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrPackage):
		return err
	}
	return fmt.Errorf("%w: the archive is damaged", ErrPackage)
}

// entry unpacks one entry.
func (u *unpacking) entry(h *tar.Header, in io.Reader) error {
	bad := func(why string) error {
		return fmt.Errorf("%w: %s %s", ErrPackage, redact.QuoteShort(h.Name, 200), why)
	}
	if u.count++; u.count > u.limits.Files {
		return fmt.Errorf("%w: it has more than %d entries", ErrPackage, u.limits.Files)
	}
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeReg, tar.TypeDir:
	default:
		return bad("is neither a file nor a folder")
	}
	name, ok := below(h.Name, u.limits)
	if !ok {
		return bad("is not a name that a package can have")
	}
	if h.Typeflag == tar.TypeDir {
		return nil // folders are made for files
	}
	if u.seen[name] {
		return bad("is there twice")
	}
	u.seen[name] = true
	if h.Size > u.left {
		return errTooMuch
	}
	u.left -= h.Size
	to := u.place(name)
	if to == "" {
		return nil
	}
	if err := u.file(to, h, in); err != nil {
		if errors.Is(err, fs.ErrExist) || errors.Is(err, errNotFolder) {
			return bad("is in the place of another")
		}
		return err
	}
	return nil
}

var errNotFolder = errors.New("not a folder")

func (u *unpacking) file(name string, h *tar.Header, in io.Reader) error {
	if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		if info, at := u.root.Stat(path.Dir(name)); at != nil || !info.IsDir() {
			return errNotFolder
		}
		return err
	}
	f, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, in)
	if err == nil && n != h.Size {
		err = io.ErrUnexpectedEOF
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: the archive is cut", ErrPackage)
	}
	mode := fs.FileMode(0o644)
	if h.Mode&0o100 != 0 {
		mode = 0o755
	}
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// maxPart is how long file systems let one name be.
const maxPart = 255

// below returns the path below the package's first folder, which is "package" by
// convention alone.
func below(name string, limits Limits) (string, bool) {
	name = strings.TrimSuffix(name, "/")
	if len(name) > limits.Name || strings.Count(name, "/") > limits.Depth || !fs.ValidPath(name) || name == "." {
		return "", false
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxPart {
			return "", false
		}
	}
	for _, r := range name {
		if r < ' ' || r == 0x7f || r == '\\' {
			return "", false
		}
	}
	_, rest, ok := strings.Cut(name, "/")
	if !ok {
		return name, true // the first folder itself, or a file beside it
	}
	return rest, true
}
