package sandbox

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"securebench/internal/piped"
)

// FillOverlay copies a tree of programs to an engine that keeps it as an overlay: it
// gives lay the tar stream that fill writes, with root as the owner of
// everything and without rights that only an owner of programs gives. The stream
// that lay reads ends with an error if fill fails or writes something else than
// folders, files and links inside the tree.
func FillOverlay(fill func(io.Writer) error, lay func(io.Reader) error) error {
	var filled error
	rewritten, err := piped.Both(func(owned io.Writer) (err error) {
		filled, err = piped.Both(fill, func(raw io.Reader) error { return ownPrograms(owned, raw) })
		return err
	}, lay)
	// The first cause comes first: each makes the next one fail.
	switch {
	case filled != nil:
		return fmt.Errorf("filling it: %w", filled)
	case rewritten != nil:
		return fmt.Errorf("reading what it is filled with: %w", rewritten)
	case err != nil:
		return fmt.Errorf("laying it down: %w", err)
	}
	return nil
}

// ownPrograms copies an archive of folders, files and links, makes root their owner and
// takes rights from them that only an owner of programs gives.
func ownPrograms(w io.Writer, r io.Reader) error {
	tr, tw := tar.NewReader(r), tar.NewWriter(w)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			// The writer of the archive may still have its padding to write.
			_, err = io.Copy(io.Discard, r)
			return errors.Join(err, tw.Close())
		}
		if err != nil {
			return err
		}
		if !filepath.IsLocal(h.Name) || h.Typeflag == tar.TypeLink && !filepath.IsLocal(h.Linkname) {
			return fmt.Errorf("the entry %q lies outside of the tree", h.Name)
		}
		if !slices.Contains([]byte{tar.TypeDir, tar.TypeReg, tar.TypeSymlink, tar.TypeLink}, h.Typeflag) {
			return fmt.Errorf("the entry %q is not a folder, file or link", h.Name)
		}
		if slices.ContainsFunc(strings.Split(h.Name, "/"), func(part string) bool { return strings.HasPrefix(part, ".wh.") }) {
			return fmt.Errorf("the entry %q has a name that means a deleted file in an image", h.Name)
		}
		out := tar.Header{Typeflag: h.Typeflag, Name: h.Name, Linkname: h.Linkname, Size: h.Size, Mode: h.Mode & 0o755, ModTime: h.ModTime}
		if err := tw.WriteHeader(&out); err != nil {
			return err
		}
		if _, err := io.Copy(tw, tr); err != nil {
			return err
		}
	}
}
