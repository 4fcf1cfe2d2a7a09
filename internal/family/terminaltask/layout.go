package terminaltask

import (
	"path"
	"slices"
	"strings"

	"securebench/internal/pathname"
	"securebench/internal/testrunner"
	"securebench/internal/workspace"
)

// isEvaluation reports whether an entry of a layout is an evaluation file.
func isEvaluation(e workspace.Entry) bool {
	return strings.HasPrefix(e.Path, workspace.EvaluationRoot+"/")
}

// isPublicValue reports whether an entry of a layout is a value of the row's input.
func isPublicValue(e workspace.Entry) bool {
	return e.Asset == "" && strings.HasPrefix(e.Path, workspace.PublicRoot+"/")
}

// layouts are the files that a verification lays out.
type layouts struct {
	public     *workspace.Layout // of the workspace, as the agent found them
	evaluation *workspace.Layout
	part       *workspace.Layout // all that is in securebench's part of the workspace
}

// layouts returns the files of the row.
func (s *scorer) layouts() (out layouts, err error) {
	files, limits := s.verifier.resources.Files, s.c.Limits.WithDefaults()
	some := func(keep func(workspace.Entry) bool) *workspace.Layout {
		if err != nil {
			return nil
		}
		var all *workspace.Layout
		all, err = files.Layout(s.c.Sandbox, s.c.Sandbox.Assets(), limits, s.evalPaths()...)
		if err != nil {
			return nil
		}
		all.Entries = slices.DeleteFunc(all.Entries, func(e workspace.Entry) bool { return !keep(e) })
		return all
	}
	out.public = some(func(e workspace.Entry) bool { return !isEvaluation(e) && (s.row.old || !isPublicValue(e)) })
	out.evaluation = some(isEvaluation)
	out.part = some(func(e workspace.Entry) bool { return strings.HasPrefix(e.Path, workspace.OwnRoot+"/") })
	if err != nil {
		return out, err
	}
	s.config = pytestConfig(out.evaluation.Entries, files.EvalDigests)
	out.evaluation.Entries = append(out.evaluation.Entries, s.canaries()...)
	out.evaluation.Entries = append(out.evaluation.Entries, workspace.Entry{
		Path: path.Join(workspace.EvaluationRoot, siteFolder, testrunner.SiteName), Data: testrunner.Site()})
	// The mount is read-only. A copy can be written to, by a root without further
	// powers as well, so that a checker may copy a file twice.
	for _, l := range []*workspace.Layout{out.evaluation, out.part} {
		for i, e := range l.Entries {
			if isEvaluation(e) {
				l.Entries[i].Mode = 0o644
			}
		}
	}
	return out, nil
}

// pytestConfig returns the pack's settings of pytest that lie highest among the
// evaluation files, relative to their folder, or "".
func pytestConfig(entries []workspace.Entry, digests map[string]string) (config string) {
	consider := func(name string) {
		if base := path.Base(name); base != "pytest.ini" && base != ".pytest.ini" {
			return
		}
		if config == "" || len(name) < len(config) {
			config = name
		}
	}
	for _, e := range entries {
		at := strings.TrimPrefix(e.Path, workspace.EvaluationRoot+"/")
		consider(at)
		for name := range digests {
			if rest, ok := strings.CutPrefix(name, e.Asset+"/"); ok && e.Asset != "" {
				consider(path.Join(at, rest))
			}
		}
	}
	return config
}

// evalPaths are the evaluation files that the checker needs. A checker at the root of
// all evaluation files, other rows' among them, gets of these what it names.
func (s *scorer) evalPaths() []string {
	files := s.verifier.resources.Files
	out := s.row.evalPaths(files.EvalDigests)
	if s.row.form == formCommand || path.Dir(s.row.path) != "." || files.EvalDigests[s.row.path] == "" || files.Eval == nil {
		return out
	}
	text, err := files.Eval.ReadFile(s.row.path)
	if err != nil {
		return out // whoever lays the file out reports that it cannot be read
	}
	for name := range files.EvalDigests {
		if !pathname.Within(name, out...) && speaksOf(text, name) {
			out = append(out, name)
		}
	}
	return out
}

// evalPaths are the evaluation files that a checker in files needs: what is in
// the folder of the named file, or that file and its tests if that is the root.
func (r row) evalPaths(digests map[string]string) []string {
	if r.form == formCommand {
		return nil
	}
	if digests[r.path] == "" { // a folder, or a pack whose files are not known
		return []string{r.path}
	}
	if dir := path.Dir(r.path); dir != "." {
		return []string{dir}
	}
	out := []string{r.path}
	for name := range digests {
		if r.form == formScript && strings.HasPrefix(name, "tests/") {
			return append(out, "tests")
		}
	}
	return out
}

// target is the checker's file or folder in its sandbox.
func (r row) target() string { return path.Join(evaluatorDir, r.path) }
