package checkout

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"securebench/internal/piped"
	"securebench/internal/repository"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
)

// Bounds of the sandbox in which git runs. Its commands have bounds of their
// own.
const (
	boxTimeout = 30 * time.Minute
	boxOutput  = 8 << 30
)

// scratchDir is where a new repository is laid out.
const scratchDir = "/.securebench-checkout"

// place is a copy of an image's folder in a workspace.
type place struct {
	preparer  *preparer
	image     sandbox.Image // whose git runs
	folder    sandbox.ImageFolder
	workspace sandbox.Workspace
	usage     sandbox.Usage
	owner     sandbox.User // of the repository
}

// open copies a folder into a workspace and looks for a repository there. The
// workspace is read with the rights of the image's user.
func (p *preparer) open(ctx context.Context, image sandbox.Image, folder sandbox.ImageFolder) (*place, error) {
	w, err := p.engine.Workspace(ctx, sandbox.WorkspaceSpec{Labels: p.labels(), Owner: image.User, Disk: p.limits.Disk,
		Inodes: p.limits.Files, From: &folder})
	switch {
	case errors.Is(err, sandbox.ErrNoFolder):
		return nil, unusable("the image has no folder %s", folder.Path)
	case errors.Is(err, sandbox.ErrTooSmall):
		return nil, unusable("%s does not fit into limits.disk (%d bytes) and limits.files (%d)", folder.Path, p.limits.Disk, p.limits.Files)
	case err != nil:
		return nil, fmt.Errorf("preparing a checkout: %w", err)
	}
	pl := &place{preparer: p, image: image, folder: folder, workspace: w}
	if err := pl.find(ctx); err != nil {
		return nil, errors.Join(err, pl.close(ctx))
	}
	return pl, nil
}

func (p *preparer) labels() sandbox.Labels { return sandbox.Labels{Run: p.run, Role: "checkout"} }

func (pl *place) close(ctx context.Context) error {
	return pl.workspace.Close(context.WithoutCancel(ctx))
}

// find looks for the repository and its owner, as whom git runs: a git of the
// image may refuse the repository of anybody else.
func (pl *place) find(ctx context.Context) (err error) {
	if pl.usage, err = pl.workspace.Usage(ctx); err != nil {
		return fmt.Errorf("preparing a checkout: %w", err)
	}
	var heads []*tar.Header
	for _, path := range []string{".git/HEAD", ".git"} {
		if len(heads) > 0 {
			break
		}
		heads, err = pl.headers(ctx, path)
		if err != nil {
			return err
		}
	}
	switch {
	case len(heads) == 0:
		return unusable("%s is not a repository: it has no .git", pl.folder.Path)
	case heads[0].PAXRecords[recordType] != "":
		return unusable("the image's user %d cannot read %s of %s", pl.image.User.UID, heads[0].Name, pl.folder.Path)
	case heads[0].Name != ".git/HEAD" || heads[0].Typeflag != tar.TypeReg:
		return unusable("the .git of %s is not the folder of a repository: a checkout that refers to another place is not supported",
			pl.folder.Path)
	}
	pl.owner = sandbox.User{UID: heads[0].Uid, GID: heads[0].Gid}
	return nil
}

// recordType is the record of an archive's entry that the holder could not
// read, or that tar has no type for; see package sandbox/holder.
const recordType = "SECUREBENCH.type"

// headers returns the headers of an archive of a path.
func (pl *place) headers(ctx context.Context, path string, skip ...string) (list []*tar.Header, err error) {
	err = pl.get(ctx, pl.workspace, path, func(h *tar.Header, _ io.Reader) error {
		list = append(list, h)
		return nil
	}, skip...)
	return list, err
}

// bounds are those of a tree.
func (p *preparer) bounds() repository.Bounds {
	return repository.Bounds{Bytes: p.limits.Disk, Files: p.limits.Files}
}

// get calls each with the entries of an archive of a part of a workspace.
func (pl *place) get(ctx context.Context, w sandbox.Workspace, path string, each func(*tar.Header, io.Reader) error, skip ...string) error {
	return pl.stream(ctx, w, path, func(r io.Reader) error {
		tr := tar.NewReader(r)
		for {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("reading an archive: %w", err)
			}
			if err := each(h, tr); err != nil {
				return err
			}
		}
	}, skip...)
}

// stream passes an archive on to read, whose error comes first.
func (pl *place) stream(ctx context.Context, w sandbox.Workspace, path string, read func(io.Reader) error, skip ...string) error {
	failed, err := piped.Both(func(to io.Writer) error { return w.Get(ctx, path, pl.preparer.bounds().ArchiveSize(), to, skip...) }, read)
	switch {
	case errors.Is(failed, sandbox.ErrTooLarge):
		return unusable("%s is larger than limits.disk and limits.files allow, or deeper than any checkout", pl.folder.Path)
	case failed != nil:
		return fmt.Errorf("preparing a checkout: %w", failed)
	}
	return err
}

// tree reads the tree without the repository.
func (pl *place) tree(ctx context.Context, c *contents) (t *repository.Tree, err error) {
	err = pl.stream(ctx, pl.workspace, ".", func(r io.Reader) (err error) {
		var keep func(string, repository.Entry, io.Reader) error
		if c != nil {
			keep = c.keep
		}
		t, err = repository.Read(r, pl.preparer.bounds(), keep)
		switch {
		case c != nil && c.failed != nil:
			return c.failed
		case err != nil:
			return unusable("%s: %w", pl.folder.Path, err)
		}
		return nil
	}, ".git")
	if err != nil {
		return nil, err
	}
	for path, what := range t.Odd {
		if what == "unreadable" {
			return nil, unusable("the image's user %d:%d cannot read %q in %s", pl.image.User.UID, pl.image.User.GID, path, pl.folder.Path)
		}
	}
	return t, nil
}

// withGit calls f with the image's git in a sandbox that sees the folder, which
// it cannot change, and scratch, if that is not nil.
func (pl *place) withGit(ctx context.Context, scratch sandbox.Workspace, f func(*git) error) (err error) {
	limits := pl.preparer.limits
	limits.Timeout, limits.Output = boxTimeout, boxOutput
	mounts := []sandbox.Mount{{Workspace: pl.workspace, Target: pl.folder.Path, ReadOnly: true}}
	if scratch != nil {
		mounts = append(mounts, sandbox.Mount{Workspace: scratch, Target: scratchDir})
	}
	box, err := pl.preparer.engine.Open(ctx, sandbox.Spec{Labels: pl.preparer.labels(), Image: pl.image, Init: true,
		User: &sandbox.User{}, Workdir: "/", Mounts: mounts, Limits: limits,
		Capabilities: sandbox.Supervisor()})
	if err != nil {
		return fmt.Errorf("preparing a checkout: %w", err)
	}
	client, err := initproc.Open(ctx, box)
	if err != nil {
		return fmt.Errorf("preparing a checkout: %w", err)
	}
	defer func() {
		if closeErr := client.Close(context.WithoutCancel(ctx)); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("preparing a checkout: %w", closeErr))
		}
	}()
	return f(newGit(client.Run, pl.image.Path, pl.folder.Path, pl.owner))
}

// sortedKeys is for messages and streams that have to be the same every time.
func sortedKeys(set map[string]bool) []string {
	list := make([]string, 0, len(set))
	for k := range set {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}
