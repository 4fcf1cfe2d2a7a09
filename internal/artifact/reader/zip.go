package reader

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/artifact"
	"securebench/internal/bounded"
)

// Bounds of archives.
const (
	maxMembers  = 10_000
	maxUnpacked = 256 << 20 // bytes of all members
	maxPart     = 128 << 20 // bytes of a member that is kept in memory
	maxRatio    = 200       // bytes unpacked for one packed, beyond ratioFree
	ratioFree   = 1 << 20
)

// An archive is a zip whose directory is sound: its members have names that stay below a
// folder, each once, are no links, and are in bounds by what they declare. What they
// declare is held to when they are read.
type archive struct {
	members []*zip.File // without folders
	byName  map[string]*zip.File
}

// openZip opens a zip that begins with its first member: a file of another type in front
// of it would make it two files.
func openZip(data []byte) (*archive, error) {
	if !bytes.HasPrefix(data, []byte("PK\x03\x04")) && (len(data) != 22 || !bytes.HasPrefix(data, []byte("PK\x05\x06"))) {
		return nil, refuse("does not begin as a zip archive")
	}
	// The count at the archive's end may be untrue, and the library would believe it.
	if bytes.Count(data, []byte("PK\x01\x02")) > maxMembers {
		return nil, refuse("has more than %d members", maxMembers)
	}
	in, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, refuse("is a broken zip archive")
	}
	a := &archive{byName: map[string]*zip.File{}}
	var total uint64
	for _, m := range in.File {
		if err := checkMember(m); err != nil {
			return nil, err
		}
		if a.byName[m.Name] != nil {
			return nil, refuse("has a member twice: %q", m.Name)
		}
		a.byName[m.Name] = m
		if total += m.UncompressedSize64; m.UncompressedSize64 > maxUnpacked || total > maxUnpacked {
			return nil, refuse("has more than %d bytes unpacked", maxUnpacked)
		}
		if m.CompressedSize64 > uint64(len(data)) { // which would make any ratio a small one
			return nil, refuse("has a member that is longer than the file: %q", m.Name)
		}
		if m.UncompressedSize64 > ratioFree+maxRatio*m.CompressedSize64 {
			return nil, refuse("has a member of a ratio above %d: %q", maxRatio, m.Name)
		}
		if !strings.HasSuffix(m.Name, "/") {
			a.members = append(a.members, m)
		}
	}
	return a, nil
}

func checkMember(m *zip.File) error {
	name, folder := strings.CutSuffix(m.Name, "/")
	switch {
	case len(m.Name) > 1024, !utf8.ValidString(name), strings.ContainsFunc(name, unicode.IsControl):
		return refuse("has a member whose name is not valid")
	case !filepath.IsLocal(name), strings.Contains(name, `\`), filepath.ToSlash(filepath.Clean(name)) != name:
		return refuse("has a member whose name is not that of a file below a folder: %q", bounded.Text(name, 100))
	case folder != m.Mode().IsDir(), m.Mode().Type()&^fs.ModeDir != 0:
		return refuse("has a member that is no file: %q", bounded.Text(name, 100))
	case m.Flags&1 != 0:
		return refuse("is encrypted")
	case m.Method != zip.Store && m.Method != zip.Deflate:
		return refuse("has a member in an unknown compression: %q", bounded.Text(name, 100))
	}
	return nil
}

// copyTo writes a member to a writer: exactly as many bytes as it declares.
func (a *archive) copyTo(w io.Writer, m *zip.File) error {
	in, err := m.Open()
	if err == nil {
		out := &bounded.Writer{W: w, Left: int64(m.UncompressedSize64), Err: bounded.ErrTooLong}
		_, err = io.Copy(out, in)
		err = errors.Join(err, in.Close())
	}
	if err != nil {
		return refuse("has a broken member: %q", m.Name)
	}
	return nil
}

// part returns the bytes of a member, nil if there is none of that name.
func (a *archive) part(name string) ([]byte, error) {
	m := a.byName[name]
	if m == nil {
		return nil, nil
	}
	if m.UncompressedSize64 > maxPart {
		return nil, refuse("has a part of more than %d bytes: %q", maxPart, name)
	}
	var b bytes.Buffer
	b.Grow(int(min(m.UncompressedSize64, 32*m.CompressedSize64+bytes.MinRead)))
	err := a.copyTo(&b, m)
	return b.Bytes(), err
}

func readZip(data []byte, f *artifact.File) error {
	a, err := openZip(data)
	if err != nil {
		return err
	}
	f.Members = []artifact.Member{}
	for _, m := range a.members {
		sum := sha256.New()
		if err := a.copyTo(sum, m); err != nil {
			return err
		}
		f.Members = append(f.Members, artifact.Member{Name: m.Name, Bytes: int64(m.UncompressedSize64), SHA256: hex.EncodeToString(sum.Sum(nil))})
	}
	slices.SortFunc(f.Members, func(a, b artifact.Member) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}
