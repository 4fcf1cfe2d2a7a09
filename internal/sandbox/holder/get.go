package holder

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"securebench/internal/bounded"
	"securebench/internal/sandbox"
)

// tarBlock is the size of a header, the least that an entry takes.
const tarBlock = 512

// get writes the part of the tree at path as an archive of at most limit
// bytes, without what is at or below the paths in skip.
func get(root *os.Root, path string, limit int64, skip []string, w io.Writer) error {
	if !fs.ValidPath(path) || strings.ContainsRune(path, 0) {
		return fmt.Errorf("%q is not a path inside the tree", path)
	}
	if err := checkSkip(skip); err != nil {
		return err
	}
	lw := &bounded.Writer{W: w, Left: limit, Err: sandbox.ErrTooLarge}
	a := &archiver{tw: tar.NewWriter(lw), limit: lw, skip: make(map[string]bool, len(skip))}
	for _, s := range skip {
		a.skip[s] = true
	}
	if err := a.walk(root, path); err != nil {
		return err
	}
	return a.tw.Close()
}

type archiver struct {
	tw    *tar.Writer
	limit *bounded.Writer
	skip  map[string]bool
}

// walk goes down to path and archives what is there.
func (a *archiver) walk(root *os.Root, path string) error {
	if path == "." {
		return a.directory(root, ".", ".", 0)
	}
	parts := strings.Split(path, "/")
	if len(parts) > MaxDepth {
		return nil // such a path is never archived
	}
	dir := root
	for i, name := range parts[:len(parts)-1] {
		if a.skip[strings.Join(parts[:i+1], "/")] {
			return nil
		}
		sub, err := openDir(dir, name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("opening %q: %w", path, err)
		}
		defer sub.Close()
		dir = sub
	}
	return a.entry(dir, parts[len(parts)-1], path, len(parts))
}

// entry archives name of dir under the name full.
func (a *archiver) entry(dir *os.Root, name, full string, depth int) error {
	if a.skip[full] {
		return nil
	}
	info, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, fs.ErrPermission):
		return a.closed(full)
	case err != nil:
		return fmt.Errorf("looking at %q: %w", full, err)
	case info.IsDir():
		return a.directory(dir, name, full, depth)
	case info.Mode().IsRegular():
		return a.file(dir, name, full, info)
	}
	return a.special(dir, name, full, info)
}

