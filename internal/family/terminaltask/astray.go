package terminaltask

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/pathname"
	"securebench/internal/piped"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/workspace"
)

// astray reports whether a link misleads by where it leads in the end.
func (s *scorer) astray(ctx context.Context, at, target string, to initproc.Place) (bool, error) {
	a := s.placing
	if a.hides(at, to.Path) {
		return true, nil
	}
	if pathname.Within(at, candidateDir) && pathname.Within(to.Path, candidateDir) {
		return false, nil
	}
	if !path.IsAbs(target) {
		target = path.Join(path.Dir(at), target)
	}
	if a.foreign(to.Path) {
		same, err := s.sameInImage(ctx, target, to.Path)
		return !same, err
	}
	return s.leadsNowhere(to)
}

// hides reports whether a link leads to what only a verification has, or where none
// can follow it, which is "".
func (a arrangement) hides(at, to string) bool {
	if to == "" {
		return true
	}
	if pathname.Within(at, candidateDir) && pathname.Within(to, candidateDir) {
		return false
	}
	for _, dir := range append(workspace.Reserved(), a.folders...) {
		for _, hidden := range []string{dir, cmp.Or(a.leads[dir], dir)} {
			if pathname.Overlap(to, hidden) {
				return true
			}
		}
	}
	return false
}

// foreign reports whether a path of an image of the checker's own is neither among
// what is captured nor a program or library.
func (a arrangement) foreign(to string) bool {
	return a.image != "" && !workspace.SystemPath(to) && !a.captures(to)
}

// captures reports whether a path without links is among what the row captures.
func (a arrangement) captures(to string) bool {
	return slices.ContainsFunc(append(a.roots(), a.workdir), func(dir string) bool {
		own := cmp.Or(a.leads[dir], dir)
		return pathname.Within(to, own) && covers(a.captured, a.workdir, dir+strings.TrimPrefix(to, own))
	}) || a.captured.Filesystem && covers(a.captured, a.workdir, to)
}

// maxAsked bounds the links of one candidate about which the row's image is asked.
const maxAsked = 16

// sameInImage reports whether a path of a program leads to the same place in the
// row's image, and something is there. Then the image's programs are arranged so,
// and the link is to one of them; else what only the checker's image has is there.
func (s *scorer) sameInImage(ctx context.Context, target, to string) (bool, error) {
	if !workspace.SystemPath(target) || s.asked >= maxAsked {
		return false, nil
	}
	s.asked++
	found, err := s.inImage(ctx, s.c.Image, "leads "+target+" "+to, func(c *initproc.Client) ([]byte, error) {
		there, err := c.Destinations(ctx, []string{target})
		if err != nil || there[0].Missing || there[0].Path != to {
			return nil, err
		}
		return []byte("same"), nil
	})
	return len(found) > 0, err
}

// leadsNowhere reports whether a link leads to where nothing is yet and the checker
// could make something, such as the answer that it expects: then it would compare
// that with itself. A folder like /tmp, to which everybody may write, counts as such.
// Among what is captured a link may lead to nothing, unless the checker speaks of that
// name.
func (s *scorer) leadsNowhere(to initproc.Place) (bool, error) {
	all := slices.Contains(s.row.capabilities, sandbox.DACOverride)
	made := to.Missing && to.Mode != 0 && (all || to.Writable(s.user.UID, s.user.GID))
	if !s.placing.captures(to.Path) {
		return made || to.Folder && to.Mode&0o002 != 0, nil
	}
	if !made {
		return false, nil
	}
	if err := s.readChecker(); err != nil {
		return false, err
	}
	return !looksAtLinks.Match(s.text) && speaksOf(s.text, path.Base(to.Path)), nil
}

// looksAtLinks matches what checkers write to look at links themselves.
var looksAtLinks = lazyregexp.New(`\breadlink\b|\bislink\b|\bis_symlink\b|\blstat\b|\btest -[Lh]\b|\[ -[Lh]\b|-type l\b`)

// speaksOf reports whether a text has a name as a word.
func speaksOf(text []byte, name string) bool {
	part := func(b byte) bool {
		return b == '_' || b == '-' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
	}
	for rest, before := text, byte(0); ; {
		i := bytes.Index(rest, []byte(name))
		if i < 0 {
			return false
		}
		if i > 0 {
			before = rest[i-1]
		}
		end := i + len(name)
		if !part(before) && (end == len(rest) || !part(rest[end])) {
			return true
		}
		before, rest = rest[i], rest[i+1:]
	}
}

// The bounds of what is read of a checker, in bytes.
const (
	maxText  = 1 << 20 // of one file
	maxTexts = 16 << 20
)

// readChecker reads the checker's command and the text files among its evaluation
// files, once.
func (s *scorer) readChecker() error {
	if s.text != nil {
		return nil
	}
	s.text = []byte(strings.Join(s.row.argv, "\n") + "\n")
	all, err := s.layouts()
	if err != nil {
		return err
	}
	return piped.Run(func(w io.Writer) error { return all.evaluation.WriteTar(w, 0, 0) }, func(r io.Reader) error {
		for tr := tar.NewReader(r); ; {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if h.Size > maxText || len(s.text) > maxTexts {
				continue
			}
			data, err := io.ReadAll(tr)
			if err != nil {
				return err
			}
			if bytes.IndexByte(data, 0) < 0 {
				s.text = append(append(s.text, data...), '\n')
			}
		}
	})
}
