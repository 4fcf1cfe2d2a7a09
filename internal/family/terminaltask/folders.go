package terminaltask

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"securebench/internal/pathname"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// Where the files of a verification are in its sandboxes.
const (
	ownDir       = "/opt/securebench"
	evaluatorDir = workspace.EvaluatorDir // the evaluation files
	formerDir    = ownDir + "/evaluator"  // the same, where rows and images expect them
	candidateDir = ownDir + "/candidate"  // captured program folders, in an image of the checker's own
	// programDir is where the files of a row's own solution are while that
	// runs: harness.ProgramDir, which families cannot import.
	programDir = ownDir + "/solution"
)

// plainPath says what is wrong with a path in a sandbox, or "".
func plainPath(p string) string {
	switch {
	case !path.IsAbs(p):
		return "is not absolute"
	case strings.ContainsFunc(p, unicode.IsControl) || strings.ContainsAny(p, ":,\\"):
		return "contains a control character, a colon, a comma or a backslash"
	case slices.Contains(strings.Split(p, "/"), ".."):
		return `contains ".."`
	case path.Clean(p) == "/":
		return "is the root"
	}
	return ""
}

// roots returns the captured folders outside of the workspace, each but those
// below another.
func (r row) roots() (out []string) {
	for _, root := range r.captured.Roots { // sorted: a folder comes before what is below it
		if root != r.workdir && !pathname.Within(root, append(out, r.workdir)...) {
			out = append(out, root)
		}
	}
	return out
}

// covers reports whether a candidate of the row may change a path.
func covers(c task.Captured, workdir, p string) bool {
	if pathname.Within(p, c.Exclude...) || pathname.Within(p, workspace.Reserved()...) {
		return false
	}
	switch {
	case c.Filesystem:
		return pathname.Within(p, workdir) || workspace.Changeable(p)
	case len(c.Roots) > 0:
		return pathname.Within(p, c.Roots...)
	}
	return pathname.Within(p, workdir)
}

// An arrangement says where the changes of a candidate go in a sandbox.
type arrangement struct {
	row
	// folders are mounted only for the checker: nothing of the candidate's may
	// be in them, or take the place of a folder above them.
	folders []string
	// moved are captured folders that are not at their own paths, but below
	// candidateDir.
	moved []string
	// outside leaves out what is in the workspace: another sandbox that has the
	// same one has that already.
	outside bool
	// leads says where folders of the candidate's and of the checker's lead, since
	// the image can have links in their paths.
	leads map[string]string
}

// place returns the path, relative to the root, at which a change is made, or
// false for a change that is left out. why says why, if that is worth a note.
func (a arrangement) place(name string, folder bool) (at, why string, ok bool) {
	if p := "/" + name; !covers(a.captured, a.workdir, p) {
		return "", "it is not among what the row captures", false
	}
	return a.lay(name, folder)
}

// lay is place for a change that is made whatever the row captures.
func (a arrangement) lay(name string, folder bool) (at, why string, ok bool) {
	p := "/" + name
	switch {
	case pathname.Within(p, a.folders...):
		return "", "it is where the checker's own files are", false
	case !folder && slices.ContainsFunc(a.folders, func(dir string) bool { return pathname.Within(dir, p) }):
		return "", "it takes the place of a folder of the checker's", false
	case a.outside && pathname.Within(p, a.workdir):
		return "", "", false
	}
	if pathname.Within(p, a.moved...) {
		return strings.TrimPrefix(candidateDir, "/") + p, "", true
	}
	return name, "", true
}

// misleads reports whether a link leads to what only a verification has, or to
// a folder above that: a checker would compare its own file with itself (W09).
// A link of a moved folder is at another path than name, and so leads elsewhere.
// Targets that leave a named folder again are not followed lexically, since that
// folder can be a link as well.
func (a arrangement) misleads(name, at, target string) bool {
	named := false
	for part := range strings.SplitSeq(target, "/") {
		if part == ".." && named {
			return true
		}
		named = named || part != ".." && part != "." && part != ""
	}
	hidden := append(workspace.Reserved(), append([]string{path.Join(a.workdir, workspace.EvaluationRoot)}, a.folders...)...)
	leads := func(link string) bool {
		to := target
		if !path.IsAbs(to) {
			to = path.Join("/", path.Dir(link), to)
		}
		if link != name && pathname.Within(to, candidateDir) { // it stays among the candidate's files
			return false
		}
		// What its own image has there, a checker may compare with.
		foreign := a.image != "" && !covers(a.captured, a.workdir, to) && !workspace.SystemPath(to)
		return foreign || slices.ContainsFunc(hidden, func(dir string) bool { return pathname.Overlap(to, dir) })
	}
	return leads(name) || leads(at)
}

// ownPart is the folder of the workspace in which a checker of the reference's
// first form finds its files. All of it is securebench's, and a mount point: what
// is above one can be renamed.
func (r row) ownPart() string { return path.Join(r.workdir, workspace.OwnRoot) }

// inWorkspace reports whether the evaluation files are also in the workspace: where
// the row names them there. A service that shares it could rename the folder that
// they are in.
func (r row) inWorkspace() bool {
	return r.old && r.form == formCommand && (r.start == nil || !r.start.shared)
}
