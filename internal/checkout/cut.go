package checkout

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"securebench/internal/piped"
	"securebench/internal/sandbox"
)

// cutDown makes an image that holds the checkout with a repository of one
// commit.
func (pl *place) cutDown(ctx context.Context, f *facts) (image sandbox.Image, err error) {
	p := pl.preparer
	importer, ok := p.engine.(sandbox.Importer)
	if !ok {
		return image, fmt.Errorf("preparing a checkout: the repository has more than one commit (%s), and the engine cannot import an image without it", f.extra)
	}
	scratch, err := p.engine.Workspace(ctx, sandbox.WorkspaceSpec{Labels: p.labels(), Owner: pl.owner, Disk: p.limits.Disk, Inodes: p.limits.Files})
	if err != nil {
		return image, fmt.Errorf("preparing a checkout: %w", err)
	}
	defer func() { err = errors.Join(err, scratch.Close(context.WithoutCancel(ctx))) }()
	if err := scratch.Put(ctx, bytes.NewReader(f.skeleton())); err != nil {
		return image, fmt.Errorf("preparing a checkout: %w", err)
	}
	if err := pl.withGit(ctx, scratch, func(g *git) error { return f.fill(ctx, g) }); err != nil {
		return image, err
	}
	err = piped.Run(func(w io.Writer) error { return pl.export(ctx, scratch, w) }, func(r io.Reader) (err error) {
		image, err = importer.Import(ctx, p.labels(), r)
		return err
	})
	if err != nil {
		err = fmt.Errorf("preparing a checkout: %w", err)
		if image.ID != "" {
			err = errors.Join(err, p.discard(ctx, image))
		}
	}
	return image, err
}

// discard removes an image that was made for a checkout.
func (p *preparer) discard(ctx context.Context, image sandbox.Image) error {
	importer, ok := p.engine.(sandbox.Importer)
	if !ok {
		return nil
	}
	return importer.RemoveImage(context.WithoutCancel(ctx), image)
}

// skeleton is an archive of the new repository without objects and index. The
// folder info is for agents that list scratch files in info/exclude.
func (f *facts) skeleton() []byte {
	var b bytes.Buffer
	tw := tar.NewWriter(&b) // to memory: it fails for no entry of these
	for _, dir := range []string{"", "info/", "objects/", "objects/info/", "objects/pack/", "refs/", "refs/heads/", "refs/tags/"} {
		_ = tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: ".git/" + dir, Mode: 0o755})
	}
	files := map[string]string{"HEAD": f.commits[0] + "\n", "config": f.settings()}
	if f.branch != "" {
		files["HEAD"], files[f.branch] = "ref: "+f.branch+"\n", f.commits[0]+"\n"
	}
	if f.parents {
		files["shallow"] = f.commits[0] + "\n"
	}
	names := make(map[string]bool, len(files))
	for name := range files {
		names[name] = true
	}
	for _, name := range sortedKeys(names) {
		_ = tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: ".git/" + name, Mode: 0o644, Size: int64(len(files[name]))})
		_, _ = io.WriteString(tw, files[name])
	}
	_ = tw.Close()
	return b.Bytes()
}

// settings is the configuration of the new repository.
func (f *facts) settings() string {
	format := ""
	version := 0
	if len(f.commits[0]) == maxID {
		version, format = 1, "[extensions]\n\tobjectformat = sha256\n"
	}
	names := make(map[string]bool)
	for name, value := range f.config {
		if compared[name] && plainWord(value) {
			names[name] = true
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[core]\n\trepositoryformatversion = %d\n\tbare = false\n\tlogallrefupdates = true\n", version)
	for _, name := range sortedKeys(names) {
		// A name without a value means true, and not the empty value.
		if f.config[name] != "" {
			fmt.Fprintf(&b, "\t%s = %s\n", strings.TrimPrefix(name, "core."), f.config[name])
		}
	}
	return b.String() + format
}

// fill packs the objects of HEAD's commit and of the index into the new
// repository, and makes its index.
func (f *facts) fill(ctx context.Context, g *git) error {
	staged, err := f.present(ctx, g)
	if err != nil {
		return err
	}
	for id := range f.head {
		staged[id] = true
	}
	list := strings.NewReader(strings.Join(sortedKeys(staged), "\n") + "\n")
	err = g.fresh(true).must(ctx, list, nil, "pack-objects", "-q", "--window=0", "--threads=1", scratchDir+"/.git/objects/pack/pack")
	if err != nil || len(f.index) == 0 {
		return err
	}
	entries := strings.NewReader(strings.Join(f.index, "\x00") + "\x00")
	return g.fresh(false).must(ctx, entries, nil, "update-index", "-z", "--index-info")
}

// present returns the objects that only the index names, without those that
// the repository does not have: a file that is only intended to be added has
// none.
func (f *facts) present(ctx context.Context, g *git) (map[string]bool, error) {
	only, there := make(map[string]bool), make(map[string]bool)
	for id := range f.staged {
		if !f.head[id] {
			only[id] = true
		}
	}
	if len(only) == 0 {
		return there, nil
	}
	s := &splitter{end: '\n', each: func(line string) error {
		id, kind, _ := strings.Cut(line, " ")
		if !only[id] || kind != "blob" && kind != "missing" {
			return unusable("git cat-file printed %q", clip(line))
		}
		if kind == "blob" {
			there[id] = true
		}
		return nil
	}}
	list := strings.NewReader(strings.Join(sortedKeys(only), "\n") + "\n")
	if err := g.must(ctx, list, s, "cat-file", "--batch-check=%(objectname) %(objecttype)"); err != nil {
		return nil, errors.Join(s.err, err)
	}
	return there, nil
}

// export writes the archive of an image: the folder with its tree and the new
// repository.
func (pl *place) export(ctx context.Context, scratch sandbox.Workspace, w io.Writer) error {
	tw := tar.NewWriter(w)
	prefix := strings.TrimPrefix(path.Clean(pl.folder.Path), "/") + "/"
	err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: prefix, Mode: int64(pl.usage.Mode.Perm()),
		Uid: pl.usage.Root.UID, Gid: pl.usage.Root.GID})
	if err != nil {
		return fmt.Errorf("archiving the checkout: %w", err)
	}
	add := func(h *tar.Header, content io.Reader) error { return copyEntry(tw, h, content, prefix) }
	if err := pl.get(ctx, pl.workspace, ".", add, ".git"); err != nil {
		return err
	}
	if err := pl.get(ctx, scratch, ".git", add); err != nil {
		return err
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("archiving the checkout: %w", err)
	}
	return nil
}

// copyEntry adds an entry of an archive to another, below prefix. Only files,
// folders and links are worth anything in a checkout. A file with several names
// becomes several files.
func copyEntry(tw *tar.Writer, h *tar.Header, content io.Reader, prefix string) error {
	if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeSymlink {
		return nil
	}
	h.Name, h.PAXRecords, h.Format = prefix+h.Name, nil, tar.FormatUnknown
	err := tw.WriteHeader(h)
	if err == nil {
		_, err = io.Copy(tw, content)
	}
	if err != nil {
		return fmt.Errorf("archiving %q: %w", h.Name, err)
	}
	return nil
}
