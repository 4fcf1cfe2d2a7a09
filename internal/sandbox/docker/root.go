package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"securebench/internal/bounded"
	"securebench/internal/pathname"
	"securebench/internal/sandbox"
)

const (
	// statsAtOnce is how many paths are looked at in parallel.
	statsAtOnce = 4
	// maxLevels bounds how deep a path may lie: the engine looks at none with
	// more than 255 levels.
	maxLevels = 200
)

// Changes implements [sandbox.RootReader]. The engine compares the root with
// the image; the type of each path is asked for separately.
func (b *box) Changes(ctx context.Context, limit int) ([]sandbox.Change, error) {
	changes, err := b.changes(ctx, limit)
	if err != nil {
		return nil, fmt.Errorf("listing the changes of a root: %w", err)
	}
	return changes, nil
}

func (b *box) changes(ctx context.Context, limit int) ([]sandbox.Change, error) {
	if err := b.readable(); err != nil {
		return nil, err
	}
	kinds := map[container.ChangeType]sandbox.ChangeKind{container.ChangeAdd: sandbox.Added,
		container.ChangeModify: sandbox.Modified, container.ChangeDelete: sandbox.Deleted}
	var out []sandbox.Change
	parents := b.mountParents()
	err := b.engine.conn.eachChange(ctx, b.name, func(c container.FilesystemChange) error {
		if b.mountPoint(c.Path) {
			return nil
		}
		if strings.Count(c.Path, "/") > maxLevels {
			return fmt.Errorf("%.80q is too deep: %w", c.Path, sandbox.ErrTooLarge)
		}
		if len(out)-parents >= limit {
			return fmt.Errorf("more than %d changes: %w", limit, sandbox.ErrTooLarge)
		}
		out = append(out, sandbox.Change{Path: c.Path, Kind: kinds[c.Kind]})
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b sandbox.Change) int { return strings.Compare(a.Path, b.Path) })
	out = b.withoutMountParents(out)
	if len(out) > limit {
		return nil, fmt.Errorf("more than %d changes: %w", limit, sandbox.ErrTooLarge)
	}
	return out, b.addTypes(ctx, out)
}

