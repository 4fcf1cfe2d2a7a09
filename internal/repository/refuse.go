package repository

import (
	"path"
	"slices"

	"securebench/internal/candidate"
	"securebench/internal/verdict"
)

// Refuse returns a [*securebench/internal/candidate.Rejection] that names the
// first thing in after that no candidate may contain and that before does not
// contain in the same form: a new or changed link, a named pipe, a device, a
// hard link, a nested repository, a name that is not UTF-8, or one that is
// equal to another after case folding or Unicode normalisation, or that only
// some file systems keep (a trailing dot or space, "git~1", ".GIT"). A file
// that the base has with the same content may have several names: engines that
// copy an image's layers may link them.
func Refuse(before, after *Tree) error {
	var fresh []string
	for p, e := range after.Entries {
		b, known := before.Entries[p]
		if e.Mode == Symlink && b != e || after.Odd[p] != "" && b != e {
			fresh = append(fresh, p)
		} else if !known {
			fresh = append(fresh, p)
		}
	}
	for p, what := range after.Odd {
		if _, file := after.Entries[p]; !file && before.Odd[p] != what {
			fresh = append(fresh, p)
		}
	}
	slices.Sort(fresh)
	spelled := spellings{}
	if len(fresh) > 0 {
		spelled.addTree(after)
	}
	for _, p := range fresh {
		if what := spelled.wrong(after, p); what != "" {
			return candidate.Reject(verdict.CandidateNotRegular, "%.200q %s", p, what)
		}
	}
	return nil
}

// wrong says why a path that is new, or changed in a way that is not plain,
// cannot be in a candidate.
func (s spellings) wrong(after *Tree, p string) string {
	switch odd := after.Odd[p]; {
	case odd == unreadable:
		return "cannot be read"
	case odd != "":
		return "is " + odd
	case after.Entries[p].Mode == Symlink:
		return "is a new or changed symbolic link"
	}
	if what := portable(p); what != "" {
		return what
	}
	for dir := p; dir != "."; dir = path.Dir(dir) {
		if other := s.other(dir); other != "" {
			return "has the same name as " + quoteName(other) + " on some file systems"
		}
	}
	return ""
}

// spellings maps what names have in common to the names.
type spellings map[string][]string

// addTree adds every file and every folder above one.
func (s spellings) addTree(t *Tree) {
	seen := map[string]bool{}
	add := func(p string) {
		for ; p != "." && !seen[p]; p = path.Dir(p) {
			seen[p] = true
			key := alias(p)
			s[key] = append(s[key], p)
		}
	}
	for p := range t.Entries {
		add(p)
	}
	for p := range t.Odd {
		add(p)
	}
}

// other returns another spelling of a name, the first in order, or "".
func (s spellings) other(p string) string {
	names := s[alias(p)]
	if len(names) < 2 {
		return ""
	}
	slices.Sort(names)
	if names[0] == p {
		return names[1]
	}
	return names[0]
}
