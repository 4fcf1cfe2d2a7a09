package upper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"securebench/internal/pathname"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/mountns"
)

// view is a layer with those below it, open.
type view struct {
	Layer
	ctx  context.Context
	tops []*os.File // the upper layer, and those below it, the highest first
}

func (l Layer) view(ctx context.Context) (*view, error) {
	v := &view{Layer: l, ctx: ctx}
	if v.marks == "" {
		v.marks = mountns.Marks()
	}
	lower := slices.Clone(l.Lower)
	slices.Reverse(lower)
	for _, root := range append([]*os.Root{l.Upper}, lower...) {
		top, err := root.Open(".")
		if err != nil {
			v.close()
			return nil, fmt.Errorf("opening a layer: %w", err)
		}
		v.tops = append(v.tops, top)
	}
	return v, nil
}

// close closes what was only read.
func (v *view) close() {
	for _, top := range v.tops {
		_ = top.Close()
	}
}

// all numbers the layers, the highest first.
func (v *view) all() []int {
	out := make([]int, len(v.tops))
	for i := range out {
		out[i] = i
	}
	return out
}

// hidden reports whether a path is at or below a mount point. Paths of this package
// have no slash at their beginning.
func (v *view) hidden(p string) bool {
	return pathname.Within("/"+p, v.Hidden...)
}

// mountParent reports whether a mount point is below a folder.
func (v *view) mountParent(p string) bool {
	return slices.ContainsFunc(v.Hidden, func(target string) bool { return pathname.Within(target, "/"+p) })
}

// child returns the path of a name in a folder, and false if it is hidden.
func (v *view) child(f *folder, name string) (p string, ok bool, err error) {
	p = name
	if f.path != "" {
		p = f.path + "/" + name
	}
	if v.hidden(p) {
		return p, false, nil
	}
	if err := v.ctx.Err(); err != nil {
		return p, false, context.Cause(v.ctx)
	}
	if len(p) >= maxPath || strings.Count(p, "/") >= maxLevels {
		return p, false, fmt.Errorf("%.80q is too deep: %w", "/"+p, sandbox.ErrTooLarge)
	}
	return p, true, nil
}

// subfolder says how a folder is opened.
type subfolder struct {
	path   string // "" is the root
	layers []int  // that have a folder there, the highest first, as far as they are merged
	opaque bool   // a folder above is, and hides what lower layers have
}

// folder is one folder of several layers.
type folder struct {
	path   string
	parts  []part // the highest first
	opaque bool   // parts below the upper layer's are not visible
}

// part is a folder of one layer.
type part struct {
	layer int // 0 is the upper one
	dir   *os.File
	// marked says that regular files with a mark in it stand for nothing.
	marked bool
}

// visible are the parts whose entries the sandbox saw.
func (f *folder) visible() []part {
	if f.opaque {
		return f.parts[:1]
	}
	return f.parts
}

func (f *folder) close() error {
	var errs []error
	for _, p := range f.parts {
		errs = append(errs, p.dir.Close())
	}
	return errors.Join(errs...)
}

// open opens a folder in all layers that have a part in it.
func (v *view) open(s subfolder) (*folder, error) {
	f := &folder{path: s.path, opaque: s.opaque}
	for _, layer := range s.layers {
		p, opaque, err := v.openPart(layer, s.path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("opening %q of a layer: %w", "/"+s.path, err), f.close())
		}
		f.parts = append(f.parts, p)
		switch {
		case opaque && layer == 0:
			f.opaque = true // what it hides is compared all the same
		case opaque:
			return f, nil
		}
	}
	return f, nil
}

func (v *view) openPart(layer int, path string) (p part, opaque bool, err error) {
	if path == "" {
		path = "."
	}
	dir, err := openAt(v.tops[layer], path, unix.O_DIRECTORY)
	if err != nil {
		return part{}, false, err
	}
	p = part{layer: layer, dir: dir}
	mark, err := v.mark(dir, "opaque")
	if err == nil {
		err = v.refuse(dir, "redirect")
	}
	if err != nil {
		return part{}, false, errors.Join(err, dir.Close())
	}
	p.marked = mark == "x"
	return p, mark == "y", nil
}

