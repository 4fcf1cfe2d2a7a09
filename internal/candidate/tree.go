package candidate

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"securebench/internal/digest"
	"securebench/internal/sandbox"
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
	Files int64 // and folders, links and deletions
}

// stored are the bounds of what a store accepts. The bounds of a run are
// smaller and apply when a tree is captured.
func stored() Bounds { return Bounds{Bytes: 1 << 40, Files: 1 << 24} }

// ArchiveSize is the largest archive that a tree within the bounds can have
// before it is canonical, with room for headers and long names.
func (b Bounds) ArchiveSize() int64 { return b.Bytes + (b.Files+2)*(4<<10) }

// An Entry is one change of a tree: a file, folder or symbolic link that is new
// or different, or a path where nothing is any more. A folder is changed only
// itself, not what is in it.
type Entry struct {
	Path     string      // clean, slash-separated, relative to the sandbox's root
	Mode     fs.FileMode // type and permission bits; 0 for a deletion
	UID, GID int         // 0 for a deletion
	Size     int64       // of a file
	Target   string      // of a link
	Deleted  bool
}

// digestHeader begins what a tree's digest is taken of. No text, code or patch
// may begin with it: it could have the digest of a tree.
const digestHeader = "securebench tree 2\n"

// HasTreeDigest reports whether a text could have the digest of a tree, so
// that the store would have one name for both. No candidate may be like that.
func HasTreeDigest(text []byte) bool { return bytes.HasPrefix(text, []byte(digestHeader)) }

func errTreeDigest() error {
	return Reject(verdict.CandidateNotRegular, "the candidate begins like the digest of a tree: %q", digestHeader)
}

// TreeWriter writes a tree in its canonical form: an archive whose entries are
// sorted by path component, folders before their content, and whose headers
// contain only path, type, permission bits, numeric owner, size and link target.
// Folders that are not changed have no entry. A deletion is an empty file with
// the record [sandbox.DeletedRecord]; names have no meaning of their own. The
// digest is SHA-256 over one line per entry: type, permission bits, owner, group,
// content digest, path and link target.
type TreeWriter struct {
	tw      *tar.Writer
	bounds  Bounds
	sum     hash.Hash // of the lines
	data    hash.Hash // of one file
	buf     []byte
	last    Entry
	content string // the digest of the last file's content
	begun   bool
	packs   bool // there is no digest
	files   int64
	bytes   int64
}

// NewTreeWriter returns a writer for an empty tree.
func NewTreeWriter(w io.Writer, b Bounds) *TreeWriter {
	sum := sha256.New()
	_, _ = io.WriteString(sum, digestHeader)
	return &TreeWriter{tw: tar.NewWriter(w), bounds: b, sum: sum, data: sha256.New(), buf: make([]byte, 32<<10)}
}

// NewTreePacker is [NewTreeWriter] without the digest, for a tree whose reader
// takes it anyway: Close returns "".
func NewTreePacker(w io.Writer, b Bounds) *TreeWriter {
	t := NewTreeWriter(w, b)
	t.packs = true
	return t
}

// Add writes one entry; content is read only for a file. An entry that a tree
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
	if err := t.tw.WriteHeader(e.header()); err != nil {
		return fmt.Errorf("writing tree entry %q: %w", e.Path, err)
	}
	if !e.Mode.IsRegular() {
		content = strings.NewReader("")
	}
	n := &counter{}
	t.data.Reset()
	to := io.MultiWriter(t.tw, n)
	if !t.packs {
		to = io.MultiWriter(t.tw, n, t.data)
	}
	body := io.TeeReader(io.LimitReader(content, e.Size), to)
	if each != nil {
		if err := each(e, body); err != nil {
			return err
		}
	}
	_, err := io.CopyBuffer(onlyWriter{io.Discard}, body, t.buf)
	if err == nil && n.n != e.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("reading tree entry %q: %w", e.Path, err)
	}
	if t.packs {
		return nil
	}
	t.content = "-"
	if e.Mode.IsRegular() && !e.Deleted {
		t.content = digest.Format(t.data.Sum(nil))
	}
	return e.line(t.sum, t.content)
}

// line writes what the digest of a tree says of an entry. No part can hold a
// NUL, so no two trees have the same lines.
func (e Entry) line(w io.Writer, content string) error {
	kind := 'f'
	switch {
	case e.Deleted:
		kind = 'x'
	case e.Mode.IsDir():
		kind = 'd'
	case e.Mode&fs.ModeSymlink != 0:
		kind = 'l'
	}
	_, err := fmt.Fprintf(w, "%c %04o %d %d %s\x00%s\x00%s\x00\n", kind, e.Mode.Perm(), e.UID, e.GID, content, e.Path, e.Target)
	return err
}

// onlyWriter hides that a writer can read by itself.
type onlyWriter struct{ io.Writer }

// counter counts the bytes written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

// Close finishes the tree and returns its digest.
func (t *TreeWriter) Close() (sum string, err error) {
	if err := t.tw.Close(); err != nil {
		return "", fmt.Errorf("closing a tree: %w", err)
	}
	if t.packs {
		return "", nil
	}
	return digest.Format(t.sum.Sum(nil)), nil
}

