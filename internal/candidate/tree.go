package candidate

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"securebench/internal/digest"
	"securebench/internal/verdict"
)

// The bounds of names in a tree.
const (
	maxDepth = 64
	maxPath  = 4096 // bytes
	maxPart  = 255  // bytes
)

// Bounds limit a tree.
type Bounds struct {
	Bytes int64 // of all files together
	Files int64 // and folders and links
	Links bool  // symbolic links are allowed; they are kept as data
}

// stored are the bounds of what a store accepts. The bounds of a run are
// smaller and apply when a tree is captured.
func stored() Bounds { return Bounds{Bytes: 1 << 40, Files: 1 << 24, Links: true} }

// ArchiveSize is the largest archive that a tree within the bounds can have
// before it is canonical, with room for headers and long names.
func (b Bounds) ArchiveSize() int64 { return b.Bytes + (b.Files+2)*(4<<10) }

// An Entry is one file, folder or symbolic link of a tree.
type Entry struct {
	Path   string      // clean, relative, slash-separated
	Mode   fs.FileMode // type and permission bits
	Size   int64       // of a file
	Target string      // of a link
}

// digestHeader begins what a tree's digest is taken of. No text, code or patch
// may begin with it: it could have the digest of a tree.
const digestHeader = "securebench tree 1\n"

// HasTreeDigest reports whether a text could have the digest of a tree, so
// that the store would have one name for both. No candidate may be like that.
func HasTreeDigest(text []byte) bool { return bytes.HasPrefix(text, []byte(digestHeader)) }

func errTreeDigest() error {
	return Reject(verdict.CandidateNotRegular, "the candidate begins like the digest of a tree: %q", digestHeader)
}

// TreeWriter writes a tree in its canonical form: an archive whose entries are
// sorted by path component, folders before their content, and whose headers
// contain only path, type, permission bits, size and link target. Its digest
// is SHA-256 over one line per entry: type, permission bits, content digest,
// path and link target.
type TreeWriter struct {
	tw      *tar.Writer
	bounds  Bounds
	sum     hash.Hash
	last    Entry
	content string // the digest of the last file's content
	begun   bool
	files   int64
	bytes   int64
}

// NewTreeWriter returns a writer for an empty tree.
func NewTreeWriter(w io.Writer, b Bounds) *TreeWriter {
	sum := sha256.New()
	_, _ = io.WriteString(sum, digestHeader)
	return &TreeWriter{tw: tar.NewWriter(w), bounds: b, sum: sum}
}

// Add writes one entry; content is read for a file alone. An entry that a tree
// may not contain is a [*Rejection] that names it.
func (t *TreeWriter) Add(e Entry, content io.Reader) error { return t.add(e, content, nil) }

// add writes one entry, whose content each, unless it is nil, gets on the way.
func (t *TreeWriter) add(e Entry, content io.Reader, each func(Entry, io.Reader) error) error {
	if err := t.check(e); err != nil {
		return err
	}
	if e.Mode&fs.ModeSymlink != 0 {
		e.Mode = fs.ModeSymlink | 0o777
	}
	t.last, t.begun = e, true
	h := e.header()
	if err := t.tw.WriteHeader(h); err != nil {
		return fmt.Errorf("writing tree entry %q: %w", e.Path, err)
	}
	if !e.Mode.IsRegular() {
		content = strings.NewReader("")
	}
	sum, n := sha256.New(), &counter{}
	body := io.TeeReader(io.LimitReader(content, e.Size), io.MultiWriter(t.tw, sum, n))
	if each != nil {
		if err := each(e, body); err != nil {
			return err
		}
	}
	_, err := io.Copy(io.Discard, body)
	if err == nil && n.n != e.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("reading tree entry %q: %w", e.Path, err)
	}
	contentSum := "-"
	if e.Mode.IsRegular() {
		contentSum = digest.Format(sum.Sum(nil))
	}
	t.content = contentSum
	// No part can hold a NUL, so no two trees have the same lines.
	_, err = fmt.Fprintf(t.sum, "%c %04o %s\x00%s\x00%s\x00\n", h.Typeflag, e.Mode.Perm(), contentSum, e.Path, e.Target)
	return err
}

