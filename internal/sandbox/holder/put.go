package holder

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"securebench/internal/unpack"
)

// put unpacks the directories and regular files of an archive into the tree.
// The archive wins: whatever else has a name that it needs is removed, and
// a directory without permissions gets them until the end.
func put(root *os.Root, archive io.Reader) (err error) {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return unpack.Tar(context.Background(), dir, archive, unpack.Options{
		Entries: math.MaxInt, Bytes: math.MaxInt64, Archive: math.MaxInt64, Depth: MaxDepth - 1, // the workspace bounds them
		Plan: plan, Replace: true, ReplaceParents: true, Unprivileged: true,
	})
}

func plan(h *tar.Header) (e unpack.Entry, err error) {
	e.Mode = uint32(h.Mode & 0o777)
	if e.Name, err = entryName(h.Name); err != nil {
		return e, err
	}
	switch {
	case h.Typeflag == tar.TypeDir && e.Name == ".":
		return e, nil // the root belongs to whoever made the workspace
	case h.Typeflag == tar.TypeDir:
		e.Kind = unpack.Folder
	case h.Typeflag == tar.TypeReg && !unpack.Sparse(h):
		e.Kind = unpack.File
	default:
		return e, fmt.Errorf("type %q is neither a plain file nor a directory", h.Typeflag)
	}
	if h.ModTime.Unix() != 0 { // which an archive says that has no times
		e.Time = h.ModTime
	}
	return e, nil
}

// entryName checks and cleans a name. Names that leave the tree are refused, never
// repaired.
func entryName(name string) (string, error) {
	parts := strings.Split(name, "/")
	if name == "" || parts[0] == "" || strings.ContainsRune(name, 0) || slices.Contains(parts, "..") {
		return "", errors.New("it is not a path inside the tree")
	}
	return path.Clean(name), nil
}
