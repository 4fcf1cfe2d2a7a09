package compile

import (
	"path"
	"strconv"
	"strings"

	"securebench/internal/family"
	"securebench/internal/pipeline/pack"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// evalFiles checks the values that name files below the evaluation root: those
// that the family declares, and every evaluation input that is a file
// reference. Hidden values are never written to files, so a hidden object that
// looks like a file reference is plain data.
func (k *checker) evalFiles(f family.Family) {
	for _, path := range f.EvalFiles {
		if n, ok := lookup(k.row.Eval, path); ok {
			k.evalPath(n, append([]string{"eval"}, path...))
		}
		list, key := path[:len(path)-1], path[len(path)-1]
		if n, ok := lookup(k.row.Eval, list); ok && n.Kind == source.List {
			for i, item := range n.Items {
				if named := item.Get(key); named != nil {
					k.evalPath(named, append(append([]string{"eval"}, list...), strconv.Itoa(i), key))
				}
			}
		}
	}
	for _, e := range k.row.Eval.Fields {
		if f.Lanes[e.Name] == task.EvaluationInputs && workspace.IsFileReference(e.Value) {
			k.fileReference(e)
		}
	}
}

func (k *checker) fileReference(e source.Field) {
	k.evalPath(e.Value.Get("path"), []string{"eval", e.Name, "path"})
	if n := e.Value.Get("read_only"); n != nil {
		if _, err := n.Boolean(k.context + ".eval." + e.Name + ".read_only"); err != nil {
			k.errs = append(k.errs, err)
		}
	}
	n := e.Value.Get("mount")
	if n == nil {
		return
	}
	what := k.context + ".eval." + e.Name + ".mount"
	s, err := n.Str(what)
	if err != nil {
		k.errs = append(k.errs, err)
		return
	}
	if strings.Contains(s, `\`) || path.Clean(s) != strings.TrimSuffix(s, "/") || !strings.HasPrefix(s, pack.EvaluationMount+"/") {
		k.errs.Add(n.Pos, "write a path below it", "%s must lie below %s", what, pack.EvaluationMount)
	}
}

// evalPath checks one path at the given place of the row.
func (k *checker) evalPath(n *source.Node, path []string) {
	if err := k.row.CheckEvalPath(k.context+k.path(path), n); err != nil {
		k.errs = append(k.errs, err)
	}
}

// lookup is like Node.At, but reports whether the whole path exists.
func lookup(n *source.Node, path []string) (*source.Node, bool) {
	for _, name := range path {
		if n = n.Get(name); n == nil {
			return nil, false
		}
	}
	return n, true
}
