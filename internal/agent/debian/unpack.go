package debian

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ulikunitz/xz"

	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/unpack"
)

// ErrPackage is wrapped by the errors of what is not as packages are.
var ErrPackage = errors.New("not a usable package")

// The bounds of one package.
const (
	maxFiles = 20_000
	maxBytes = 512 << 20
	maxName  = 512
	maxDepth = 32
)

// Unpack lays the files of a package below a folder. place says where each goes, from its
// path in the system; "" is nowhere. Files are owned by the caller and readable by all; of
// a mode, whether it can be executed is kept. A link becomes another copy of the file of
// the package that it leads to, and one that leads elsewhere is left out. Of a file that
// several packages bring, the first stays. What is no file, folder or link is refused.
func Unpack(ctx context.Context, deb []byte, root *os.Root, place func(name string) string) (err error) {
	data, err := content(deb)
	if err != nil {
		return err
	}
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	p := planner{root: root, place: place, links: map[string]string{}}
	err = unpack.Tar(ctx, dir, data, unpack.Options{Entries: maxFiles, Bytes: maxBytes, Archive: maxBytes + maxFiles*4096, Depth: maxName, Plan: p.plan})
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("%w: %w", ErrPackage, err)
	}
	return p.copyLinks()
}

// planner plans the files of one package.
type planner struct {
	root  *os.Root
	place func(string) string
	links map[string]string // what links lead to, by their paths in the system
}

func (p planner) plan(h *tar.Header) (e unpack.Entry, err error) {
	name := path.Clean(strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/"))
	if !isName(name) {
		return e, errors.New("it is not a name that a package can have")
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return e, nil // folders are made for files
	case tar.TypeSymlink:
		to := h.Linkname
		if !path.IsAbs(to) {
			to = path.Join("/", path.Dir(name), to)
		}
		p.links[name] = strings.TrimPrefix(path.Clean(to), "/")
		return e, nil
	case tar.TypeLink:
		p.links[name] = path.Clean(strings.TrimPrefix(h.Linkname, "./"))
		return e, nil
	case tar.TypeReg:
	default:
		return e, errors.New("it is neither a file nor a folder nor a link")
	}
	if e.Name = p.place(name); e.Name == "" {
		return e, nil
	}
	if _, err := p.root.Lstat(e.Name); err == nil {
		return unpack.Entry{}, nil
	}
	e.Kind, e.Mode = unpack.File, 0o644
	if h.Mode&0o100 != 0 {
		e.Mode = 0o755
	}
	return e, nil
}

func isName(name string) bool {
	if len(name) > maxName || strings.Count(name, "/") > maxDepth || !fs.ValidPath(name) {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' })
}

// copyLinks makes a copy of what each link leads to.
func (p planner) copyLinks() error {
	for _, name := range slices.Sorted(maps.Keys(p.links)) {
		target := p.links[name]
		if !isName(target) {
			continue
		}
		from, to := p.place(target), p.place(name)
		if from == "" || to == "" || from == to {
			continue
		}
		if err := p.copyFile(from, to); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("copying %s: %w", redact.QuoteShort(name, 80), err)
		}
	}
	return nil
}

func (p planner) copyFile(from, to string) (err error) {
	info, err := p.root.Lstat(from)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	in, err := source.OpenIn(p.root, from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := p.root.MkdirAll(path.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := source.OpenIn(p.root, to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

// The form of an archive of ar, which a package is.
const (
	arMagic  = "!<arch>\n"
	arHeader = 60
	arEnd    = "`\n"
)

// content returns the archive of a package's files, unpacked as it is read.
func content(deb []byte) (io.Reader, error) {
	rest, ok := bytes.CutPrefix(deb, []byte(arMagic))
	if !ok {
		return nil, fmt.Errorf("%w: it is no package of Debian", ErrPackage)
	}
	for len(rest) >= arHeader {
		header := string(rest[:arHeader])
		rest = rest[arHeader:]
		name := strings.TrimSuffix(strings.TrimRight(header[:16], " "), "/")
		size, err := strconv.ParseUint(strings.TrimRight(header[48:58], " "), 10, 31)
		if err != nil || header[58:] != arEnd || size > uint64(len(rest)) {
			return nil, fmt.Errorf("%w: it is damaged", ErrPackage)
		}
		if kind, ok := strings.CutPrefix(name, "data.tar"); ok {
			return unpacked(kind, rest[:size])
		}
		rest = rest[min(size+size%2, uint64(len(rest))):]
	}
	return nil, fmt.Errorf("%w: it has no files", ErrPackage)
}

// unpacked reads a compressed archive, by the end of its name. How much memory the archive
// asks for is believed: its content is pinned.
func unpacked(kind string, data []byte) (r io.Reader, err error) {
	in := bytes.NewReader(data)
	switch kind {
	case "":
		return in, nil
	case ".gz":
		r, err = gzip.NewReader(in)
	case ".xz":
		r, err = xz.NewReader(in)
	default:
		err = fmt.Errorf("its files are compressed as %s, which is not known here", redact.QuoteShort(kind, 20))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPackage, err)
	}
	return r, nil
}
