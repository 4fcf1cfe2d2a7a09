package pack

import (
	"fmt"
	"path"

	"securebench/internal/pathname"
	"securebench/internal/source"
)

// EvaluationMount is the folder below the workspace in which evaluation
// inputs appear in a test sandbox. No public asset may be mounted there.
const EvaluationMount = "securebench/evaluation_inputs"

// frameworkFolder is the folder of securebench's own files in a workspace.
const frameworkFolder = "securebench"

// deniedMounts are workspace paths that only securebench or a verifier fills;
// an asset there could be mistaken for one of their files.
func deniedMounts() []string {
	return []string{
		"ground_truth", "scorer", "eval", "task/hidden.json", "task/evaluation_inputs.json",
		"input/hidden.json", "output/score.json", EvaluationMount, "securebench/evaluator",
	}
}

// mountPath reads the workspace path at which an asset is placed.
func mountPath(n *source.Node, what string) (string, *source.Problem) {
	mount, err := relativePath(n, what)
	if err != nil {
		return "", err
	}
	for _, denied := range deniedMounts() {
		if pathname.Within(mount, denied) || mount == frameworkFolder && pathname.Within(denied, mount) {
			return "", &source.Problem{Pos: n.Pos, Message: fmt.Sprintf("%s %q lies over the reserved path %s", what, mount, denied),
				Fix: "choose another mount"}
		}
	}
	return mount, nil
}

// collisions reports assets of row whose mounts overlap each other or the file
// of a public value, or would on some file systems.
func collisions(row Row) (errs source.Problems) {
	spelled := spelling{}
	for _, f := range row.Input.Fields {
		spelled.add(valuePath(f))
	}
	for i, a := range row.Assets {
		if mount, other := spelled.add(a.Mount); other != "" {
			errs.Add(row.AssetList.Items[i].Pos, "spell them alike, or choose another mount",
				"assets[%d] is mounted at %s, which is %s on some systems", i, mount, other)
		}
	}
	for i, a := range row.Assets {
		at := row.AssetList.Items[i].Pos
		for _, f := range row.Input.Fields {
			value := valuePath(f)
			if pathname.Overlap(a.Mount, value) {
				errs.Add(at, "choose another mount", "assets[%d] is mounted over %s, which holds input.%s", i, value, f.Name)
			}
		}
		for j, b := range row.Assets[:i] {
			if pathname.Overlap(a.Mount, b.Mount) {
				errs.Add(at, "give each asset its own mount",
					"assets[%d] is mounted at %s, over assets[%d] at %s", i, a.Mount, j, b.Mount)
			}
		}
	}
	return errs
}

// valuePath is the file that holds a public value.
func valuePath(f source.Field) string { return path.Join("securebench/public", f.Name+".json") }

// spelling records how each path was spelled, by the form in which some file
// systems treat spellings as equal.
type spelling map[string]string

// add records a path and its parents. It returns the first of them that was
// spelled differently before, and that spelling.
func (s spelling) add(p string) (path, other string) {
	for i := range len(p) + 1 {
		if i < len(p) && p[i] != '/' {
			continue
		}
		key := alias(p[:i])
		if was, ok := s[key]; ok && was != p[:i] {
			return p[:i], was
		}
		s[key] = p[:i]
	}
	return "", ""
}
