package terminaltask

import (
	"path"
	"slices"
	"strings"

	"securebench/internal/workspace"
)

// isEvaluation reports whether an entry of a layout is an evaluation file.
func isEvaluation(e workspace.Entry) bool {
	return strings.HasPrefix(e.Path, workspace.EvaluationRoot+"/")
}

// layouts returns the public files of the workspace, as the agent found them,
// and the evaluation files.
func (s *session) layouts() (public, evaluation *workspace.Layout, err error) {
	files, limits := s.verifier.resources.Files, s.c.Limits.WithDefaults()
	all := func() (*workspace.Layout, error) {
		return workspace.ForTestSandbox(s.c.Sandbox, workspace.Options{
			Assets: files.Public, Expect: files.PublicDigests, PublicAssets: s.c.Sandbox.Assets(),
			Evals: files.Eval, ExpectEvals: files.EvalDigests, EvalPaths: s.row.evalPaths(files.EvalDigests),
			MaxBytes: limits.Disk, MaxFiles: int(limits.Files)})
	}
	if public, err = all(); err != nil {
		return nil, nil, err
	}
	public.Entries = slices.DeleteFunc(public.Entries, isEvaluation)
	if evaluation, err = all(); err != nil {
		return nil, nil, err
	}
	evaluation.Entries = slices.DeleteFunc(evaluation.Entries, func(e workspace.Entry) bool { return !isEvaluation(e) })
	evaluation.Entries = append(evaluation.Entries, s.canaries()...)
	return public, evaluation, nil
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
