package pack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"securebench/internal/digest"
	"securebench/internal/source"
)

// trees are the asset folders of a pack while it is loaded.
type trees struct{ public, eval *tree }

// tree is one scanned asset folder. It holds the names of what may not be
// there, not those of its files.
type tree struct {
	dir    string   // relative to the manifest's folder
	root   *os.Root // nil when there is no such folder
	digest string
	files  map[string]string // digests by path; of the public tree only
	bad    []badEntry        // at most maxProblems
}

// badEntry is a link or special file in a tree.
type badEntry struct {
	path, what string // path is relative to the tree; "." is the folder itself
	reported   bool
}

// openTrees scans both asset folders. The caller closes them.
func openTrees(ctx context.Context, loc Location, m *Manifest) (*trees, error) {
	root, err := os.OpenRoot(filepath.Dir(loc.Manifest))
	if err != nil {
		return nil, fmt.Errorf("opening the folder of %s: %w", loc.Manifest, withoutPath(err))
	}
	defer root.Close()
	t := &trees{}
	if t.public, err = scanTree(ctx, root, m.PublicRoot, true); err != nil {
		return nil, err
	}
	if t.eval, err = scanTree(ctx, root, m.EvalRoot, false); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *trees) close() {
	for _, tr := range []*tree{t.public, t.eval} {
		if tr != nil && tr.root != nil {
			tr.root.Close()
		}
	}
}

// scanTree hashes all files below dir and notes what is neither a regular
// file nor a directory. Nothing is followed. A folder that does not exist is
// an empty one.
func scanTree(ctx context.Context, pack *os.Root, dir string, keep bool) (*tree, error) {
	t := &tree{dir: dir}
	if keep {
		t.files = map[string]string{}
	}
	sum := sha256.New()
	err := t.open(pack)
	if err == nil && t.root != nil {
		err = t.walk(ctx, sum)
	}
	if err != nil {
		if t.root != nil {
			t.root.Close()
		}
		return nil, fmt.Errorf("hashing the pack's files in %s: %w", path.Join(filepath.ToSlash(pack.Name()), dir), err)
	}
	t.digest = digest.Format(sum.Sum(nil))
	return t, nil
}

// open opens the folder if each part of its path is a real directory.
func (t *tree) open(pack *os.Root) error {
	at := ""
	for part := range strings.SplitSeq(t.dir, "/") {
		at = path.Join(at, part)
		switch info, err := pack.Lstat(at); {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !info.IsDir():
			t.bad = append(t.bad, badEntry{path: ".", what: describe(info.Mode())})
			return nil
		}
	}
	var err error
	t.root, err = pack.OpenRoot(t.dir)
	return err
}

// walk feeds every entry to sum, in lexical order.
func (t *tree) walk(ctx context.Context, sum hash.Hash) error {
	return fs.WalkDir(t.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case name == ".":
			return nil
		case d.IsDir():
			fmt.Fprintf(sum, "dir %d:%s\n", len(name), name)
			return nil
		case !d.Type().IsRegular():
			t.bad = append(t.bad, badEntry{path: name, what: describe(d.Type())})
			if len(t.bad) == maxProblems {
				return fs.SkipAll
			}
			return nil
		}
		return t.file(sum, name)
	})
}

// file feeds a regular file to sum: name, whether it is executable, content.
func (t *tree) file(sum hash.Hash, name string) error {
	before, err := t.root.Lstat(name)
	if err != nil {
		return err
	}
	f, err := t.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	// A link put there since the folder was read would be followed inside the root.
	if !info.Mode().IsRegular() || !os.SameFile(before, info) {
		return fmt.Errorf("%s was replaced while it was read", name)
	}
	content := sha256.New()
	if _, err := io.Copy(content, f); err != nil {
		return err
	}
	plain := content.Sum(nil)
	fmt.Fprintf(sum, "file %d:%s %t %s\n", len(name), name, info.Mode()&0o111 != 0, hex.EncodeToString(plain))
	if t.files != nil {
		t.files[name] = digest.Format(plain)
	}
	return nil
}

// check says what is wrong with a row's reference to name, or nil.
func (t *tree) check(n *source.Node, what, name string) *source.Problem {
	for i := range t.bad {
		b := &t.bad[i]
		if b.path == "." || below(b.path, name) || below(name, b.path) {
			b.reported = true
			return &source.Problem{Pos: n.Pos,
				Message: fmt.Sprintf("%s %q reaches %s, which is %s", what, name, path.Join(t.dir, b.path), b.what),
				Fix:     "replace it by a copy: packs hold regular files and directories only"}
		}
	}
	if t.root != nil {
		switch _, err := t.root.Lstat(name); {
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			return source.Problemf(n.Pos, "%s %q cannot be read: %v", what, name, withoutPath(err))
		}
	}
	return &source.Problem{Pos: n.Pos, Message: fmt.Sprintf("%s %q does not exist", what, name),
		Fix: "put it below " + t.dir + "/ beside the manifest"}
}

// unreported are the entries that no row refers to.
func (t *tree) unreported(loc Location, at source.Pos) (errs source.Problems) {
	for _, b := range t.bad {
		if b.reported {
			continue
		}
		pos := source.Pos{File: filepath.Join(filepath.Dir(loc.Manifest), filepath.FromSlash(t.dir), filepath.FromSlash(b.path))}
		if b.path == "." && at.Line > 0 {
			pos = at
		}
		errs.Add(pos, "replace it by a copy: packs hold regular files and directories only",
			"the pack contains %s", b.what)
	}
	return errs
}

// checkAssets checks that a row's assets exist and hold no link, and that
// none of them reaches into the evaluation files.
func (r Row) checkAssets(m *Manifest) (errs source.Problems) {
	for i, a := range r.Assets {
		n := r.AssetList.Items[i].Get("path")
		what := fmt.Sprintf("assets[%d].path", i)
		full := path.Join(m.PublicRoot, a.Path)
		if below(full, m.EvalRoot) || below(m.EvalRoot, full) {
			errs.Add(n.Pos, "keep public and evaluation files apart", "%s %q reaches into the evaluation files in %s", what, a.Path, m.EvalRoot)
			continue
		}
		if err := r.trees.public.check(n, what, a.Path); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// CheckEvalPath checks that the string n names something below the pack's
// evaluation root, and while the pack is loaded that it exists there.
func (r Row) CheckEvalPath(what string, n *source.Node) *source.Problem {
	name, err := relativePath(n, what)
	if err != nil || r.trees == nil {
		return err
	}
	return r.trees.eval.check(n, what, name)
}
