package checkout

import (
	"context"
	"errors"
	"path"

	"securebench/internal/repository"
	"securebench/internal/sandbox"
)

// preparer makes checkouts.
type preparer struct {
	engine sandbox.Engine
	run    string
	limits sandbox.Limits
}

// prepare makes a checkout, and the function that removes what was made for it.
func (p *preparer) prepare(ctx context.Context, image sandbox.Image, dir string) (*Checkout, func(context.Context) error, error) {
	folder := sandbox.ImageFolder{Image: image, Path: dir}
	if err := (sandbox.WorkspaceSpec{From: &folder}).Check(); err != nil {
		return nil, nil, unusable("%w", err)
	}
	kept, err := newContents()
	if err != nil {
		return nil, nil, err
	}
	c, err := p.inspect(ctx, folder, kept)
	if err != nil {
		return nil, nil, errors.Join(err, kept.close())
	}
	derived := c.Folder.Image
	return c, func(ctx context.Context) error {
		err := kept.close()
		if derived.ID != image.ID {
			err = errors.Join(err, p.discard(ctx, derived))
		}
		return err
	}, nil
}

// inspect reads the tree and the repository of an image's folder.
func (p *preparer) inspect(ctx context.Context, folder sandbox.ImageFolder, kept *contents) (c *Checkout, err error) {
	pl, err := p.open(ctx, folder.Image, folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pl.close(ctx)) }()
	tree, err := pl.tree(ctx, kept) // before any code of the image runs
	if err != nil {
		return nil, err
	}
	var f *facts
	err = pl.withGit(ctx, nil, func(g *git) (err error) {
		f, err = pl.facts(ctx, g)
		return err
	})
	if err != nil {
		return nil, err
	}
	c = &Checkout{Folder: folder, Commits: f.commits, Tree: tree, Tracked: f.tracked, contents: kept}
	if c.Ignore, err = ignoreRules(c); err != nil || f.extra == "" {
		return c, err
	}
	image, err := pl.cutDown(ctx, f)
	if err != nil {
		return nil, err
	}
	c.Folder = sandbox.ImageFolder{Image: image, Path: folder.Path}
	if err := p.compare(ctx, folder.Image, c, f); err != nil {
		return nil, errors.Join(err, p.discard(ctx, image))
	}
	return c, nil
}

// maxIgnore bounds an ignore file in bytes; git's are read whole.
const maxIgnore = 1 << 20

// ignoreRules reads the ignore files of a tree.
func ignoreRules(c *Checkout) (*repository.Ignore, error) {
	files := make(map[string][]byte)
	for name, e := range c.Tree.Entries {
		if path.Base(name) != ".gitignore" || e.Mode == repository.Symlink || e.Size > maxIgnore {
			continue
		}
		content, err := c.Content(name)
		if err != nil {
			return nil, err
		}
		files[name] = content
	}
	return repository.NewIgnore(files), nil
}

// compare asks about the checkout that an agent will get what was asked about
// the image's own: it must have the same tree, commit, branch and index, and
// nothing else.
func (p *preparer) compare(ctx context.Context, image sandbox.Image, c *Checkout, before *facts) (err error) {
	pl, err := p.open(ctx, image, c.Folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pl.close(ctx)) }()
	tree, err := pl.tree(ctx, nil)
	if err != nil {
		return err
	}
	if changes := repository.Compare(c.Tree, tree); len(changes) > 0 {
		return unusable("cutting the repository down changed %q", changes[0].Path)
	}
	return pl.withGit(ctx, nil, func(g *git) error {
		after, err := pl.facts(ctx, g)
		if err != nil {
			return err
		}
		if err := before.same(after); err != nil {
			return unusable("the repository could not be cut down to one commit: %w", err)
		}
		if after.extra != "" || len(after.commits) != 1 {
			return unusable("the repository cannot be cut down to one commit: it still has %s", after.extra)
		}
		return g.must(ctx, nil, nil, "fsck", "--connectivity-only", "--no-dangling", "--no-progress")
	})
}
