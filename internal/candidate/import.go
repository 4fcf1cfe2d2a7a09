package candidate

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"path"
	"slices"
	"strings"

	"securebench/internal/digest"
	"securebench/internal/pathname"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// member is one entry of a foreign archive, where its content lies and, of a
// file, the content's digest.
type member struct {
	Entry
	at  int64
	sum string
}

// end is where the header after the member lies.
func (m member) end() int64 { return m.at + (m.Size+tarBlock-1)/tarBlock*tarBlock }

const tarBlock = 512

// A Place says where the content of a foreign archive lies in a sandbox, and
// whose it is.
type Place struct {
	Dir   string // absolute
	Owner sandbox.User
}

// Import writes a foreign archive, which a person says holds files
// below a folder, as a tree in canonical form. Order, times and owners don't
// matter; everything else that no tree may hold is a [*Rejection] that names it.
// Nothing is deleted. The archive is read twice and must have the digest want;
// "" is any.
func Import(archive io.ReadSeeker, want string, at Place, b Bounds, w io.Writer) (sum string, err error) {
	members, err := index(archive, want, at, b)
	if err != nil {
		return "", err
	}
	slices.SortFunc(members, func(x, y member) int { return ComparePaths(x.Path, y.Path) })
	tw := NewTreeWriter(w, b)
	for _, m := range members {
		if _, err := archive.Seek(m.at, io.SeekStart); err != nil {
			return "", err
		}
		if err := tw.Add(m.Entry, archive); err != nil {
			return "", err
		}
		if m.Mode.IsRegular() && tw.content != m.sum {
			return "", errArchiveChanged
		}
	}
	return tw.Close()
}

var errArchiveChanged = errors.New("the archive changed since it was checked")

// index finds the members of an archive, which is read to its last byte.
func index(archive io.ReadSeeker, want string, at Place, b Bounds) ([]member, error) {
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	in := &positioned{r: archive, sum: sha256.New(), left: b.ArchiveSize()}
	tr, seen := tar.NewReader(in), map[string]bool{}
	var out []member
	end, buf := int64(0), make([]byte, 32<<10)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, archiveError(err)
		}
		m := member{at: in.at}
		if m.Entry, err = noted(seen, h, at, b); err != nil {
			return nil, err
		}
		sum := sha256.New()
		if _, err := io.CopyBuffer(sum, tr, buf); err != nil {
			return nil, archiveError(err)
		}
		m.sum, end = digest.Format(sum.Sum(nil)), m.end()
		if m.Path != "" { // the folder has no entry
			out = append(out, m)
		}
	}
	if err := ended(archive, end, in.at); err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return nil, err
	}
	if want != "" && digest.Format(in.sum.Sum(nil)) != want {
		return nil, errArchiveChanged
	}
	return out, nil
}

// ended refuses an archive that was cut between two entries: after the last,
// at end, it must have a block of zeros before at, up to where it was read.
func ended(archive io.ReadSeeker, end, at int64) error {
	var block [tarBlock]byte
	if at < end+tarBlock {
		return archiveError(io.ErrUnexpectedEOF)
	}
	if _, err := archive.Seek(-tarBlock, io.SeekCurrent); err != nil {
		return err
	}
	if _, err := io.ReadFull(archive, block[:]); err != nil {
		return err
	}
	if block != [tarBlock]byte{} {
		return archiveError(io.ErrUnexpectedEOF)
	}
	return nil
}

// noted reads one header of an archive in which others were seen, each true, and
// folders that have no entry but will be made, each false.
func noted(seen map[string]bool, h *tar.Header, at Place, b Bounds) (Entry, error) {
	if h.Typeflag == tar.TypeDir && (h.Name == "./" || h.Name == ".") {
		return Entry{}, nil
	}
	e, err := foreignEntry(h)
	if err != nil {
		return e, err
	}
	if err := e.check(); err != nil {
		return e, err
	}
	if e.Deleted {
		return e, bad(e.Path, "is a deletion, but an archive that is replayed holds only files")
	}
	e.Path, e.UID, e.GID = strings.TrimPrefix(path.Join(at.Dir, e.Path), "/"), at.Owner.UID, at.Owner.GID
	if seen[e.Path] {
		return e, bad(e.Path, "is in the archive twice")
	}
	seen[e.Path] = true
	for dir := path.Dir(e.Path); pathname.Within("/"+dir, at.Dir) && "/"+dir != path.Clean(at.Dir); dir = path.Dir(dir) {
		if _, there := seen[dir]; there {
			break
		}
		seen[dir] = false
	}
	if int64(len(seen)) > b.Files {
		return e, Reject(verdict.CandidateTooLarge, "the tree has more than %d files and folders", b.Files)
	}
	return e, nil
}

// positioned is a reader that counts the bytes read.
type positioned struct {
	r    io.Reader
	sum  hash.Hash
	at   int64
	left int64
}

func (p *positioned) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.sum.Write(b[:n])
	p.at += int64(n)
	if p.left -= int64(n); p.left < 0 {
		return n, Reject(verdict.CandidateTooLarge, "the archive is larger than any tree within the limits: %d bytes", p.at)
	}
	return n, err
}
