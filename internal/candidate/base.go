package candidate

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"securebench/internal/sandbox"
)

// A Base is what a folder held before an agent changed it: a fingerprint of
// every entry, with its content's digest, since an agent can set times. It takes
// about 60 bytes per entry, never changes, and may be shared.
type Base struct {
	// data holds the fingerprints one after another, in order, each path without
	// what it shares with the one before.
	data  []byte
	files int64
	bytes int64 // of all files together
}

// ReadBase reads what [sandbox.Workspace.Get] writes of a folder. More than the
// bounds is an error that wraps [sandbox.ErrTooLarge].
func ReadBase(archive io.Reader, b Bounds) (*Base, error) {
	base, last := &Base{}, ""
	tr, buf := tar.NewReader(bufio.NewReaderSize(archive, atOnce)), make([]byte, 32<<10)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return base, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the archive of a base: %w", err)
		}
		p, sum := NewFingerprint(h), sha256.New()
		if base.files > 0 && ComparePaths(last, p.Path) >= 0 {
			return nil, fmt.Errorf("reading the archive of a base: %q is out of order", p.Path)
		}
		if base.files++; base.files > b.Files || p.Size > b.Bytes-base.bytes {
			return nil, fmt.Errorf("the base has more than %d files or %d bytes: %w", b.Files, b.Bytes, sandbox.ErrTooLarge)
		}
		base.bytes += p.Size
		if p.Mode.IsRegular() {
			if _, err := io.CopyBuffer(sum, onlyReader{tr}, buf); err != nil {
				return nil, fmt.Errorf("reading %q of a base: %w", p.Path, err)
			}
			p.Sum = [sha256.Size]byte(sum.Sum(nil))
		}
		base.append(last, p)
		last = p.Path
	}
}

// Bounds returns how many bytes and entries the base has.
func (b *Base) Bounds() Bounds {
	if b == nil {
		return Bounds{}
	}
	return Bounds{Bytes: b.bytes, Files: b.files}
}

// A Fingerprint tells whether an entry of a folder has changed.
type Fingerprint struct {
	Path     string
	Mode     fs.FileMode // with all bits
	UID, GID int
	Size     int64 // of a file
	// Sum is the digest of a file's content, or of a link's target and of what
	// else the header says.
	Sum [sha256.Size]byte
}

// Same reports whether two fingerprints are equal except for the content of files.
func (p Fingerprint) Same(as Fingerprint) bool {
	if p.Mode.IsRegular() {
		p.Sum = as.Sum
	}
	return p == as
}

// NewFingerprint returns the fingerprint of an entry of a workspace's archive,
// of a file without the digest of its content.
func NewFingerprint(h *tar.Header) Fingerprint {
	p := Fingerprint{Path: strings.TrimSuffix(h.Name, "/"), Mode: h.FileInfo().Mode(), UID: h.Uid, GID: h.Gid}
	if p.Mode.IsRegular() {
		p.Size = h.Size
		return p
	}
	p.Sum = sha256.Sum256(fmt.Appendf(nil, "%c %d %d %q %q", h.Typeflag, h.Devmajor, h.Devminor, h.Linkname, h.PAXRecords[typeRecord]))
	return p
}

// typeRecord is the record with which a workspace's archive tells apart what has
// no type of its own in archives.
const typeRecord = "SECUREBENCH.type"

// append adds a fingerprint after one with the path last.
func (b *Base) append(last string, p Fingerprint) {
	shared := 0
	for shared < len(last) && shared < len(p.Path) && last[shared] == p.Path[shared] {
		shared++
	}
	for _, n := range []uint64{uint64(shared), uint64(len(p.Path) - shared), uint64(p.Mode), uint64(p.UID), uint64(p.GID), uint64(p.Size)} { //nolint:gosec // none is negative, see the reader
		b.data = binary.AppendUvarint(b.data, n)
	}
	b.data = append(b.data, p.Path[shared:]...)
	b.data = append(b.data, p.Sum[:]...)
}

// All returns a function that returns one fingerprint after another, in the
// order of the archive, and false after the last.
func (b *Base) All() func() (Fingerprint, bool) {
	if b == nil {
		b = &Base{}
	}
	rest, last := b.data, ""
	return func() (p Fingerprint, ok bool) {
		if len(rest) == 0 {
			return p, false
		}
		var n [6]uint64
		for i := range n {
			v, width := binary.Uvarint(rest)
			n[i], rest = v, rest[width:]
		}
		p = Fingerprint{Path: last[:n[0]] + string(rest[:n[1]]), Mode: fs.FileMode(n[2]), UID: int(n[3]), GID: int(n[4]), Size: int64(n[5])} //nolint:gosec // as append wrote them
		rest = rest[n[1]:]
		p.Sum, rest = [sha256.Size]byte(rest), rest[sha256.Size:]
		last = p.Path
		return p, true
	}
}