// addTypes looks at everything that was not deleted, a few at a time.
func (b *box) addTypes(ctx context.Context, changes []sandbox.Change) error {
	errs := make([]error, statsAtOnce)
	var wg sync.WaitGroup
	for worker := range errs {
		wg.Go(func() {
			for i := worker; i < len(changes) && errs[worker] == nil; i += statsAtOnce {
				if c := &changes[i]; c.Kind != sandbox.Deleted {
					var err error
					if c.Type, err = b.fileType(ctx, c.Path); cerrdefs.IsInternal(err) && b.circular(ctx, c.Path) {
						c.Type, err = sandbox.Symlink, nil
					}
					errs[worker] = err
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// circular reports whether a path that the engine cannot look at is a link that it
// cannot follow: asked only for a type, it gives no reason.
func (b *box) circular(ctx context.Context, p string) bool {
	res, err := b.engine.conn.API.CopyFromContainer(ctx, b.name, client.CopyFromContainerOptions{SourcePath: p})
	if err == nil {
		_ = res.Content.Close() // nothing was written
	}
	return unfollowable(err)
}

// readable refuses to read a root that can still change or never could.
func (b *box) readable() error {
	switch {
	case !b.writable:
		return errors.New("the sandbox has no writable root")
	case b.closed.Load():
		return os.ErrClosed
	case !b.ended.Load():
		return errors.New("the command has not ended")
	}
	return nil
}

// mountPoint reports whether p is at or below a mount point.
func (b *box) mountPoint(p string) bool {
	return pathname.Within(p, b.hidden...)
}

// mountParents is the most folders that can be above mount points.
func (b *box) mountParents() (n int) {
	for _, target := range b.hidden {
		n += strings.Count(target, "/")
	}
	return n
}

// withoutMountParents removes the folders that changed only because the engine
// made mount points in them. The changes are sorted by path.
func (b *box) withoutMountParents(changes []sandbox.Change) (kept []sandbox.Change) {
	for _, c := range slices.Backward(changes) {
		parent := slices.ContainsFunc(b.hidden, func(target string) bool { return pathname.Within(target, c.Path) })
		if !parent || slices.ContainsFunc(kept, func(below sandbox.Change) bool { return pathname.Within(below.Path, c.Path) }) {
			kept = append(kept, c)
		}
	}
	slices.Reverse(kept)
	return kept
}

// fileType returns the type of a path, "" if it does not exist.
func (b *box) fileType(ctx context.Context, p string) (sandbox.FileType, error) {
	res, err := b.engine.conn.API.ContainerStatPath(ctx, b.name, client.ContainerStatPathOptions{Path: p})
	if cerrdefs.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("looking at %q: %w", p, err)
	}
	switch mode := res.Stat.Mode; mode.Type() {
	case 0:
		return sandbox.RegularFile, nil
	case fs.ModeDir:
		return sandbox.Directory, nil
	case fs.ModeSymlink:
		return sandbox.Symlink, nil
	case fs.ModeNamedPipe:
		return sandbox.NamedPipe, nil
	case fs.ModeSocket:
		return sandbox.Socket, nil
	default:
		return sandbox.Device, nil
	}
}

// Archive implements [sandbox.RootReader]. It costs one transfer per path, so
// callers name the highest folder that they want all of.
func (b *box) Archive(ctx context.Context, paths []string, limit int64, w io.Writer) error {
	if err := b.readable(); err != nil {
		return fmt.Errorf("reading a root: %w", err)
	}
	out := &bounded.Writer{W: w, Left: limit, Err: sandbox.ErrTooLarge}
	tw := tar.NewWriter(out)
	for _, p := range paths {
		if err := b.archive(ctx, p, tw, out); err != nil {
			return fmt.Errorf("reading %q of a root: %w", p, err)
		}
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("ending the archive of a root: %w", err)
	}
	return nil
}

func (b *box) archive(ctx context.Context, p string, tw *tar.Writer, out *bounded.Writer) error {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		return errors.New("it is not a clean absolute path")
	}
	if b.mountPoint(p) {
		return nil
	}
	// The engine follows links in the parents, inside the root.
	for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
		t, err := b.fileType(ctx, dir)
		if err != nil || t != sandbox.Directory {
			return err
		}
	}
	res, err := b.engine.conn.API.CopyFromContainer(ctx, b.name, client.CopyFromContainerOptions{SourcePath: p})
	if cerrdefs.IsNotFound(err) || unfollowable(err) {
		return nil
	}
	if err != nil {
		return err
	}
	err = b.rename(res.Content, p, tw, out)
	return errors.Join(err, res.Content.Close())
}

// unfollowable reports whether the engine cannot follow the link that it was asked
// for: it leads in circles, or too far.
func unfollowable(err error) bool {
	if !cerrdefs.IsInternal(err) {
		return false
	}
	return strings.Contains(err.Error(), "too many links") || strings.Contains(err.Error(), unix.ENAMETOOLONG.Error())
}

// rename copies the engine's archive of p, whose names begin with the last
// element of p, under full names.
func (b *box) rename(archive io.Reader, p string, tw *tar.Writer, out *bounded.Writer) error {
	for tr := tar.NewReader(archive); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		full, ok := fullName(p, h.Name)
		if !ok {
			return fmt.Errorf("the engine's archive has an entry outside of it: %q", h.Name)
		}
		if full == "/" || b.mountPoint(full) {
			continue
		}
		if h.Size > out.Left {
			return sandbox.ErrTooLarge // before a byte of it is read
		}
		if h.Typeflag == tar.TypeLink {
			target, ok := fullName(p, h.Linkname)
			if !ok {
				return fmt.Errorf("the engine's archive has a hard link out of it: %q", h.Linkname)
			}
			h.Linkname = target[1:]
		}
		h.Name = full[1:]
		if h.Typeflag == tar.TypeDir {
			h.Name += "/"
		}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(tw, tr); err != nil {
			return err
		}
	}
}

// fullName is the path of an entry in the engine's archive of p.
func fullName(p, name string) (string, bool) {
	name = path.Clean(strings.TrimPrefix(name, "/"))
	valid := fs.ValidPath(strings.ToValidUTF8(name, "?")) // a name may be any bytes
	if p == "/" {
		return path.Join("/", name), valid
	}
	base := path.Base(p)
	if !pathname.Within(name, base) {
		return "", false
	}
	return p + name[len(base):], valid
}
