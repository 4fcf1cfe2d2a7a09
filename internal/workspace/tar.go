package workspace

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"securebench/internal/digest"
	"securebench/internal/pathname"
	"securebench/internal/source"
)

// ErrChanged is returned by [Layout.WriteTar] if an asset has changed since
// the pack was loaded.
var ErrChanged = errors.New("the pack's files changed since it was loaded")

// WriteTar writes the layout as a tar archive whose entries belong to uid and
// gid: sorted, directories before their content, all times zero. Assets are
// read through their root. A link, a special file, a file that changes while
// it is read, or a layout above its bounds is an error; w has then received a
// truncated archive.
func (p *Layout) WriteTar(w io.Writer, uid, gid int) error {
	files, err := p.files()
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	digests := make(map[string]string, len(files))
	for _, f := range withDirs(files) {
		sum, err := f.write(tw, uid, gid)
		if err != nil {
			return fmt.Errorf("laying out %s: %w", f.path, err)
		}
		if sum != "" {
			digests[f.path] = sum
		}
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("finishing the workspace archive: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.digests = digests
	return nil
}

// Digests returns the SHA-256, as "sha256:…", of every file by its path in the
// workspace, as last written by [Layout.WriteTar]; before that it is empty.
func (p *Layout) Digests() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.digests)
}

// file is one regular file or directory of the archive.
type file struct {
	path string
	mode fs.FileMode // with the type bit of a directory
	data []byte
	// An asset is read from src below root and must match info.
	root *os.Root
	src  string
	info fs.FileInfo
	want string // the digest that an asset must have; "" allows any
}

func (f file) size() int64 {
	if f.info != nil {
		return f.info.Size()
	}
	return int64(len(f.data))
}

// files lists every regular file, and the directories of assets, within the
// bounds of the layout.
func (p *Layout) files() ([]file, error) {
	x, checked := &expander{left: p.maxFiles}, false
	for _, e := range p.Entries {
		if e.Asset == "" {
			x.files = append(x.files, file{path: e.Path, mode: e.Mode, data: e.Data})
			continue
		}
		if err := x.asset(e); err != nil {
			return nil, fmt.Errorf("reading asset %q: %w", e.Asset, blame(e.expect != nil, err))
		}
		checked = checked || e.expect != nil
	}
	total := int64(0)
	for _, f := range x.files {
		total += f.size()
	}
	var err error
	switch {
	case len(x.files) > p.maxFiles:
		err = fmt.Errorf("the workspace has more than %d files", p.maxFiles)
	case total > p.maxBytes:
		err = fmt.Errorf("the workspace's files have %d bytes in total, more than %d", total, p.maxBytes)
	}
	if err != nil {
		return nil, blame(checked, err) // it would have been refused at load time
	}
	return x.files, nil
}

// blame turns an error about an asset that was checked at load time into
// [ErrChanged], unless the machine failed to read it.
func blame(checked bool, err error) error {
	if !checked || errors.Is(err, ErrChanged) {
		return err
	}
	for _, machine := range []error{syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EINTR} {
		if errors.Is(err, machine) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrChanged, err)
}

// expander finds the regular files of assets.
type expander struct {
	files []file
	left  int // names that may still be looked at
}

func (x *expander) asset(e Entry) error {
	if e.root == nil {
		return errors.New("the pack has no folder of such assets")
	}
	// A link in the path could lead outside the asset.
	for dir := range parents(e.Asset) {
		if err := notLink(e.root, dir); err != nil {
			return err
		}
	}
	before := len(x.files)
	if err := x.walk(e, e.Asset, e.Path, 0); err != nil {
		return err
	}
	return x.complete(e, x.files[before:])
}

// complete reports files that are missing from an asset.
func (x *expander) complete(e Entry, files []file) error {
	missing := 0
	for name := range e.expect {
		if pathname.Within(name, e.Asset) {
			missing++
		}
	}
	for _, f := range files {
		if !f.mode.IsDir() {
			missing--
		}
	}
	if e.expect != nil && missing != 0 {
		return fmt.Errorf("%w: %s contains different files", ErrChanged, e.Asset)
	}
	return nil
}

