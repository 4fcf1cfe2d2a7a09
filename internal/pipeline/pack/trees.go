package pack

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"securebench/internal/pathname"
	"securebench/internal/source"
	"securebench/internal/workspace"
)

// trees are the asset folders of a pack while it is loaded.
type trees struct {
	public, eval *tree
	files        *Public
}

// scanTrees scans both asset folders.
func scanTrees(ctx context.Context, loc Location, m *Manifest) (*trees, error) {
	root, err := os.OpenRoot(filepath.Dir(loc.Manifest))
	if err != nil {
		return nil, fmt.Errorf("opening the folder of %s: %w", loc.Manifest, withoutPath(err))
	}
	defer root.Close()
	t := &trees{}
	if loc.folders() {
		return t, t.scanTasks(ctx, loc)
	}
	if t.public, err = scanTree(ctx, root, m.PublicRoot); err != nil {
		return nil, err
	}
	if t.eval, err = scanTree(ctx, root, m.EvalRoot); err != nil {
		return nil, err
	}
	t.public.order, t.eval.order = nil, nil // for the shares of tasks in folders
	if len(t.public.bad) == 0 {             // else it may be no folder
		t.files, err = openPublic(func() (*os.Root, error) { return root.OpenRoot(m.PublicRoot) }, func(name string) bool { return t.public.entries[name].sum != "" })
	}
	return t, err
}

// scanTasks scans the folder of tasks, which has the files of both lanes.
func (t *trees) scanTasks(ctx context.Context, loc Location) error {
	above, name := filepath.Split(filepath.Clean(loc.Tasks))
	root, err := os.OpenRoot(filepath.Clean(above))
	if err != nil {
		return fmt.Errorf("opening the folder of %s: %w", loc.Tasks, withoutPath(err))
	}
	defer root.Close()
	if t.public, err = scanTree(ctx, root, name); err != nil {
		return err
	}
	t.eval = t.public
	t.files, err = openPublic(func() (*os.Root, error) { return root.OpenRoot(name) }, func(name string) bool { return t.public.entries[name].sum != "" })
	return err
}

// files returns the digests of the tree's files by path.
func (t *tree) files() map[string]string {
	out := map[string]string{}
	for name, e := range t.entries {
		if !e.folder {
			out[name] = e.sum
		}
	}
	return out
}

// check returns the problem with a row's reference to name, or nil.
func (t *tree) check(n *source.Node, what, name string) *source.Problem {
	for i := range t.bad {
		b := &t.bad[i]
		if b.path == "." || pathname.Overlap(b.path, name) {
			b.reported = true
			return &source.Problem{Pos: n.Pos,
				Message: fmt.Sprintf("%s %q reaches %s, which is %s", what, name, shorten(path.Join(t.dir, b.path)), b.what), Fix: b.fix}
		}
	}
	if _, ok := t.entries[name]; ok {
		return nil
	}
	fix := "put it below " + t.dir + "/ beside the manifest"
	if near := t.spelled(name); near != "" {
		fix = fmt.Sprintf("spell it as the file system does: %q", near)
	}
	return &source.Problem{Pos: n.Pos, Message: fmt.Sprintf("%s %q does not exist", what, name), Fix: fix}
}

// spelled returns the entry that some file systems would find under name, or
// "".
func (t *tree) spelled(name string) string {
	want := alias(name)
	for have := range t.entries {
		if alias(have) == want {
			return have
		}
	}
	return ""
}

// shorten truncates a path for a message.
func shorten(name string) string {
	const most = 200
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}

// unreported returns the bad entries that no row refers to.
func (t *tree) unreported(loc Location, at source.Pos) (errs source.Problems) {
	for _, b := range t.bad {
		if b.reported {
			continue
		}
		pos := source.Pos{File: shorten(filepath.Join(filepath.Dir(loc.Manifest), filepath.FromSlash(t.dir), filepath.FromSlash(b.path)))}
		if b.path == "." && at.Line > 0 {
			pos = at
		}
		errs.Add(pos, b.fix, "the pack contains %s", b.what)
	}
	return errs
}

// checkAssets checks that a row's assets exist and contain only allowed
// entries, and that none of them overlaps the evaluation files.
func (r Row) checkAssets(m *Manifest) (errs source.Problems) {
	for i, a := range r.Assets {
		n := r.AssetList.Items[i].Get("path")
		what := fmt.Sprintf("assets[%d].path", i)
		full := path.Join(m.PublicRoot, a.Path)
		if r.trees.public != r.trees.eval && pathname.Overlap(full, m.EvalRoot) {
			errs.Add(n.Pos, "keep public and evaluation files apart", "%s %q reaches into the evaluation files in %s", what, a.Path, m.EvalRoot)
			continue
		}
		if err := r.trees.public.check(n, what, a.Path); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, r.trees.public.mounted(n.Pos, fmt.Sprintf("assets[%d]", i), a.Path, a.Mount)...)
	}
	return errs
}

// mounted checks the paths that a folder's content would have at its mount.
func (t *tree) mounted(at source.Pos, what, name, mount string) (errs source.Problems) {
	if !t.entries[name].folder {
		return nil
	}
	for _, denied := range deniedMounts() {
		rest, ok := strings.CutPrefix(denied, mount+"/")
		if _, there := t.entries[path.Join(name, rest)]; ok && there {
			errs.Add(at, "rename it or choose another mount", "%s %q brings %s, which lies over the reserved path %s",
				what, name, path.Join(name, rest), denied)
		}
	}
	if longest := t.folders[name].longest; len(mount)+longest > workspace.MaxPath {
		errs.Add(at, "shorten the mount or the names", "%s %q would have paths of %d bytes in the workspace, more than %d",
			what, name, len(mount)+longest, workspace.MaxPath)
	}
	return errs
}

// AssetNeed returns how many files and bytes of a workspace an asset needs. It
// is available while the pack is being loaded.
func (r Row) AssetNeed(name string) workspace.Need {
	if r.trees == nil {
		return workspace.Need{}
	}
	if e := r.trees.public.entries[name]; !e.folder {
		return e.need
	}
	return r.trees.public.folders[name].need.Plus(workspace.Need{Files: 1})
}

// CheckEvalPath checks that the string n is a path below the pack's evaluation
// root and, while the pack is being loaded, that it exists.
func (r Row) CheckEvalPath(what string, n *source.Node) *source.Problem {
	name, err := relativePath(n, what)
	if err != nil || r.trees == nil {
		return err
	}
	return r.trees.eval.check(n, what, name)
}
