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
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/unpack"
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

// maxDepth bounds how deep folders are nested, so that each can be removed again.
const maxDepth = 256

// Unpack unpacks the tar stream of a layer into the empty folder dir, as Docker does: a
// link within the layer is followed, but nothing leads out. It reads the stream to its
// end. After an error the folder may have any content.
func Unpack(ctx context.Context, r io.Reader, dir string, o Options) (sum Summary, err error) {
	root, err := os.Open(dir)
	if err != nil {
		return Summary{}, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	p := &planner{o: o, sum: &sum}
	err = unpack.Tar(ctx, root, r, unpack.Options{
		Entries: o.Limits.Entries, Bytes: o.Limits.Bytes, Archive: o.Limits.Bytes, Depth: maxDepth,
		Plan: p.entry, Replace: true, Follow: true, OpaqueMark: o.Opaque,
	})
	var refused *unpack.Refused
	if errors.As(err, &refused) || ofLayer(err) {
		err = fmt.Errorf("%w: %w", ErrLayer, err)
	}
	return sum, err
}

// ofLayer says which errors of system calls are the layer's fault.
func ofLayer(err error) bool {
	var entry *unpack.Error
	return errors.As(err, &entry) && slices.ContainsFunc([]error{unix.ENAMETOOLONG, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.EISDIR, unix.ENOENT, unix.EEXIST, unix.EMLINK},
		func(of error) bool { return errors.Is(err, of) })
}

// planner says what becomes of the entries of a layer.
type planner struct {
	o   Options
	sum *Summary
}

const (
	whiteoutPrefix = ".wh."
	whiteoutMeta   = ".wh..wh." // of aufs itself
	whiteoutOpaque = ".wh..wh..opq"
)

func (p *planner) entry(h *tar.Header) (e unpack.Entry, err error) {
	p.sum.Entries++
	if h.Typeflag == tar.TypeXGlobalHeader {
		return e, nil
	}
	name, err := clean(h.Name)
	if err != nil {
		return e, err
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return e, errors.New("the root is not a folder")
		}
		return e, nil // whose owner and mode are not the layer's to say, as with Docker
	}
	folders, base := path.Split(name)
	switch {
	case strings.Contains("/"+folders, "/"+whiteoutMeta), strings.HasPrefix(base, whiteoutMeta) && base != whiteoutOpaque:
		p.leaveOut(h.Name, "it belongs to aufs")
		return e, nil
	case strings.Contains("/"+folders, "/"+whiteoutPrefix):
		return e, errors.New("a whiteout is not a folder")
	case base == whiteoutOpaque:
		return unpack.Entry{Kind: unpack.Opaque, Name: name}, nil
	case slices.Contains([]string{whiteoutPrefix, whiteoutPrefix + ".", whiteoutPrefix + ".."}, base):
		return e, errors.New("a whiteout of no name")
	case strings.HasPrefix(base, whiteoutPrefix):
		return unpack.Entry{Kind: unpack.Whiteout, Name: folders + base[len(whiteoutPrefix):]}, nil
	}
	return p.node(name, h)
}

// short quotes a name.
func short(name string) string { return fmt.Sprintf("%.200q", name) }

func (p *planner) leaveOut(name, why string) {
	if p.sum.Omitted++; p.sum.Omitted <= maxLeftOut {
		p.sum.LeftOut = append(p.sum.LeftOut, short(name)+": "+why)
	}
}

// maxPath and maxName are what the kernel takes, without the final zero.
const maxPath, maxName = 4095, 255

// clean returns the path of an entry below the root. A leading slash means the
// layer's root, as with Docker.
func clean(name string) (string, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return "", errors.New("the name contains a zero byte")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errors.New("the name leads up")
		}
		if len(part) > maxName {
			return "", fmt.Errorf("a part of the name is longer than %d bytes", maxName)
		}
	}
	name = path.Clean(strings.TrimLeft(name, "/"))
	if len(name) > maxPath {
		return "", fmt.Errorf("the name is longer than %d bytes", maxPath)
	}
	return name, nil
}

// node plans what an entry makes, in place of what an earlier entry of the same
// name made.
func (p *planner) node(name string, h *tar.Header) (e unpack.Entry, err error) {
	e = unpack.Entry{Name: name, Target: h.Linkname, Mode: uint32(h.Mode) & 0o7777, Time: timeOf(h),
		Finish: func(file string) error { return p.extended(file, h) }}
	switch h.Typeflag {
	case tar.TypeDir:
		e.Kind = unpack.Folder
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		e.Kind = unpack.File
		p.sum.Bytes += h.Size
	case tar.TypeSymlink:
		e.Kind = unpack.Symlink
	case tar.TypeLink:
		e.Kind = unpack.HardLink
		if e.Target, err = clean(h.Linkname); err != nil {
			return e, fmt.Errorf("link to %s: %w", short(h.Linkname), err)
		}
	case tar.TypeFifo:
		e.Kind = unpack.Pipe
	case tar.TypeChar, tar.TypeBlock:
		p.leaveOut(h.Name, "devices are not made from images")
	default:
		return e, fmt.Errorf("an entry of the unknown type %q", h.Typeflag)
	}
	if p.o.Owners {
		if h.Uid < 0 || h.Gid < 0 || int64(h.Uid) >= math.MaxUint32 || int64(h.Gid) >= math.MaxUint32 {
			return e, fmt.Errorf("owner %d:%d", h.Uid, h.Gid)
		}
		e.Owner = &unpack.Owner{UID: h.Uid, GID: h.Gid}
	}
	return e, nil
}

// kept tells which extended attributes are taken over: those that programs of the
// image may depend on. Others belong to the kernel's parts that made them, such as
// overlayfs, for which they would be orders.
func kept(name string) bool {
	return name == "security.capability" || strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.")
}

func (p *planner) extended(file string, h *tar.Header) error {
	for _, key := range slices.Sorted(maps.Keys(h.PAXRecords)) {
		name, ok := strings.CutPrefix(key, "SCHILY.xattr.")
		if !ok {
			continue
		}
		if !kept(name) {
			p.leaveOut(h.Name, "attribute "+short(name))
			continue
		}
		err := unix.Lsetxattr(file, name, []byte(h.PAXRecords[key]), 0)
		switch {
		case errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM):
			p.leaveOut(h.Name, "attribute "+short(name)+", which cannot be set here")
		case errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ERANGE) || errors.Is(err, unix.EINVAL):
			return unpack.Refuse("attribute %s: %w", short(name), err)
		case err != nil:
			return fmt.Errorf("setting attribute %s: %w", short(name), err)
		}
	}
	return nil
}

// timeOf returns the time of an entry. Those before 1970 and after 2262 are 1970,
// as with Docker.
func timeOf(h *tar.Header) time.Time {
	if t := h.ModTime.Unix(); t < 0 || t > math.MaxInt64/int64(time.Second) {
		return time.Unix(0, 0)
	}
	return h.ModTime
}
