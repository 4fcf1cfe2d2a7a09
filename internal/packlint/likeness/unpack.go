package likeness

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"securebench/internal/bounded"
	"securebench/internal/digest"
)

// The bounds of what is unpacked of one file.
const (
	maxUnpacked  = 256 << 20 // bytes
	maxMembers   = 10_000
	maxDepth     = 4        // of archives and compressed contents within each other
	maxInner     = 16 << 20 // bytes of a zip archive within another archive
	maxDirectory = 4 << 20  // bytes of the directory of a zip archive
	maxWindow    = 32 << 20 // bytes that a decompressor keeps
)

// Content is a file to be looked at.
type Content interface {
	io.Reader
	io.ReaderAt
}

// Walk calls each for a file, whose digest is known, and for everything in it if it is
// an archive or compressed: zip, tar, gzip, bzip2, zstd. Beyond its bounds, and where an archive is
// broken, it goes no further. A text in JSON that is a program is a member, too. The error
// is that of reading the file.
func Walk(f Content, size int64, sum string, each func(member string, content []byte, m Marks)) error {
	head := make([]byte, headSize)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	kind := formatOf(head[:n])
	if kind == plain && size <= maxText {
		data, err := io.ReadAll(io.LimitReader(f, maxText+1))
		if err == nil {
			look("", data, each)
		}
		return err
	}
	each("", nil, ofDigest(sum))
	u := &unpacker{left: maxUnpacked, each: each}
	switch kind {
	case plain:
	case zipped:
		u.zip("", f, size, 1)
	default:
		u.content("", u.limited(f), 0)
	}
	return nil
}

// unpacker reads archives until a bound is reached.
type unpacker struct {
	left    int64 // bytes
	members int
	each    func(member string, content []byte, m Marks)
	visit   *Visitor // of a layer, or nil
}

type format int

const (
	plain format = iota
	zipped
	tarred
	gzipped
	bzipped
	zstandard
)

// headSize is how much of a content tells its format.
const headSize = 512

// formatOf goes by the content: a name can say anything.
func formatOf(head []byte) format {
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return zipped
	case len(head) >= 262 && string(head[257:262]) == "ustar":
		return tarred
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return gzipped
	case bytes.HasPrefix(head, []byte("BZh")):
		return bzipped
	case bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		return zstandard
	}
	return plain
}

// limited bounds what is read of the file and what decompressors give, together.
func (u *unpacker) limited(r io.Reader) io.Reader { return &limited{u, r} }

type limited struct {
	u *unpacker
	r io.Reader
}

var errBound = errors.New("more than what is unpacked")

func (b *limited) Read(p []byte) (int, error) {
	if b.u.left <= 0 {
		return 0, errBound
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.u.left)])
	b.u.left -= int64(n)
	return n, err
}

// content looks at one content, whatever it is.
func (u *unpacker) content(name string, from io.Reader, depth int) {
	r := bufio.NewReaderSize(from, 4<<10)
	head, _ := r.Peek(headSize)
	kind := formatOf(head)
	if depth >= maxDepth {
		kind = plain
	}
	var inner io.Reader
	var err error
	switch kind {
	case plain:
		if u.visit != nil && depth > 0 {
			u.plain(name, io.TeeReader(r, u.visit.Part))
			u.visit.PartEnd(name)
			return
		}
		u.plain(name, r)
		return
	case tarred:
		u.tar(name, r, depth+1)
		return
	case zipped:
		data, err := bounded.ReadAll(r, maxInner)
		if err == nil {
			u.zip(name, bytes.NewReader(data), int64(len(data)), depth+1)
		}
		return
	case gzipped:
		inner, err = gzip.NewReader(r)
	case bzipped:
		inner = bzip2.NewReader(r)
	case zstandard:
		var d *zstd.Decoder
		if d, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow)); err == nil {
			defer d.Close()
			inner = d
		}
	}
	if err == nil {
		u.content(name, u.limited(inner), depth+1)
	}
}

// plain looks at a content that is no archive.
func (u *unpacker) plain(name string, r io.Reader) {
	if u.members++; u.members > maxMembers {
		return
	}
	data, err := io.ReadAll(io.LimitReader(r, maxText+1))
	if err != nil {
		return
	}
	if len(data) <= maxText {
		look(name, data, u.each)
		return
	}
	sum := sha256.New()
	_, _ = sum.Write(data)
	if _, err := io.Copy(sum, r); err == nil {
		u.each(name, nil, ofDigest(digest.Format(sum.Sum(nil))))
	}
}

func (u *unpacker) tar(name string, r io.Reader, depth int) {
	for t := tar.NewReader(r); u.members <= maxMembers; {
		h, err := t.Next()
		if err != nil {
			return
		}
		if u.members++; h.Typeflag == tar.TypeReg {
			u.content(path.Join(name, h.Name), t, depth)
		}
	}
}

// zipBzip2 is the method of members that bzip2 has compressed.
const zipBzip2 = 12

func (u *unpacker) zip(name string, at io.ReaderAt, size int64, depth int) {
	directory := &counted{ReaderAt: at, left: maxDirectory}
	z, err := zip.NewReader(directory, size)
	if z == nil || err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return
	}
	directory.left = -1
	z.RegisterDecompressor(zipBzip2, func(r io.Reader) io.ReadCloser { return io.NopCloser(bzip2.NewReader(r)) })
	document := isDocument(z)
	for _, f := range z.File {
		own := document && (strings.HasSuffix(f.Name, ".xml") || strings.HasSuffix(f.Name, ".rels"))
		if own && u.visit == nil {
			continue // what documents of one program have in common says nothing
		}
		if u.members++; u.members > maxMembers || u.left <= 0 {
			return
		}
		if r, err := f.Open(); err == nil && f.Mode().IsRegular() {
			each := u.each
			if own { // it is searched, and a copy of nothing
				u.each = func(string, []byte, Marks) {}
			}
			u.content(path.Join(name, f.Name), u.limited(r), depth)
			u.each = each
			_ = r.Close() // nothing is written
		}
	}
}

// isDocument reports whether an archive is a document of an office program.
func isDocument(z *zip.Reader) bool {
	return slices.ContainsFunc(z.File, func(f *zip.File) bool {
		return f.Name == "[Content_Types].xml" || f.Name == "META-INF/manifest.xml"
	})
}

// counted bounds how much is read of an archive's directory, which is kept in memory;
// a negative bound is none.
type counted struct {
	io.ReaderAt
	left int64
}

// ReadAt reads within the bound.
func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	if c.left >= 0 {
		if c.left -= int64(len(p)); c.left < 0 {
			c.left = 0
			return 0, errBound
		}
	}
	return c.ReaderAt.ReadAt(p, off)
}
