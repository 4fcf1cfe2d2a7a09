package programs

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"securebench/internal/unpack"
)

// errPackage is the error of a package that is not as packages are.
var errPackage = errors.New("not a usable package")

// limits bound what a package may contain.
type limits struct {
	files int   // folders and what is left out included
	bytes int64 // of all files together, unpacked
	depth int   // of folders
	name  int   // bytes of a path
}

// ofAgents are the limits of an agent's package.
func ofAgents() limits { return limits{files: 20_000, bytes: 3 << 30, depth: 32, name: 512} }

// ofPython are the limits of a Python program with all that it needs.
func ofPython() limits { return limits{files: 60_000, bytes: 3 << 30, depth: 32, name: 512} }

// unpackTarball unpacks the files of an npm package, whose content was not checked,
// into an empty folder. place says where a file goes, from its path below the package's
// first folder: a valid path below the root, or "" to leave it out. Each is owned by the
// caller and readable by all; of its mode, whether it can be executed is kept. A link, a
// device, a name that leads out or comes twice, and content beyond the limits is an error.
func unpackTarball(ctx context.Context, r io.Reader, root *os.Root, place func(name string) string, l limits) (err error) {
	zipped, err := gzip.NewReader(bufio.NewReaderSize(r, 1<<20))
	if err != nil {
		return fmt.Errorf("%w: it is not compressed with gzip", errPackage)
	}
	zipped.Multistream(false)
	return unpackFiles(ctx, zipped, root, below, place, l)
}

// unpackFiles unpacks the files of an archive; name returns the path of an entry by which
// place knows it.
func unpackFiles(ctx context.Context, archive io.Reader, root *os.Root, name func(string, limits) (string, bool), place func(string) string, l limits) (err error) {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	seen := map[string]bool{} // names of entries, as they were given
	err = unpack.Tar(ctx, dir, archive, unpack.Options{
		// Headers and padding are small beside the files; a stream of nothing but headers ends there.
		Entries: l.files, Bytes: l.bytes, Archive: l.bytes + int64(l.files)*4096 + 1<<20, Depth: l.name,
		Plan: func(h *tar.Header) (unpack.Entry, error) { return planFile(h, seen, name, place, l) },
	})
	var entry *unpack.Error
	var refused *unpack.Refused
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: a file is in the place of another: %w", errPackage, err)
	case errors.As(err, &entry) && !errors.As(err, &refused):
		return err
	}
	return fmt.Errorf("%w: %w", errPackage, err)
}

// planFile says what becomes of an entry.
func planFile(h *tar.Header, seen map[string]bool, named func(string, limits) (string, bool), place func(string) string, l limits) (e unpack.Entry, err error) {
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return e, nil
	case tar.TypeReg, tar.TypeDir:
	default:
		return e, errors.New("it is neither a file nor a folder")
	}
	name, ok := named(h.Name, l)
	switch {
	case !ok:
		return e, errors.New("it is not a name that a package can have")
	case h.Typeflag == tar.TypeDir:
		return e, nil // folders are made for files
	case seen[name]:
		return e, errors.New("it is there twice")
	}
	seen[name] = true
	if e.Name = place(name); e.Name == "" {
		return e, nil
	}
	e.Kind, e.Mode = unpack.File, 0o644
	if h.Mode&0o100 != 0 {
		e.Mode = 0o755
	}
	return e, nil
}

// maxPart is how long file systems let one name be.
const maxPart = 255

// below returns the path below the package's first folder, which is "package" only
// by convention.
func below(name string, l limits) (string, bool) {
	name, ok := proper(name, l)
	_, rest, cut := strings.Cut(name, "/")
	if !cut {
		return name, ok // the first folder itself, or a file beside it
	}
	return rest, ok
}

// proper returns the path of an entry, if it is one that a package can have.
func proper(name string, l limits) (string, bool) {
	name = strings.TrimSuffix(name, "/")
	if len(name) > l.name || strings.Count(name, "/") > l.depth || !fs.ValidPath(name) || name == "." {
		return "", false
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxPart {
			return "", false
		}
	}
	for _, r := range name {
		if r < ' ' || r == 0x7f || r == '\\' {
			return "", false
		}
	}
	return name, true
}