// counter counts the bytes written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

// Close finishes the tree and returns its digest.
func (t *TreeWriter) Close() (sum string, err error) {
	if err := t.tw.Close(); err != nil {
		return "", fmt.Errorf("closing a tree: %w", err)
	}
	return digest.Format(t.sum.Sum(nil)), nil
}

// header is the canonical header.
func (e Entry) header() *tar.Header {
	h := &tar.Header{Name: e.Path, Mode: int64(e.Mode.Perm()), ModTime: time.Unix(0, 0)}
	switch {
	case e.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, e.Path+"/"
	case e.Mode&fs.ModeSymlink != 0:
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.Target, 0o777
	default:
		h.Typeflag, h.Size = tar.TypeReg, e.Size
	}
	return h
}

// check refuses entries that are not allowed in a tree, or not at this
// position.
func (t *TreeWriter) check(e Entry) error {
	if err := e.check(t.bounds.Links); err != nil {
		return err
	}
	t.files++
	t.bytes += e.Size
	switch {
	case t.files > t.bounds.Files:
		return Reject(verdict.CandidateTooLarge, "the tree has more than %d files and folders, of which %q is one", t.bounds.Files, e.Path)
	case t.bytes > t.bounds.Bytes:
		return Reject(verdict.CandidateTooLarge, "the tree has more than %d bytes with %q", t.bounds.Bytes, e.Path)
	}
	if dir := path.Dir(e.Path); dir != "." && !t.inside(dir) {
		return bad(e.Path, "lies below a name that is not a folder of the tree")
	}
	if !t.begun {
		return nil
	}
	switch order := comparePaths(t.last.Path, e.Path); {
	case order == 0:
		return bad(e.Path, "stands in the tree twice")
	case order > 0:
		return bad(e.Path, "is out of order")
	}
	return nil
}

// inside reports whether dir is a folder above, or is, the last entry: in
// canonical order, those are the only folders that can get an entry.
func (t *TreeWriter) inside(dir string) bool {
	if t.last.Path == dir {
		return t.last.Mode.IsDir()
	}
	return strings.HasPrefix(t.last.Path, dir+"/")
}

// check refuses names and types that are not allowed in a tree.
func (e Entry) check(links bool) error {
	if err := checkName(e.Path); err != nil {
		return err
	}
	switch {
	case e.Mode.IsDir(), e.Mode.IsRegular():
		if e.Target != "" || e.Size < 0 || e.Mode.IsDir() && e.Size != 0 {
			return bad(e.Path, "has a header that does not fit its type")
		}
		return nil
	case e.Mode.Type() != fs.ModeSymlink:
		return bad(e.Path, "is neither a file nor a folder nor a symbolic link")
	case !links:
		return bad(e.Path, "is a symbolic link")
	case e.Size != 0:
		return bad(e.Path, "has a header that does not fit its type")
	case e.Target == "" || len(e.Target) > maxPath || strings.ContainsRune(e.Target, 0) || !utf8.ValidString(e.Target):
		return bad(e.Path, "has a link target that cannot be kept")
	}
	return nil
}

