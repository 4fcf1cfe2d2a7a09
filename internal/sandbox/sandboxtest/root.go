package sandboxtest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"securebench/internal/attended"
	"securebench/internal/sandbox"
)

var _ sandbox.RootReader = (*box)(nil)

// rootSample is how often the size of a root is looked at.
const rootSample = 100 * time.Millisecond

// watchRoot ends the program when the root has grown by more than the limit.
func (b *box) watchRoot(ctx context.Context, cancel context.CancelCauseFunc) {
	for {
		if attended.Pause(ctx, rootSample) != nil {
			return
		}
		if rootSize(b.root)-b.begun > b.limits.Disk {
			cancel(errFull)
			return
		}
	}
}

// rootSize adds up the sizes of files, holes included. What goes away meanwhile
// does not count.
func rootSize(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

func (b *box) readable() error {
	switch {
	case b.root == "":
		return errors.New("the sandbox has no writable root")
	case !b.ended.Load():
		return errors.New("the command has not ended")
	}
	return nil
}

// Changes compares the root with the images'.
func (b *box) Changes(_ context.Context, limit int) ([]sandbox.Change, error) {
	if err := b.readable(); err != nil {
		return nil, fmt.Errorf("listing the changes of a root: %w", err)
	}
	before, err := snapshot(b.engine.cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("listing the changes of a root: %w", err)
	}
	after, err := snapshot(os.DirFS(b.root))
	if err != nil {
		return nil, fmt.Errorf("listing the changes of a root: %w", err)
	}
	var out []sandbox.Change
	for name, now := range after {
		switch was, ok := before[name]; {
		case !ok:
			out = append(out, sandbox.Change{Path: "/" + name, Kind: sandbox.Added, Type: now.kind})
		case was != now:
			out = append(out, sandbox.Change{Path: "/" + name, Kind: sandbox.Modified, Type: now.kind})
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok && !b.parentDeleted(after, name) {
			out = append(out, sandbox.Change{Path: "/" + name, Kind: sandbox.Deleted})
		}
	}
	slices.SortFunc(out, func(a, b sandbox.Change) int { return strings.Compare(a.Path, b.Path) })
	if len(out) > limit {
		return nil, fmt.Errorf("more than %d changes: %w", limit, sandbox.ErrTooLarge)
	}
	return out, nil
}

// parentDeleted reports whether what contained name is gone as well.
func (b *box) parentDeleted(after map[string]state, name string) bool {
	dir := filepath.Dir(name)
	return dir != "." && after[dir].kind != sandbox.Directory
}

// state is what a path was at one time.
type state struct {
	kind    sandbox.FileType
	mode    fs.FileMode
	content string // or the target of a link
}

func snapshot(fsys fs.FS) (map[string]state, error) {
	out := make(map[string]state)
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		s := state{kind: sandbox.TypeOf(info.Mode()), mode: info.Mode().Perm()}
		switch s.kind {
		case sandbox.RegularFile:
			var content []byte
			content, err = fs.ReadFile(fsys, name)
			s.content = string(content)
		case sandbox.Symlink:
			s.mode = 0
			s.content, err = fs.ReadLink(fsys, name)
		}
		out[name] = s
		return err
	})
	return out, err
}

// Archive reads the root as a workspace is read.
func (b *box) Archive(ctx context.Context, paths []string, limit int64, w io.Writer) error {
	if err := b.readable(); err != nil {
		return fmt.Errorf("reading a root: %w", err)
	}
	served := serve(b.engine, b.root, sandbox.WorkspaceSpec{})
	var out bytes.Buffer
	tw := tar.NewWriter(&out)
	err := func() error {
		for _, p := range paths {
			if !filepath.IsAbs(p) || filepath.Clean(p) != p {
				return fmt.Errorf("reading %q of a root: it is not a clean absolute path", p)
			}
			var part bytes.Buffer
			if err := served.Get(ctx, p[1:], limit, &part); err != nil {
				return err
			}
			if err := appendArchive(tw, &part); err != nil {
				return err
			}
		}
		return tw.Close()
	}()
	err = errors.Join(err, served.stop())
	if err != nil {
		return err
	}
	if int64(out.Len()) > limit {
		return fmt.Errorf("reading a root: %w", sandbox.ErrTooLarge)
	}
	_, err = w.Write(out.Bytes())
	return err
}

func appendArchive(tw *tar.Writer, archive io.Reader) error {
	for tr := tar.NewReader(archive); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = tw.WriteHeader(h)
		}
		if err == nil {
			_, err = io.Copy(tw, tr)
		}
		if err != nil {
			return err
		}
	}
}
