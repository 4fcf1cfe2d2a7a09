// Package layer unpacks the layers of images into folders that overlayfs can use.
// What a layer contains was chosen by others: nothing of it leaves the folder, and
// what would be dangerous or without use on this machine is left out.
package layer

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrLayer is wrapped by the error of a layer that cannot be used: it is damaged,
// tries to leave its folder, or is larger than the limits.
var ErrLayer = errors.New("not a usable layer")

// Limits bound what one layer may contain.
type Limits struct {
	Entries int   // of the archive, whiteouts included
	Bytes   int64 // of the archive, uncompressed, and of its files, holes included
}

// DefaultLimits are far above what images have.
func DefaultLimits() Limits { return Limits{Entries: 1 << 20, Bytes: 64 << 30} }

// Options say how a layer is unpacked.
type Options struct {
	Limits Limits
	// Opaque is the attribute that marks folders that hide those below:
	// [OpaqueTrusted], or [OpaqueUser] for overlays that are mounted in a user namespace.
	Opaque string
	// Owners keeps the owners of files; else all belong to the caller.
	Owners bool
}

// The attributes of an opaque folder (kernel, filesystems/overlayfs).
const (
	OpaqueTrusted = "trusted.overlay.opaque"
	OpaqueUser    = "user.overlay.opaque"
)

// Summary is what a layer contains.
type Summary struct {
	Entries int
	Bytes   int64 // of its files
	// LeftOut are the first things that were not unpacked, of Omitted, each with the reason.
	LeftOut []string
	Omitted int
}

const maxLeftOut = 100

// Unpack unpacks the tar stream of a layer into the empty folder dir. It reads the
// stream to its end. After an error the folder may have any content.
func Unpack(ctx context.Context, r io.Reader, dir string, o Options) (Summary, error) {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Summary{}, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	depth, err := depthOf(root)
	if err != nil {
		return Summary{}, errors.Join(&os.PathError{Op: "readlink", Path: dir, Err: err}, unix.Close(root))
	}
	in := &bounded{ctx: ctx, r: r, left: o.Limits.Bytes}
	u := &unpacker{tree: tree{root: root, depth: depth, opaque: o.Opaque, cached: -1}, o: o, left: o.Limits.Bytes, buffer: make([]byte, 1<<18)}
	err = u.entries(in)
	if err == nil {
		// What follows the archive belongs to the layer's digest.
		_, err = io.Copy(io.Discard, in)
	}
	if err == nil {
		err = u.folderTimes()
	}
	if in.err != nil {
		err = in.err // what ended the stream, not what the archive reader makes of it
	}
	return u.sum, errors.Join(err, u.close())
}

// bounded ends a stream that is longer than a layer may be, and one that is no
// longer wanted. It keeps the error that ended the stream.
type bounded struct {
	ctx  context.Context
	r    io.Reader
	left int64
	err  error
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		b.err = context.Cause(b.ctx)
		return 0, b.err
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		b.err = errTooLarge
		return 0, b.err
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

var errTooLarge = fmt.Errorf("%w: it is larger than the limit", ErrLayer)

type unpacker struct {
	tree
	o       Options
	sum     Summary
	left    int64
	buffer  []byte
	folders []folder
}

// folder is one whose times are set at the end, as each new file changes them.
type folder struct {
	name string
	time unix.Timespec
}

func (u *unpacker) entries(in io.Reader) error {
	archive := tar.NewReader(in)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: the archive is damaged: %w", ErrLayer, err)
		}
		if u.sum.Entries++; u.sum.Entries > u.o.Limits.Entries {
			return fmt.Errorf("%w: it has more than %d entries", ErrLayer, u.o.Limits.Entries)
		}
		if err := u.entry(h, archive); err != nil {
			return fmt.Errorf("entry %s: %w", short(h.Name), err)
		}
	}
}

// short quotes a name for an error.
func short(name string) string { return fmt.Sprintf("%.200q", name) }

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrLayer}, args...)...)
}

const (
	whiteoutPrefix = ".wh."
	whiteoutMeta   = ".wh..wh." // of aufs itself
	whiteoutOpaque = ".wh..wh..opq"
)

// entry unpacks one entry.
func (u *unpacker) entry(h *tar.Header, in io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := clean(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return bad("the root is not a folder")
		}
		return nil // whose owner and mode are not the layer's to say, as with Docker
	}
	folders, base := path.Split(name)
	if strings.Contains("/"+folders, "/"+whiteoutMeta) || strings.HasPrefix(base, whiteoutMeta) && base != whiteoutOpaque {
		u.leaveOut(h.Name, "it belongs to aufs")
		return nil
	}
	if strings.Contains("/"+folders, "/"+whiteoutPrefix) {
		return bad("a whiteout is not a folder")
	}
	parent, err := u.parent(path.Clean(folders))
	if err != nil {
		return err
	}
	if strings.HasPrefix(base, whiteoutPrefix) {
		return u.whiteout(parent, base)
	}
	return u.node(parent, base, name, h, in)
}

