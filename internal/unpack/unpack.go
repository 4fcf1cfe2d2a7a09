// Package unpack unpacks untrusted tar archives into a folder. Nothing of an
// archive leads out of the folder: each name is resolved by the kernel below it,
// and the caller decides what becomes of each entry.
package unpack

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Kind is what becomes of an entry.
type Kind int

// The kinds of entries.
const (
	Skip Kind = iota
	Folder
	File
	Symlink
	HardLink
	Pipe
	Remove   // removes what is there, with all that is below it
	Whiteout // makes overlayfs hide the name in the layers below
	Opaque   // makes overlayfs hide all of the folder that the entry is in
)

// Entry is what one entry of an archive becomes. Its zero value is left out.
type Entry struct {
	Kind   Kind
	Name   string // below the folder, without links to follow or dots
	Target string // the text of a symbolic link, or the name of a file for a hard link
	Mode   uint32
	Owner  *Owner    // nil: the caller
	Time   time.Time // zero: when it was made
	// Finish, if there is one, is called with a path of the file or folder, which
	// has its owner and mode and not yet its time.
	Finish func(file string) error
}

// Owner is the user and group that something belongs to.
type Owner struct{ UID, GID int }

// Options bound an archive, and say how its entries meet what is there. The zero
// value takes nothing.
type Options struct {
	Entries int   // of the archive
	Bytes   int64 // of its files together, holes included
	Archive int64 // bytes of the stream
	Depth   int   // of folders within each other, so that each can be removed again

	// Plan says what becomes of an entry. Its error refuses the archive.
	Plan func(*tar.Header) (Entry, error)

	// Replace lets an entry take the place of what has its name; a folder stays,
	// with the entry's owner and mode. ReplaceParents does so for the folders above it.
	Replace, ReplaceParents bool
	// Follow follows links above an entry as if the folder were the root of all
	// paths. Else such an entry is an error.
	Follow bool
	// Unprivileged opens folders that the caller owns and may not write to, and sets
	// the modes of folders at the end.
	Unprivileged bool
	// InheritOwner gives folders that no entry is for the owner of the one above.
	InheritOwner bool
	// OpaqueMark is the attribute of an opaque folder.
	OpaqueMark string
}

// Error is about one entry.
type Error struct {
	Name string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("entry %.200q: %v", e.Name, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Refused is an error that is the archive's fault, whatever it is laid into.
type Refused struct{ Err error }

func (e *Refused) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Refused) Unwrap() error { return e.Err }

// Refuse makes a [Refused].
func Refuse(format string, args ...any) error { return &Refused{fmt.Errorf(format, args...)} }

// Tar lays an archive below a folder, and reads the stream to its end. It follows no
// link but those that Options allow. After an error the folder has what was laid before.
// The error is an [*Error] of an entry, a [*Refused], or that of the stream.
func Tar(ctx context.Context, folder *os.File, archive io.Reader, o Options) error {
	in := &stream{ctx: ctx, r: archive, left: o.Archive}
	u := &unpacker{tree: tree{root: int(folder.Fd()), o: o, cached: -1, later: map[string]later{}}, left: o.Bytes, buffer: make([]byte, 1<<18)}
	var err error
	if u.depth, err = u.depthOf(u.root); err == nil {
		err = u.entries(in)
	}
	if in.err != nil {
		err = in.err // what ended the stream, not what the archive reader makes of it
	}
	return errors.Join(err, u.close())
}

// stream ends one that is longer than it may be, or no longer wanted. It keeps the
// error that ended it.
type stream struct {
	ctx  context.Context
	r    io.Reader
	left int64
	err  error
}

func (s *stream) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		s.err = context.Cause(s.ctx)
		return 0, s.err
	}
	n, err := s.r.Read(p)
	if s.left -= int64(n); s.left < 0 {
		s.err = errTooLarge()
		return 0, s.err
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = fmt.Errorf("reading the archive: %w", err)
	}
	return n, err
}

func errTooLarge() error { return Refuse("it is larger than the limit") }

type unpacker struct {
	tree
	left   int64
	buffer []byte
}

func (u *unpacker) entries(in io.Reader) error {
	archive := tar.NewReader(in)
	for n := 1; ; n++ {
		h, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			// An error of the sender's can come as late as behind the archive.
			_, err = io.CopyBuffer(io.Discard, in, u.buffer)
			return err
		case err != nil:
			return Refuse("the archive is damaged: %w", err)
		case n > u.o.Entries:
			return Refuse("it has more than %d entries", u.o.Entries)
		}
		e, err := u.o.Plan(h)
		if err != nil {
			err = &Refused{err}
		} else if e.Kind != Skip {
			err = u.entry(e, h.Size, archive)
		}
		if err != nil {
			return &Error{h.Name, err}
		}
	}
}

// entry makes of one entry what was planned.
func (u *unpacker) entry(e Entry, size int64, content io.Reader) error {
	if e.Name == "." || !filepath.IsLocal(e.Name) || path.Clean(e.Name) != e.Name {
		return Refuse("it is not a path below the folder")
	}
	if strings.Count(e.Name, "/") > u.o.Depth {
		return errTooDeep()
	}
	folder, base := path.Dir(e.Name), path.Base(e.Name)
	parent, err := u.parent(folder, e.Kind != Remove)
	if e.Kind == Remove && missing(err) {
		return nil // nothing is there
	}
	if err != nil {
		return err
	}
	switch e.Kind {
	case Remove:
		return u.remove(parent, base)
	case Folder:
		err = u.makeFolder(parent, base)
	case File:
		err = u.file(parent, base, size, content)
	case Whiteout:
		return u.whiteout(parent, base)
	case Opaque:
		return u.makeOpaque(parent, ".")
	default:
		err = u.special(parent, base, e)
	}
	if err != nil {
		return err
	}
	return u.attributes(parent, base, e)
}

func (u *unpacker) file(parent int, base string, size int64, content io.Reader) error {
	if size > u.left {
		return errTooLarge()
	}
	u.left -= size
	fd, err := u.create(parent, base)
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(fd, struct{ io.Reader }{content}, u.buffer) // without the reader's interfaces, which would not use the buffer
	if err == nil && n != size || errors.Is(err, io.ErrUnexpectedEOF) {
		err = Refuse("the archive is cut")
	}
	return errors.Join(err, unix.Close(int(fd)))
}

// Sparse reports whether a file has holes, so that a few bytes of an archive could
// become a terabyte of zeros.
func Sparse(h *tar.Header) bool {
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}
