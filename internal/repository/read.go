package repository

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"path"
	"strings"

	"securebench/internal/candidate"
	"securebench/internal/verdict"
)

// The bounds of names. The holder of a workspace goes no deeper, and no file
// system of ours has longer names.
const (
	maxDepth = 64
	maxPath  = 4096 // bytes
	maxPart  = 255  // bytes
)

// The records by which a workspace's archive says what tar has no type for, as
// package sandbox/holder defines them.
const (
	recordLinks = "SECUREBENCH.nlink"
	recordType  = "SECUREBENCH.type"
)

// What is odd in a tree.
const (
	hardLink   = "a hard link"
	nested     = "a nested repository"
	namedPipe  = "a named pipe"
	unreadable = "unreadable"
	socket     = "a socket"
)

// Read reads the archive of a checkout, in the form of
// [securebench/internal/sandbox.Workspace]. The repository itself, .git at the
// top, is skipped. keep, which may be nil, gets the content of every file and
// the target of every link; the entry has no sum yet, and the content need not
// be read to its end. A tree beyond the bounds, and an archive that no
// workspace writes, are a [*securebench/internal/candidate.Rejection].
func Read(archive io.Reader, b Bounds, keep func(path string, e Entry, content io.Reader) error) (*Tree, error) {
	r := &reader{
		tree: &Tree{Entries: map[string]Entry{}, Odd: map[string]string{}},
		left: b, keep: keep, folders: map[string]bool{},
		sum: sha256.New(), buf: make([]byte, 64<<10),
	}
	tr := tar.NewReader(archive)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return r.tree, nil
		}
		if err != nil {
			return nil, archiveError(err)
		}
		if err := r.entry(h, tr); err != nil {
			return nil, archiveError(err)
		}
	}
}

// archiveError rejects an archive that cannot be read as one. Errors of the
// underlying reader are returned unchanged.
func archiveError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrFieldTooLong) {
		return candidate.Reject(verdict.CandidateNotRegular, "the archive of the checkout is damaged: %v", err)
	}
	return err
}

type reader struct {
	tree    *Tree
	left    Bounds
	keep    func(string, Entry, io.Reader) error
	folders map[string]bool // every folder above an entry
	last    string          // the folder of the last entry, all of whose parents are in folders
	sum     hash.Hash
	buf     []byte
}

// entry reads one entry of the archive.
func (r *reader) entry(h *tar.Header, content io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	if name == ".git" || strings.HasPrefix(name, ".git/") {
		return nil
	}
	if h.Name == "." && h.PAXRecords[recordType] != "" {
		r.tree.Odd["."] = unreadable // the folder itself
		return nil
	}
	if err := r.admit(name, h); err != nil {
		return err
	}
	if inner, ok := nestedRepository(name); ok {
		r.tree.Odd[inner] = nested
		return nil
	}
	if err := r.place(name, h.Typeflag == tar.TypeDir); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return nil
	case tar.TypeReg:
		e := Entry{Mode: Regular, Size: h.Size}
		if h.Mode&0o100 != 0 {
			e.Mode = Executable
		}
		if h.PAXRecords[recordLinks] != "" {
			r.tree.Odd[name] = hardLink
		}
		return r.add(name, e, content)
	case tar.TypeSymlink:
		return r.add(name, Entry{Mode: Symlink, Size: int64(len(h.Linkname))}, strings.NewReader(h.Linkname))
	}
	r.tree.Odd[name] = oddity(h)
	return nil
}

// admit checks the name and the bounds.
func (r *reader) admit(name string, h *tar.Header) error {
	if err := checkName(name); err != nil {
		return err
	}
	r.left.Files--
	r.left.Bytes -= h.Size + int64(len(h.Linkname))
	switch {
	case r.left.Files < 0:
		return tooLarge("the checkout has more files and folders than allowed, at %.80q", name)
	case r.left.Bytes < 0:
		return tooLarge("the checkout has more bytes than allowed, at %.80q", name)
	}
	return nil
}

// checkName refuses names that no file of a checkout can have, or that are too
// long.
func checkName(name string) error {
	if len(name) > maxPath || strings.Count(name, "/") >= maxDepth {
		return tooLarge("%.80q is too deep or has a name that is too long", name)
	}
	if strings.ContainsRune(name, 0) {
		return damaged("%.80q has a NUL in its name", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return damaged("%.80q is not a clean relative path", name)
		case len(part) > maxPart:
			return tooLarge("%.80q has a part longer than %d bytes", name, maxPart)
		}
	}
	return nil
}

func tooLarge(format string, args ...any) error {
	return candidate.Reject(verdict.CandidateTooLarge, format, args...)
}

func damaged(format string, args ...any) error {
	return candidate.Reject(verdict.CandidateNotRegular, "the archive of the checkout is damaged: "+format, args...)
}

// place refuses a second entry of the same name, and one below a file.
func (r *reader) place(name string, folder bool) error {
	if r.known(name) || r.folders[name] && !folder {
		return damaged("%.80q is in it twice", name)
	}
	if folder {
		r.folders[name] = true
	}
	dir := path.Dir(name)
	if dir == r.last {
		return nil
	}
	r.last = dir
	for ; dir != "."; dir = path.Dir(dir) {
		if r.known(dir) {
			return damaged("%.80q lies below a file", name)
		}
		r.folders[dir] = true
	}
	return nil
}

// known reports whether a name is that of a file, a link or what is odd.
func (r *reader) known(name string) bool {
	_, odd := r.tree.Odd[name]
	return odd || r.tree.Entries[name].Exists()
}

// add reads the content of a file or the target of a link.
func (r *reader) add(name string, e Entry, content io.Reader) error {
	r.sum.Reset()
	if r.keep != nil {
		content = io.TeeReader(content, r.sum)
		if err := r.keep(name, e, content); err != nil {
			return err
		}
		if _, err := io.CopyBuffer(onlyWriter{io.Discard}, content, r.buf); err != nil {
			return err
		}
	} else if _, err := io.CopyBuffer(onlyWriter{r.sum}, content, r.buf); err != nil {
		return err
	}
	r.sum.Sum(e.Sum[:0])
	r.tree.Entries[name] = e
	return nil
}

// onlyWriter hides a writer's own way to read, which would bring a buffer of its own.
type onlyWriter struct{ io.Writer }

// oddity names what is neither a file nor a folder nor a link.
func oddity(h *tar.Header) string {
	switch h.PAXRecords[recordType] {
	case "":
	case "socket":
		return socket
	default:
		return unreadable
	}
	if h.Typeflag == tar.TypeFifo {
		return namedPipe
	}
	return candidate.TypeName(h.Typeflag)
}