func notLink(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		err = fmt.Errorf("%s is a symbolic link", name)
	}
	return err
}

func (x *expander) walk(e Entry, src, dst string, depth int) error {
	if x.left--; x.left < 0 || depth > MaxDepth {
		return errors.New("it has too many files or directories")
	}
	if _, err := e.check(dst); err != nil {
		return fmt.Errorf("%q: %w", dst, err)
	}
	info, err := e.root.Lstat(src)
	switch {
	case err != nil:
		return err
	case info.Mode().IsRegular():
		m := e.Mode
		if info.Mode()&0o111 != 0 {
			m |= 0o111
		}
		want, known := e.expect[src]
		if e.expect != nil && !known {
			return fmt.Errorf("%w: %s is new", ErrChanged, src)
		}
		x.files = append(x.files, file{path: dst, mode: m, root: e.root, src: src, info: info, want: want})
		return nil
	case !info.IsDir():
		return fmt.Errorf("%q is %s, not a regular file or directory", src, source.FileType(info.Mode()))
	}
	names, err := x.names(e.root, src)
	if err != nil {
		return err
	}
	before := len(x.files)
	for _, name := range names {
		if err := x.walk(e, path.Join(src, name), path.Join(dst, name), depth+1); err != nil {
			return err
		}
	}
	// As in the reference (and in git), empty directories are left out.
	if (depth == 0 || len(x.files) > before) && dst != "." {
		x.files = append(x.files, file{path: dst, mode: e.Mode | 0o111 | fs.ModeDir})
	}
	return nil
}

func (x *expander) names(root *os.Root, dir string) ([]string, error) {
	d, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(x.left + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return names, nil
}

// withDirs adds the missing parent directories and sorts everything.
func withDirs(files []file) []file {
	have := make(map[string]bool, len(files))
	for _, f := range files {
		have[f.path] = true
	}
	out := slices.Clone(files)
	for _, f := range files {
		for dir := range parents(f.path) {
			if !have[dir] {
				have[dir] = true
				out = append(out, file{path: dir, mode: 0o755 | fs.ModeDir})
			}
		}
	}
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return out
}

// write writes one entry and returns the digest of a regular file.
func (f file) write(tw *tar.Writer, uid, gid int) (string, error) {
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: f.path, Size: f.size(), Mode: int64(f.mode.Perm()),
		Uid: uid, Gid: gid, ModTime: time.Unix(0, 0),
	}
	if f.mode.IsDir() {
		h.Typeflag, h.Name, h.Size = tar.TypeDir, f.path+"/", 0
		return "", tw.WriteHeader(h)
	}
	r, err := f.open()
	if err != nil {
		return "", blame(f.want != "", err)
	}
	defer r.Close()
	if err := tw.WriteHeader(h); err != nil {
		return "", err
	}
	sum := sha256.New()
	// Reading one byte more than announced detects a file that has grown.
	n, err := io.Copy(io.MultiWriter(tw, sum), io.LimitReader(r, h.Size+1))
	switch {
	case errors.Is(err, tar.ErrWriteTooLong), err == nil && n != h.Size:
		return "", blame(f.want != "", errors.New("the file changed while it was read"))
	case err != nil:
		return "", err
	}
	got := digest.Format(sum.Sum(nil))
	if f.want != "" && f.want != got {
		return "", fmt.Errorf("%w: %s", ErrChanged, f.src)
	}
	return got, nil
}

// open returns the content. An asset must still be the file that was found.
func (f file) open() (io.ReadCloser, error) {
	if f.root == nil {
		return io.NopCloser(bytes.NewReader(f.data)), nil
	}
	// Without O_NONBLOCK, opening a pipe that replaced the file would block.
	r, err := f.root.OpenFile(f.src, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := r.Stat()
	if err == nil && (!info.Mode().IsRegular() || !os.SameFile(info, f.info)) {
		err = errors.New("the file was replaced while it was read")
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}
