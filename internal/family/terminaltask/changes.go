package terminaltask

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/piped"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/verdict"
)

// apply makes the candidate's changes in a box. Nothing has run in it before.
func (s *scorer) apply(ctx context.Context, c candidate.Candidate, client *initproc.Client, a arrangement, note func(path, why string)) error {
	return s.make(ctx, client, reading(c), a.put, note)
}

// reading writes a candidate's archive.
func reading(c candidate.Candidate) func(io.Writer) error {
	return func(w io.Writer) error {
		content, err := c.Open()
		if err != nil {
			return fmt.Errorf("opening the candidate: %w", err)
		}
		defer content.Close()
		_, err = io.Copy(w, content)
		return err
	}
}

// putting says where an entry of an archive of changes goes, or why nowhere.
type putting func(h *tar.Header) (at, why string, ok bool)

// make makes an archive's changes in a box.
func (s *scorer) make(ctx context.Context, client *initproc.Client, source func(io.Writer) error, put putting, note func(path, why string)) error {
	err := piped.Run(func(w io.Writer) error {
		return piped.Run(source, func(content io.Reader) error {
			return copyRenamed(w, content, func(h *tar.Header) (string, bool) {
				at, why, ok := put(h)
				s.linked = s.linked || ok && h.Typeflag == tar.TypeSymlink
				if why != "" && note != nil {
					note("/"+strings.TrimSuffix(h.Name, "/"), why)
				}
				return at, ok
			})
		})
	}, func(r io.Reader) error { return client.Apply(ctx, r) })
	var refused *initproc.ApplyError
	switch {
	case !errors.As(err, &refused):
	case errors.Is(refused.Errno, syscall.ENOSPC), errors.Is(refused.Errno, syscall.EDQUOT):
		return &family.Failure{Reason: verdict.DiskLimit, Message: "the candidate does not fit into the limit of disk space"}
	default:
		s.restricted["apply.txt"] = []byte(refused.Error())
		return &family.Failure{Reason: verdict.CandidateNotRegular, Message: "the candidate's changes cannot be made: " + refused.Errno.Error()}
	}
	if err != nil {
		return fmt.Errorf("making the candidate's changes: %w", err)
	}
	return nil
}

// linkNote says why a link is left out.
const linkNote = "it is a link to what only the checker has"

// put returns where an entry goes; see [arrangement.place].
func (a arrangement) put(h *tar.Header) (at, why string, ok bool) { return a.judge(h, a.place) }

// judge returns where an entry goes by its path, unless it is a link that misleads.
func (a arrangement) judge(h *tar.Header, place func(name string, folder bool) (string, string, bool)) (at, why string, ok bool) {
	name := strings.TrimSuffix(h.Name, "/")
	at, why, ok = place(name, h.Typeflag == tar.TypeDir)
	if ok && h.Typeflag == tar.TypeSymlink && a.misleads(name, at, h.Linkname) {
		why, ok = linkNote, false
	}
	if h.Typeflag == tar.TypeDir {
		at += "/"
	}
	return at, why, ok
}

// leadsOf looks up where folders of the candidate's and of the checker's lead in
// the image. A workspace at a link could not be told from where that leads.
func (s *scorer) leadsOf(ctx context.Context, a arrangement) (map[string]string, error) {
	known := append(append([]string{a.workdir}, a.roots()...), a.folders...)
	leads, err := s.site.checker.Client.Destinations(ctx, known)
	if err != nil {
		return nil, err
	}
	if leads[0].Path != a.workdir {
		return nil, family.Fail(verdict.PackFault, "the workspace %s is at a link of the image's: name the folder itself", a.workdir)
	}
	out := map[string]string{}
	for i, folder := range known {
		out[folder] = leads[i].Path
	}
	return out, nil
}

// removeLinks removes those links of an archive of changes that lead to what only
// the checker has through a link of the image's, which their words do not show, or
// to where nothing is yet. Most archives have no links, and are not read again.
func (s *scorer) removeLinks(ctx context.Context, source func(io.Writer) error, put putting) error {
	if !s.linked {
		return nil
	}
	client := s.site.checker.Client
	var removed []string
	err := piped.Run(func(w io.Writer) error {
		return piped.Run(source, func(content io.Reader) error {
			return copyRenamed(w, content, func(h *tar.Header) (string, bool) {
				at, _, ok := put(h)
				return at, ok && h.Typeflag == tar.TypeSymlink
			})
		})
	}, func(r io.Reader) (err error) {
		removed, err = removeLinks(ctx, client, r, func(at, target string, to initproc.Place) (bool, error) { return s.astray(ctx, at, target, to) })
		return err
	})
	if errors.Is(err, errTooManyLinks) {
		return &family.Failure{Reason: verdict.CandidateNotRegular, Message: "the candidate's changes cannot be made: " + err.Error()}
	}
	for _, at := range removed {
		s.left.add(strings.TrimPrefix(at, candidateDir), linkNote)
	}
	return err
}

// unmountedRoots returns the captured folders that the candidate deletes or has
// something else for, if the checker has an image of its own. They are not
// mounted there: what is mounted cannot be removed.
func (r row) unmountedRoots(c candidate.Candidate) (map[string]bool, error) {
	if r.image == "" || len(r.roots()) == 0 {
		return nil, nil
	}
	content, err := c.Open()
	if err != nil {
		return nil, fmt.Errorf("opening the candidate: %w", err)
	}
	defer content.Close()
	return notFolders(content, r.roots())
}