func (u *unpacker) leaveOut(name, why string) {
	if u.sum.Omitted++; u.sum.Omitted <= maxLeftOut {
		u.sum.LeftOut = append(u.sum.LeftOut, short(name)+": "+why)
	}
}

// maxPath and maxName are what the kernel takes, without the final zero.
const maxPath, maxName = 4095, 255

// clean returns the path of an entry below the root. A leading slash means the
// layer's root, as with Docker.
func clean(name string) (string, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return "", bad("the name contains a zero byte")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", bad("the name leads up")
		}
		if len(part) > maxName {
			return "", bad("a part of the name is longer than %d bytes", maxName)
		}
	}
	name = path.Clean(strings.TrimLeft(name, "/"))
	if len(name) > maxPath {
		return "", bad("the name is longer than %d bytes", maxPath)
	}
	return name, nil
}

// node makes what an entry stands for, in place of what an earlier entry of the
// same name made.
func (u *unpacker) node(parent int, base, name string, h *tar.Header, in io.Reader) error {
	var err error
	switch h.Typeflag {
	case tar.TypeDir:
		if err = u.makeFolder(parent, base); err == nil {
			u.folders = append(u.folders, folder{name, timeOf(h)})
		}
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return u.file(parent, base, h, in)
	case tar.TypeSymlink:
		err = u.replace(parent, base, func() error { return unix.Symlinkat(h.Linkname, parent, base) })
	case tar.TypeLink:
		err = u.hardLink(parent, base, name, h)
	case tar.TypeFifo:
		err = u.replace(parent, base, func() error { return unix.Mknodat(parent, base, unix.S_IFIFO|0o600, 0) })
	case tar.TypeChar, tar.TypeBlock:
		u.leaveOut(h.Name, "devices are not made from images")
		return nil
	default:
		return bad("an entry of the unknown type %q", h.Typeflag)
	}
	if err != nil {
		return classify(err)
	}
	return u.attributes(parent, base, h)
}

// hardLink makes a second name for a file of the same layer.
func (u *unpacker) hardLink(parent int, base, name string, h *tar.Header) error {
	target, err := clean(h.Linkname)
	if err != nil {
		return fmt.Errorf("link to %s: %w", short(h.Linkname), err)
	}
	if target == "." || target == name {
		return bad("a hard link to itself or to the root")
	}
	folder, err := u.open(path.Dir(target))
	if err != nil {
		return bad("a hard link to %s, which is not in the layer", short(h.Linkname))
	}
	defer unix.Close(folder)
	var st unix.Stat_t
	err = unix.Fstatat(folder, path.Base(target), &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || isWhiteout(&st) || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return bad("a hard link to %s, which is not a file of the layer", short(h.Linkname))
	}
	var old unix.Stat_t
	if unix.Fstatat(parent, base, &old, unix.AT_SYMLINK_NOFOLLOW) == nil && old.Ino == st.Ino && old.Dev == st.Dev {
		return nil // they are one file already
	}
	return u.replace(parent, base, func() error { return unix.Linkat(folder, path.Base(target), parent, base, 0) })
}

// file makes a regular file.
func (u *unpacker) file(parent int, base string, h *tar.Header, in io.Reader) error {
	if h.Size > u.left {
		return errTooLarge
	}
	u.left -= h.Size
	u.sum.Bytes += h.Size
	fd := -1
	err := u.replace(parent, base, func() (err error) {
		fd, err = unix.Openat(parent, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return classify(err)
	}
	f := os.NewFile(uintptr(fd), base)
	// Without the interfaces of both sides, which would not use the buffer.
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{in}, u.buffer)
	if err == nil && n != h.Size {
		err = io.ErrUnexpectedEOF
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = bad("the archive is cut")
	}
	return errors.Join(err, f.Close(), u.attributes(parent, base, h))
}

// classify says which errors of system calls are the layer's fault.
func classify(err error) error {
	for _, of := range []error{unix.ENAMETOOLONG, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.EISDIR, unix.ENOENT, unix.EEXIST, unix.EMLINK} {
		if errors.Is(err, of) && !errors.Is(err, ErrLayer) {
			return fmt.Errorf("%w: %w", ErrLayer, err)
		}
	}
	return err
}