// deleted is the value of [sandbox.DeletedRecord].
const deleted = "1"

// header is the canonical header.
func (e Entry) header() *tar.Header {
	h := &tar.Header{Name: e.Path, Mode: int64(e.Mode.Perm()), Uid: e.UID, Gid: e.GID, ModTime: time.Unix(0, 0)}
	switch {
	case e.Deleted:
		h.Typeflag, h.PAXRecords = tar.TypeReg, map[string]string{sandbox.DeletedRecord: deleted}
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
	if err := e.check(); err != nil {
		return err
	}
	t.files++
	t.bytes += e.Size
	switch {
	case t.files > t.bounds.Files:
		return Reject(verdict.CandidateTooLarge, "the tree has more than %d files and folders, at %q", t.bounds.Files, e.Path)
	case t.bytes > t.bounds.Bytes:
		return Reject(verdict.CandidateTooLarge, "the tree has more than %d bytes, at %q", t.bounds.Bytes, e.Path)
	}
	if !t.begun {
		return nil
	}
	switch order := ComparePaths(t.last.Path, e.Path); {
	case order == 0:
		return bad(e.Path, "is in the tree twice")
	case order > 0:
		return bad(e.Path, "is out of order")
	case !t.last.Mode.IsDir() && strings.HasPrefix(e.Path, t.last.Path+"/"):
		// In this order, what is below a name follows it directly.
		return bad(e.Path, "lies below a name that is not a folder of the tree")
	}
	return nil
}

// maxID is the largest owner: one more means "unchanged" to the kernel.
const maxID = 1<<32 - 2

// check refuses names and types that are not allowed in a tree.
func (e Entry) check() error {
	if err := checkName(e.Path); err != nil {
		return err
	}
	link := e.Mode&fs.ModeSymlink != 0
	switch {
	case e.Mode.Type() != 0 && !e.Mode.IsDir() && e.Mode.Type() != fs.ModeSymlink:
		return bad(e.Path, "is neither a file nor a folder nor a symbolic link")
	case e.UID < 0 || e.UID > maxID || e.GID < 0 || e.GID > maxID:
		return bad(e.Path, "has an owner that no file can have")
	case e.Size < 0, e.Size != 0 && e.Mode.Type() != 0, e.Target != "" && !link, e.Deleted && e != Entry{Path: e.Path, Deleted: true}:
		return bad(e.Path, "has a header that does not fit its type")
	case link && !keepable(e.Target):
		return bad(e.Path, "has a link target that cannot be kept")
	}
	return nil
}

// keepable reports whether a link can have this target in a tree.
func keepable(target string) bool {
	return target != "" && len(target) <= maxPath && !strings.ContainsRune(target, 0) && utf8.ValidString(target)
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
		return Reject(verdict.CandidateTooLarge, "tree entry %.80q is too deep or has a name that is too long", name)
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

// ComparePaths orders by path component: the content of a folder follows it
// directly.
func ComparePaths(a, b string) int {
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
	m := &mirror{}
	raw := io.TeeReader(bufio.NewReaderSize(r, atOnce), writerFunc(m.expect))
	tr, tw := tar.NewReader(onlyReader{raw}), NewTreeWriter(writerFunc(m.compare), b)
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
	if len(m.read) > 0 {
		return "", errNotCanonical()
	}
	return sum, nil
}

// atOnce is how much of an archive is read at a time: small reads of a pipe are
// slow.
const atOnce = 128 << 10

// A mirror compares an archive with its canonical form, which is written of what
// was read and so never ahead of it.
type mirror struct{ read []byte }

func (m *mirror) expect(p []byte) error {
	m.read = append(m.read, p...)
	return nil
}

func (m *mirror) compare(p []byte) error {
	if !bytes.HasPrefix(m.read, p) {
		return errNotCanonical()
	}
	m.read = m.read[:copy(m.read, m.read[len(p):])]
	return nil
}

type writerFunc func(p []byte) error

func (f writerFunc) Write(p []byte) (int, error) { return len(p), f(p) }

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

// foreignEntry reads a header that is not canonical: times, names of owners and
// "./" don't matter. Types that a tree cannot hold are refused by name.
func foreignEntry(h *tar.Header) (Entry, error) {
	for strings.HasPrefix(h.Name, "./") && len(h.Name) > 2 {
		h.Name = h.Name[2:]
	}
	for _, key := range []string{"mtime", "atime", "ctime", "uname", "gname"} {
		delete(h.PAXRecords, key)
	}
	return entryOf(h)
}

// entryOf reads a header. Types that a tree cannot hold are refused by name.
func entryOf(h *tar.Header) (Entry, error) {
	e := Entry{Path: h.Name, Mode: fs.FileMode(h.Mode) & fs.ModePerm, UID: h.Uid, GID: h.Gid, Size: h.Size} //nolint:gosec // masked
	for key, value := range h.PAXRecords {
		switch {
		case key == sandbox.DeletedRecord && value == deleted && h.Typeflag == tar.TypeReg:
			e.Deleted = true
		case !slices.Contains([]string{"path", "linkpath", "size", "uid", "gid"}, key):
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
