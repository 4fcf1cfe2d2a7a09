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
	spelled, known := spellings{}, spellings{}
	if len(fresh) > 0 {
		spelled.addTree(after)
		known.addTree(before)
	}
	for _, p := range fresh {
		if what := spelled.wrong(after, known, p); what != "" {
			return candidate.Reject(verdict.CandidateNotRegular, "%.200q %s", p, what)
		}
	}
	return nil
}

// wrong says why a path that is new, or changed in a way that is not plain,
// cannot be in a candidate. known are the names of the base: a folder that it has
// in two spellings may get files in either.
func (s spellings) wrong(after *Tree, known spellings, p string) string {
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
	for name := p; name != "."; name = path.Dir(name) {
		for _, other := range s[place(name)] {
			if own := known.has(name) && known.has(other); other != name && !own {
				return "has the same name as " + quoteName(other) + " on some file systems"
			}
		}
	}
	return ""
}

// spellings maps what names in one folder have in common to the names, in order.
type spellings map[string][]string

// place is the key of a name in [spellings].
func place(name string) string { return path.Dir(name) + "/" + alias(path.Base(name)) }

// addTree adds every file and every folder above one.
func (s spellings) addTree(t *Tree) {
	seen := map[string]bool{}
	add := func(p string) {
		for ; p != "." && !seen[p]; p = path.Dir(p) {
			seen[p] = true
			s[place(p)] = append(s[place(p)], p)
		}
	}
	for p := range t.Entries {
		add(p)
	}
	for p := range t.Odd {
		add(p)
	}
	for _, names := range s {
		slices.Sort(names)
	}
}

// has reports whether a name is there, in this spelling.
func (s spellings) has(name string) bool { return slices.Contains(s[place(name)], name) }
