package candidate

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"io/fs"
	"path"
	"slices"

	"securebench/internal/digest"
	"securebench/internal/verdict"
)

// member is one entry of a foreign archive and the position of its content.
type member struct {
	Entry
	at int64
}

// Import converts a foreign tar archive to the canonical form of a tree.
// Order, times, owners and missing entries for folders don't matter; anything
// else that a tree may not contain is a [*Rejection] that names it. The
// archive is read twice and must have the digest want; "" accepts any.
func Import(archive io.ReadSeeker, want string, b Bounds, w io.Writer) (sum string, err error) {
	members, err := index(archive, want, b)
	if err != nil {
		return "", err
	}
	slices.SortFunc(members, func(x, y member) int { return comparePaths(x.Path, y.Path) })
	tw := NewTreeWriter(w, b)
	for _, m := range members {
		if _, err := archive.Seek(m.at, io.SeekStart); err != nil {
			return "", err
		}
		if err := tw.Add(m.Entry, archive); err != nil {
			return "", err
		}
	}
	return tw.Close()
}

// index lists the members of an archive, which is read to its end.
func index(archive io.ReadSeeker, want string, b Bounds) ([]member, error) {
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	in := &positioned{r: archive, sum: sha256.New(), left: b.ArchiveSize()}
	tr, seen := tar.NewReader(in), map[string]member{}
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, archiveError(err)
		}
		if err := note(seen, h, in.at, b); err != nil {
			return nil, err
		}
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return nil, err
	}
	if want != "" && digest.Format(in.sum.Sum(nil)) != want {
		return nil, errors.New("the archive changed since it was checked")
	}
	var out []member
	for _, m := range seen {
		out = append(out, m)
	}
	return withFolders(out, seen), nil
}

// note adds one header to the members.
func note(seen map[string]member, h *tar.Header, at int64, b Bounds) error {
	if h.Typeflag == tar.TypeDir && (h.Name == "./" || h.Name == ".") {
		return nil // the root has no entry
	}
	e, err := ForeignEntry(h)
	if err != nil {
		return err
	}
	if err := e.check(b.Links); err != nil {
		return err
	}
	if _, twice := seen[e.Path]; twice {
		return bad(e.Path, "stands in the archive twice")
	}
	if int64(len(seen)) >= b.Files {
		return Reject(verdict.CandidateTooLarge, "the tree has more than %d files and folders", b.Files)
	}
	seen[e.Path] = member{e, at}
	return nil
}

// withFolders adds the folders that have no entry.
func withFolders(out []member, seen map[string]member) []member {
	for _, m := range slices.Clone(out) {
		for dir := path.Dir(m.Path); dir != "."; dir = path.Dir(dir) {
			if _, there := seen[dir]; there {
				break
			}
			added := member{Entry: Entry{Path: dir, Mode: fs.ModeDir | 0o755}}
			seen[dir] = added
			out = append(out, added)
		}
	}
	return out
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
