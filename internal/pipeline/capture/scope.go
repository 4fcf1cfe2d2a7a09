package capture

import (
	"path"
	"slices"
	"strings"

	"securebench/internal/candidate"
	"securebench/internal/pathname"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// A scope is what of a sandbox's files may become part of a tree.
type scope struct {
	workdir    string
	roots      []string // none lies in another one, sorted by path component
	filesystem bool
	never      []string // nothing of them is taken
	hidden     []string // where no link may lead
}

// newScope returns what is captured of a sandbox whose workspace is at workdir;
// folder, if it is not "", narrows that to a part of the workspace.
func newScope(workdir string, c task.Captured, folder string) scope {
	s := scope{workdir: path.Clean(workdir), filesystem: c.Filesystem, never: slices.Concat(workspace.Reserved(), c.Exclude)}
	s.hidden = append(workspace.Reserved(), path.Join(s.workdir, workspace.EvaluationRoot))
	roots := slices.Clone(c.Roots)
	if len(roots) == 0 && !c.Filesystem {
		roots = []string{path.Join(s.workdir, folder)}
	}
	slices.SortFunc(roots, candidate.ComparePaths)
	for _, r := range roots {
		if n := len(s.roots); n == 0 || !pathname.Within(r, s.roots[n-1]) {
			s.roots = append(s.roots, r)
		}
	}
	return s
}

// takes reports whether a change of a path is part of the tree.
func (s scope) takes(p string) bool {
	in := func(dir string) bool { return pathname.Within(p, dir) }
	switch {
	case slices.ContainsFunc(s.never, in):
		return false
	case slices.ContainsFunc(s.roots, in):
		return true
	case !s.filesystem:
		return false
	}
	return in(s.workdir) || workspace.Changeable(p)
}

// passesOver reports whether a change is not taken because it is where no task that
// takes the whole file system may change anything. What the row excludes is the row's
// affair, and not the agent's to know. Of a folder that was there, what changed in it
// is passed over, and not the folder.
func (s scope) passesOver(ch sandbox.Change) bool {
	in := func(dir string) bool { return pathname.Within(ch.Path, dir) }
	return s.filesystem && ch.Path != "/" && !in(s.workdir) && !slices.ContainsFunc(s.never, in) && !slices.ContainsFunc(s.roots, in) &&
		!workspace.Changeable(ch.Path) && (ch.Kind != sandbox.Modified || ch.Type != sandbox.Directory)
}

// whole reports whether all that is at or below a path is taken.
func (s scope) whole(p string) bool {
	above := func(dir string) bool { return pathname.Within(dir, p) }
	return s.takes(p) && !slices.ContainsFunc(s.never, above) && (!s.filesystem || !slices.ContainsFunc(workspace.Temporary(), above))
}

// folders returns the parts of the workspace that are taken, relative to it, and
// what of them is not.
func (s scope) folders() (parts, skip []string) {
	for _, r := range s.roots {
		if pathname.Within(s.workdir, r) {
			parts = []string{"."}
			break
		}
		if pathname.Within(r, s.workdir) {
			parts = append(parts, s.inside(r))
		}
	}
	if s.filesystem {
		parts = []string{"."}
	}
	size := 0
	for _, x := range s.never {
		if size += len(x); size > maxSkipped { // what it is not told to skip is left out afterwards
			break
		}
		if pathname.Within(x, s.workdir) && x != s.workdir {
			skip = append(skip, s.inside(x))
		}
	}
	return parts, skip[:min(len(skip), maxSkippedPaths)]
}

// How much a holder is told to skip: it takes lists of 64 paths and 8 KiB.
const (
	maxSkipped      = 8 << 10
	maxSkippedPaths = 64
)

// inside returns a path of the workspace relative to it.
func (s scope) inside(p string) string {
	if p == s.workdir {
		return "."
	}
	return strings.TrimPrefix(p, strings.TrimSuffix(s.workdir, "/")+"/")
}

// follows reports whether a link counts: its target is lexical and leads neither
// to what only a later sandbox has nor to a folder above that, through which it
// could be reached.
func (s scope) follows(link, target string) bool {
	if target == "" {
		return false
	}
	named := false
	for part := range strings.SplitSeq(target, "/") {
		if part == ".." && named {
			return false // what is before it may be a link
		}
		named = named || part != ".." && part != "." && part != ""
	}
	to := target
	if !path.IsAbs(target) {
		to = path.Join(path.Dir(link), target)
	}
	to = path.Clean(to)
	return !slices.ContainsFunc(s.hidden, func(hidden string) bool {
		return pathname.Overlap(to, hidden)
	})
}
