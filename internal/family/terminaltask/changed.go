package terminaltask

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"securebench/internal/candidate"
	"securebench/internal/piped"
	"securebench/internal/sandbox"
)

// changedPaths are those of a folder's entries that changed.
type changedPaths struct {
	now  map[string]bool // new, or other than before
	gone []string        // no longer there, without what lay below them
}

// changedBetween compares two looks at a folder.
func changedBetween(before, now *candidate.Base) changedPaths {
	out := changedPaths{now: map[string]bool{}}
	was, is := before.All(), now.All()
	old, hasOld := was()
	cur, hasCur := is()
	for hasOld || hasCur {
		var order int
		switch {
		case !hasOld:
			order = 1
		case !hasCur:
			order = -1
		default:
			order = candidate.ComparePaths(old.Path, cur.Path)
		}
		switch {
		case order < 0:
			out.lose(old.Path)
		case order > 0 || old != cur:
			out.now[cur.Path] = true
		}
		if order <= 0 {
			old, hasOld = was()
		}
		if order >= 0 {
			cur, hasCur = is()
		}
	}
	return out
}

// lose notes a path that is gone, in the order of paths.
func (p *changedPaths) lose(name string) {
	if n := len(p.gone); n == 0 || !strings.HasPrefix(name, p.gone[n-1]+"/") {
		p.gone = append(p.gone, name)
	}
}

// none reports whether nothing changed.
func (p changedPaths) none() bool { return len(p.now) == 0 && len(p.gone) == 0 }

// write writes the changes as a candidate's are written, with names below at, from
// the archive of what the folder is now. What no tree holds is a deletion.
func (p changedPaths) write(w io.Writer, now io.Reader, at string) error {
	tw, tr := tar.NewWriter(w), tar.NewReader(now)
	for _, name := range p.gone {
		if err := tw.WriteHeader(deletion(path.Join(at, name))); err != nil {
			return err
		}
	}
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading what a folder is now: %w", err)
		}
		if name := strings.TrimSuffix(h.Name, "/"); name != "." && p.now[name] {
			if err := tw.WriteHeader(keptOf(h, path.Join(at, name))); err != nil {
				return err
			}
			if _, err := io.Copy(tw, tr); err != nil {
				return err
			}
		}
	}
	if _, err := io.Copy(io.Discard, now); err != nil {
		return err
	}
	return tw.Close()
}

// keptOf is what a tree keeps of an entry: no times, special bits and attributes.
func keptOf(h *tar.Header, name string) *tar.Header {
	out := &tar.Header{Typeflag: h.Typeflag, Name: name, Mode: h.Mode & 0o777, Uid: h.Uid, Gid: h.Gid}
	switch h.Typeflag {
	case tar.TypeReg:
		out.Size = h.Size
	case tar.TypeSymlink:
		out.Linkname = h.Linkname
	case tar.TypeDir:
		out.Name += "/"
	default:
		return deletion(name)
	}
	return out
}

// deletion is the entry by which changes remove a path.
func deletion(name string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Format: tar.FormatPAX, PAXRecords: map[string]string{sandbox.DeletedRecord: "1"}}
}

// copy pipes the changes to read, from a function that writes what the folder is
// now.
func (p changedPaths) copy(now func(io.Writer) error, at string, read func(io.Reader) error) error {
	return piped.Run(func(w io.Writer) error {
		return piped.Run(now, func(r io.Reader) error { return p.write(w, r, at) })
	}, read)
}
