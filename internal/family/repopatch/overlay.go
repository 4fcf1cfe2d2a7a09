package repopatch

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"securebench/internal/repository"
)

// file is what is at a path of the checkout; the zero value is nothing.
type file struct {
	mode repository.Mode
	data []byte
}

// overlay holds files by path.
type overlay map[string]file

// lay puts an overlay into the checkout: whatever is at its paths, or where
// their folders have to be, gives way.
func (s *site) lay(ctx context.Context, files overlay) error {
	if len(files) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(files))
	if err := s.tree.Remove(ctx, names...); err != nil {
		return fmt.Errorf("removing files from the checkout: %w", err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		f := files[name]
		if f.mode == 0 {
			continue
		}
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(f.mode & 0o777), Size: int64(len(f.data))})
		if err == nil {
			_, err = w.Write(f.data)
		}
		if err != nil {
			return fmt.Errorf("packing %q: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := s.tree.Put(ctx, &b); err != nil {
		return fmt.Errorf("writing files to the checkout: %w", err)
	}
	return nil
}

// base is the tree that a candidate changes: the pristine checkout with the
// row's setup patch. It is immutable.
type base struct {
	tree  *repository.Tree
	setup overlay // what the setup patch changed
	from  pristine
}

// sides returns the base's files at the paths of changes. A link cannot be put
// back: ok is false then.
func (b base) sides(changes []repository.Change) (files overlay, ok bool, err error) {
	files = overlay{}
	for _, c := range changes {
		if c.Before.Mode == repository.Symlink {
			return nil, false, nil
		}
		f, changed := b.setup[c.Path]
		if !changed && c.Before.Exists() {
			f.mode = c.Before.Mode
			if f.data, err = b.from.Content(c.Path); err != nil {
				return nil, false, fmt.Errorf("reading the pristine checkout: %w", err)
			}
		}
		files[c.Path] = f
	}
	return files, true, nil
}

// changed reads the files at the paths of changes, which a trusted patch made.
// Of links it reads nothing.
func (s *site) changed(ctx context.Context, changes []repository.Change) (overlay, error) {
	files := overlay{}
	for _, c := range changes {
		f := file{mode: c.After.Mode}
		if c.After.Exists() && c.After.Mode != repository.Symlink {
			_, err := s.read(ctx, c.Path, func(_ string, _ repository.Entry, content io.Reader) (err error) {
				f.data, err = io.ReadAll(content)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		files[c.Path] = f
	}
	return files, nil
}