// directory archives a directory and what is below it. The root of the tree,
// which is ".", has no entry of its own unless it cannot be read.
func (a *archiver) directory(dir *os.Root, name, full string, depth int) error {
	if depth > MaxDepth {
		return sandbox.ErrTooLarge
	}
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrPermission) { // the root of the tree can be closed as well
		return a.closed(full)
	}
	if err != nil {
		return fmt.Errorf("looking at %q: %w", full, err)
	}
	sub, err := openDir(dir, name)
	if errors.Is(err, fs.ErrPermission) {
		return a.unreadable(full, info)
	}
	if err != nil {
		return fmt.Errorf("opening %q: %w", full, err)
	}
	defer sub.Close()
	names, attributes, err := a.names(sub)
	if errors.Is(err, fs.ErrPermission) {
		return a.unreadable(full, info)
	}
	if err != nil {
		return fmt.Errorf("listing %q: %w", full, err)
	}
	prefix := ""
	if full != "." {
		prefix = full + "/"
		h := newHeader(prefix, info)
		h.Typeflag = tar.TypeDir
		if attributes {
			record(h, RecordAttributes, "1")
		}
		if err := a.header(h); err != nil {
			return err
		}
	}
	for _, n := range names {
		if err := a.entry(sub, n, prefix+n, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// names lists a directory in order, and reports whether it has extended
// attributes. It stops when even the headers of the names would not fit, so that
// a million files cost no memory.
func (a *archiver) names(dir *os.Root) (names []string, attributes bool, err error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	attributes = hasAttributes(f)
	for {
		more, err := f.Readdirnames(1024)
		names = append(names, more...)
		if errors.Is(err, io.EOF) {
			slices.Sort(names)
			return names, attributes, nil
		}
		if err != nil {
			return nil, false, err
		}
		if int64(len(names))*tarBlock > a.limit.Left {
			return nil, false, sandbox.ErrTooLarge
		}
	}
}

// file archives a regular file.
func (a *archiver) file(dir *os.Root, name, full string, seen fs.FileInfo) error {
	// O_NONBLOCK: the file may have been replaced with a FIFO.
	f, err := dir.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) {
		return a.unreadable(full, seen)
	}
	if err != nil {
		return fmt.Errorf("opening %q: %w", full, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("looking at %q: %w", full, err)
	}
	if !info.Mode().IsRegular() || !os.SameFile(seen, info) {
		return fmt.Errorf("reading %q: %w", full, errChanged)
	}
	h := newHeader(full, info)
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if hasAttributes(f) {
		record(h, RecordAttributes, "1")
	}
	if h.Size > a.limit.Left-tarBlock {
		return sandbox.ErrTooLarge // before a byte of it is read
	}
	if err := a.header(h); err != nil {
		return err
	}
	n, err := io.CopyN(a.tw, f, h.Size)
	if errors.Is(err, io.EOF) && n < h.Size {
		err = errChanged
	}
	if err != nil {
		return fmt.Errorf("reading %q: %w", full, err)
	}
	return nil
}

// special archives the header of what is neither a file nor a directory.
func (a *archiver) special(dir *os.Root, name, full string, info fs.FileInfo) error {
	h := newHeader(full, info)
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		target, err := dir.Readlink(name)
		if err != nil {
			return fmt.Errorf("reading the link %q: %w", full, err)
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
	case mode&fs.ModeSocket != 0:
		h.Typeflag = tar.TypeFifo
		record(h, RecordType, Socket)
	case mode&fs.ModeCharDevice != 0:
		h.Typeflag = tar.TypeChar
		setDevice(h, info)
	case mode&fs.ModeDevice != 0:
		h.Typeflag = tar.TypeBlock
		setDevice(h, info)
	default:
		h.Typeflag = tar.TypeFifo
	}
	return a.header(h)
}

// closed archives what lies in a directory that cannot be searched.
func (a *archiver) closed(full string) error {
	return a.header(&tar.Header{Name: full, Typeflag: tar.TypeFifo, PAXRecords: map[string]string{RecordType: Unreadable}})
}

func (a *archiver) unreadable(full string, info fs.FileInfo) error {
	h := newHeader(full, info)
	h.Typeflag = tar.TypeFifo
	record(h, RecordType, Unreadable)
	return a.header(h)
}

func (a *archiver) header(h *tar.Header) error {
	if err := a.tw.WriteHeader(h); err != nil {
		return fmt.Errorf("archiving %q: %w", h.Name, err)
	}
	return nil
}

// newHeader makes the common part of a header. tar.FileInfoHeader would look up
// user names.
func newHeader(name string, info fs.FileInfo) *tar.Header {
	h := &tar.Header{Name: name, Mode: modeBits(info.Mode()), ModTime: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		h.Uid, h.Gid = int(st.Uid), int(st.Gid)
		if st.Nlink > 1 && !info.IsDir() {
			record(h, RecordLinks, strconv.FormatUint(uint64(st.Nlink), 10)) //nolint:unconvert // its width depends on the architecture
		}
	}
	return h
}

// hasAttributes reports whether a file has extended attributes, except for a label
// that the system gives to every file. A file system without any has none.
func hasAttributes(f *os.File) (found bool) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	names := make([]byte, 512)
	_ = conn.Control(func(fd uintptr) {
		n, err := unix.Flistxattr(int(fd), names)
		if err != nil {
			found = errors.Is(err, unix.ERANGE)
			return
		}
		for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
			found = found || name != "" && name != "security.selinux"
		}
	})
	return found
}

func setDevice(h *tar.Header, info fs.FileInfo) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		h.Devmajor = int64(unix.Major(uint64(st.Rdev))) //nolint:unconvert // as above
		h.Devminor = int64(unix.Minor(uint64(st.Rdev))) //nolint:unconvert // as above
	}
}

func record(h *tar.Header, name, value string) {
	if h.PAXRecords == nil {
		h.PAXRecords = make(map[string]string)
	}
	h.PAXRecords[name] = value
}

// modeBits returns a mode as the kernel and tar number it.
func modeBits(m fs.FileMode) int64 {
	bits := int64(m.Perm())
	if m&fs.ModeSetuid != 0 {
		bits |= unix.S_ISUID
	}
	if m&fs.ModeSetgid != 0 {
		bits |= unix.S_ISGID
	}
	if m&fs.ModeSticky != 0 {
		bits |= unix.S_ISVTX
	}
	return bits
}