// checkName refuses names that are not clean relative paths.
func checkName(name string) error {
	switch {
	case !utf8.ValidString(name):
		return Reject(verdict.InvalidUTF8, "tree entry %q has a name that is not valid UTF-8", name)
	case name == "" || strings.ContainsRune(name, 0):
		return bad(name, "has an empty name or one with a NUL")
	case strings.Contains(name, `\`):
		return bad(name, "has a backslash in its name")
	case strings.HasPrefix(name, "/"):
		return bad(name, "has an absolute name")
	case len(name) > maxPath || strings.Count(name, "/") >= maxDepth:
		return Reject(verdict.CandidateTooLarge, "tree entry %.80q lies too deep or has a name that is too long", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return bad(name, `has an empty part, "." or ".." in its name`)
		case len(part) > maxPart:
			return Reject(verdict.CandidateTooLarge, "tree entry %.80q has a part longer than %d bytes", name, maxPart)
		}
	}
	return nil
}

// bad rejects an entry by its name.
func bad(name, what string) error {
	return Reject(verdict.CandidateNotRegular, "tree entry %.80q %s", name, what)
}

// comparePaths orders by path component: the content of a folder follows it
// directly.
func comparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if x, y := a[i], b[i]; x != y {
			switch {
			case x == '/':
				return -1
			case y == '/' || x > y:
				return 1
			}
			return -1
		}
	}
	return len(a) - len(b)
}

// errNotCanonical rejects an archive that is not in canonical form.
func errNotCanonical() error {
	return Reject(verdict.CandidateNotRegular, "the archive of the tree is not in its canonical form")
}

// ReadTree reads a canonical archive and calls each, which may be nil, for
// every entry. It returns the digest. An archive that is not byte for byte
// what [TreeWriter] would have written is refused, at the latest at its end:
// do not use its entries before that.
func ReadTree(r io.Reader, b Bounds, each func(Entry, io.Reader) error) (sum string, err error) {
	got, want := sha256.New(), sha256.New()
	raw := io.TeeReader(r, got)
	tr, tw := tar.NewReader(onlyReader{raw}), NewTreeWriter(want, b)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", archiveError(err)
		}
		e, err := entryOf(h)
		if err != nil {
			return "", err
		}
		if err := tw.add(e, tr, each); err != nil {
			return "", archiveError(err)
		}
	}
	if sum, err = tw.Close(); err != nil {
		return "", err
	}
	if _, err := io.CopyN(io.Discard, raw, 1); err == nil {
		return "", errNotCanonical() // nothing may follow the end
	} else if !errors.Is(err, io.EOF) {
		return "", err
	}
	if string(got.Sum(nil)) != string(want.Sum(nil)) {
		return "", errNotCanonical()
	}
	return sum, nil
}

// onlyReader hides that a reader can seek, so that every byte is read.
type onlyReader struct{ io.Reader }

// archiveError rejects an archive that cannot be read as one. Errors of the
// underlying reader are returned unchanged.
func archiveError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrFieldTooLong) {
		return Reject(verdict.CandidateNotRegular, "the archive of the tree is damaged: %v", err)
	}
	return err
}

// ForeignEntry reads a header that is not canonical: times, owners, "./" and
// the records named in ignore don't matter. Types that a tree cannot hold are
// refused by name.
func ForeignEntry(h *tar.Header, ignore ...string) (Entry, error) {
	for strings.HasPrefix(h.Name, "./") && len(h.Name) > 2 {
		h.Name = h.Name[2:]
	}
	for _, key := range append(ignore, "mtime", "atime", "ctime", "uid", "gid", "uname", "gname") {
		delete(h.PAXRecords, key)
	}
	return entryOf(h)
}

// entryOf reads a header. Types that a tree cannot hold are refused by name.
func entryOf(h *tar.Header) (Entry, error) {
	e := Entry{Path: h.Name, Mode: fs.FileMode(h.Mode) & fs.ModePerm, Size: h.Size}
	for key := range h.PAXRecords {
		if key != "path" && key != "linkpath" && key != "size" {
			return e, bad(h.Name, "has extended headers that no tree needs")
		}
	}
	switch h.Typeflag {
	case tar.TypeReg:
	case tar.TypeDir:
		e.Mode |= fs.ModeDir
		e.Path = strings.TrimSuffix(h.Name, "/")
	case tar.TypeSymlink:
		e.Mode |= fs.ModeSymlink
		e.Target = h.Linkname
	default:
		return e, bad(h.Name, "is "+TypeName(h.Typeflag))
	}
	return e, nil
}

// TypeName names a type of archive entries that is not a file.
func TypeName(flag byte) string {
	switch flag {
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
	case tar.TypeGNUSparse:
		return "a sparse file"
	}
	return "a special file"
}