// openAt opens a path below a folder without following a link.
func openAt(dir *os.File, path string, flags uint64) (*os.File, error) {
	for {
		fd, err := unix.Openat2(int(dir.Fd()), path, &unix.OpenHow{
			Flags:   flags | unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}

// mark returns the value of a mark, "" if there is none.
func (v *view) mark(f *os.File, name string) (string, error) {
	value := make([]byte, 8) // enough for those that are looked at
	n, err := unix.Fgetxattr(int(f.Fd()), v.marks+name, value)
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP):
		return "", nil
	case errors.Is(err, unix.ERANGE):
		return "?", nil
	case err != nil:
		return "", err
	case n == 0:
		return "?", nil
	}
	return string(value[:n]), nil
}

// refuse is an error if there is a mark that is not handled here.
func (v *view) refuse(f *os.File, name string) error {
	mark, err := v.mark(f, name)
	if err == nil && mark != "" {
		err = fmt.Errorf("the overlay was mounted with a feature that is not supported: %s", name)
	}
	return err
}

// found is what layers have under a name.
type found struct {
	there bool
	in    part // the highest of them
	st    unix.Stat_t
	// folders are the layers that have a folder there, if it is one.
	folders []int
}

// find looks a name up. The highest layer that has it says what it is; folders of
// lower layers are merged into a folder until one has something else there.
func (v *view) find(parts []part, name string) (out found, err error) {
	for _, p := range parts {
		var st unix.Stat_t
		err := unix.Fstatat(int(p.dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return found{}, err
		}
		gone, err := v.whiteout(p, name, &st)
		if err != nil || gone {
			return out, err
		}
		isFolder := st.Mode&unix.S_IFMT == unix.S_IFDIR
		if !out.there {
			out = found{there: true, in: p, st: st}
		}
		if !isFolder {
			return out, nil
		}
		out.folders = append(out.folders, p.layer)
	}
	return out, nil
}

// whiteout reports whether an entry says that there is nothing.
func (v *view) whiteout(p part, name string, st *unix.Stat_t) (bool, error) {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		return st.Rdev == 0, nil
	case unix.S_IFREG:
		if !p.marked || st.Size != 0 {
			return false, nil
		}
	default:
		return false, nil
	}
	_, err := unix.Lgetxattr("/proc/self/fd/"+strconv.Itoa(int(p.dir.Fd()))+"/"+name, v.marks+"whiteout", nil)
	if errors.Is(err, unix.ENODATA) {
		return false, nil
	}
	return err == nil, err
}

// names lists the names in the folders of layers, sorted, each once.
func (v *view) names(parts []part) ([]string, error) {
	var out []string
	for _, p := range parts {
		names, err := p.dir.Readdirnames(-1)
		if err != nil {
			return nil, fmt.Errorf("listing a folder of a layer: %w", err)
		}
		out = append(out, names...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// owner returns the sandbox's own IDs of the owner of something. What belongs to
// no process in the sandbox belongs to the user that the kernel shows there.
func (v *view) owner(layer int, st *unix.Stat_t) sandbox.User {
	u := sandbox.User{UID: int(st.Uid), GID: int(st.Gid)}
	if layer != 0 || v.IDBase == 0 {
		return u
	}
	if u.UID -= v.IDBase; u.UID < 0 {
		u.UID = sandbox.Nobody.UID
	}
	if u.GID -= v.IDBase; u.GID < 0 {
		u.GID = sandbox.Nobody.GID
	}
	return u
}

func fileType(mode uint32) sandbox.FileType {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return sandbox.RegularFile
	case unix.S_IFDIR:
		return sandbox.Directory
	case unix.S_IFLNK:
		return sandbox.Symlink
	case unix.S_IFIFO:
		return sandbox.NamedPipe
	case unix.S_IFSOCK:
		return sandbox.Socket
	}
	return sandbox.Device
}
