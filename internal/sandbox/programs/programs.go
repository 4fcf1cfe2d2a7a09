// Package programs copies trees of programs to an engine, which keeps them as
// overlays. It lets through what such a tree can hold, and nothing that reaches
// out of it.
package programs

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// Fill gives lay the tar stream that fill writes, with root as the owner of
// everything and without rights that only an owner of programs gives. The stream
// that lay reads ends with an error if fill fails or writes something else than
// folders, files and links inside the tree.
func Fill(fill func(io.Writer) error, lay func(io.Reader) error) error {
	raw, source := io.Pipe()
	owned, content := io.Pipe()
	filled, rewritten := make(chan error, 1), make(chan error, 1)
	go func() {
		err := fill(source)
		_ = source.CloseWithError(err) // in memory; nil is the end
		filled <- err
	}()
	go func() {
		err := own(content, raw)
		_ = raw.CloseWithError(cmp.Or(err, io.ErrClosedPipe))
		_ = content.CloseWithError(err)
		rewritten <- err
	}()
	err := lay(owned)
	_ = owned.CloseWithError(cmp.Or(err, io.ErrClosedPipe))
	errRewrite, errFill := <-rewritten, <-filled
	// The first cause comes first: each makes the next one fail.
	switch {
	case errFill != nil && !errors.Is(errFill, io.ErrClosedPipe) && !errors.Is(errFill, errRewrite):
		return fmt.Errorf("filling it: %w", errFill)
	case errRewrite != nil && (err == nil || !errors.Is(errRewrite, err)):
		return fmt.Errorf("reading what it is filled with: %w", errRewrite)
	case err != nil:
		return fmt.Errorf("laying it down: %w", err)
	}
	return nil
}

// own copies an archive of folders, files and links, makes root their owner and
// takes rights from them that only an owner of programs gives.
func own(w io.Writer, r io.Reader) error {
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
			return fmt.Errorf("the entry %q is no folder, file or link", h.Name)
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
