package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
)

// fill copies a folder of an image into the workspace, as the Docker engine fills a
// volume: with links, owners, modes and times, but without devices and sockets.
func (w *workspaceTree) fill(ctx context.Context, from sandbox.ImageFolder) error {
	image, err := w.engine.use(from.Image.ID)
	if err != nil {
		return err
	}
	defer w.engine.drop(image)
	folder, err := w.engine.folder(image, from.Path)
	if err != nil {
		return err
	}
	c := &copier{ctx: ctx, from: folder, to: w.root, seen: map[inode]string{}}
	err = errors.Join(c.tree("."), folder.Close())
	if errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("copying %s of image %s: %w (%w)", from.Path, image.ID, sandbox.ErrTooSmall, err)
	}
	if err != nil {
		return fmt.Errorf("copying %s of image %s: %w", from.Path, image.ID, err)
	}
	return nil
}

// copier copies a tree that does not change.
type copier struct {
	ctx      context.Context //nolint:containedctx // of one copy
	from, to *os.Root
	seen     map[inode]string // the first name of files with several
}

type inode struct{ dev, ino uint64 }

// tree copies what is at a path and below it.
func (c *copier) tree(name string) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	info, err := c.from.Lstat(name)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("the file system says too little")
	}
	switch info.Mode().Type() {
	case 0:
		if done, err := c.again(name, st); done || err != nil {
			return err
		}
		err = c.file(name)
	case fs.ModeDir:
		err = c.folder(name)
	case fs.ModeSymlink:
		return c.link(name, st)
	case fs.ModeNamedPipe:
		err = c.pipe(name)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	// The mode comes after the owner, who loses set-user-ID bits.
	return errors.Join(c.to.Lchown(name, int(st.Uid), int(st.Gid)), c.to.Chmod(name, info.Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)),
		c.to.Chtimes(name, info.ModTime(), info.ModTime()))
}

// again links a file that was copied under another name.
func (c *copier) again(name string, st *syscall.Stat_t) (bool, error) {
	if st.Nlink < 2 {
		return false, nil
	}
	id := inode{st.Dev, st.Ino}
	first, ok := c.seen[id]
	if !ok {
		c.seen[id] = name
		return false, nil
	}
	return true, c.to.Link(first, name)
}

func (c *copier) file(name string) error {
	in, err := c.from.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func (c *copier) folder(name string) error {
	if name != "." {
		if err := c.to.Mkdir(name, 0o700); err != nil {
			return err
		}
	}
	dir, err := c.from.Open(name)
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return err
	}
	for _, n := range names {
		if err := c.tree(path.Join(name, n)); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) link(name string, st *syscall.Stat_t) error {
	target, err := c.from.Readlink(name)
	if err != nil {
		return err
	}
	if err := c.to.Symlink(target, name); err != nil {
		return err
	}
	return c.to.Lchown(name, int(st.Uid), int(st.Gid))
}

func (c *copier) pipe(name string) error {
	dir, err := c.to.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return unix.Mknodat(int(dir.Fd()), path.Base(name), unix.S_IFIFO|0o600, 0)
}
