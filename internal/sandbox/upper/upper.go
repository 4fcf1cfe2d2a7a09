// Package upper reads what a sandbox changed from the upper layer of its root,
// an overlay file system (kernel, filesystems/overlayfs): nothing that it did not
// touch is looked at.
package upper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
)

const (
	// maxLevels and maxPath bound how deep a path may lie, as on other engines: a
	// deeper one is [sandbox.ErrTooLarge].
	maxLevels = 200
	maxPath   = unix.PathMax - 1
	// maxCompared is the size up to which the content of a file decides whether it
	// is modified. A larger one that was opened for writing counts as modified.
	maxCompared = 1 << 20
)

// Layer is an upper layer that nothing writes to any more. The overlay was mounted
// without redirect_dir, metacopy and index: with the first two, reading it is an
// error; with the third, changes through another name of a file are missed.
type Layer struct {
	Upper *os.Root // the layer
	// Lower are the layers below it, the lowest first.
	Lower []*os.Root
	// Hidden are the mount points of the sandbox: what is at or below them is not
	// part of the root.
	Hidden []string
	// IDBase is the host's ID of the sandbox's user 0, in the upper layer. The
	// layers below have the sandbox's own IDs.
	IDBase int

	marks string // what the attributes of the kernel's marks begin with; tests set it
}

// Changes lists what differs from the image; see [sandbox.RootReader]. The kernel
// copies a file to the upper layer as soon as it is opened for writing or its
// attributes are set. Such a file is modified if its type, mode, owner, extended
// attributes, size or content differ. Times don't count. A folder is modified if
// its own mode, owner or attributes differ.
func (l Layer) Changes(ctx context.Context, limit int) ([]sandbox.Change, error) {
	out, err := l.changes(ctx, limit)
	if err != nil {
		return nil, fmt.Errorf("listing the changes of a root: %w", err)
	}
	return out, nil
}

func (l Layer) changes(ctx context.Context, limit int) ([]sandbox.Change, error) {
	v, err := l.view(ctx)
	if err != nil {
		return nil, err
	}
	defer v.close()
	c := &comparer{view: v, limit: limit, buf: [2][]byte{make([]byte, bufSize), make([]byte, bufSize)}}
	if err := c.folder(subfolder{layers: v.all()}); err != nil {
		return nil, err
	}
	slices.SortFunc(c.out, func(a, b sandbox.Change) int { return strings.Compare(a.Path, b.Path) })
	return c.out, nil
}

// comparer lists changes.
type comparer struct {
	*view
	limit int
	out   []sandbox.Change
	buf   [2][]byte
}

// report notes a change. A name that is not UTF-8 has no type, since nothing that
// stores paths as text can hold it.
func (c *comparer) report(p string, kind sandbox.ChangeKind, t sandbox.FileType) error {
	if len(c.out) >= c.limit {
		return fmt.Errorf("more than %d changes: %w", c.limit, sandbox.ErrTooLarge)
	}
	if kind == sandbox.Deleted || !utf8.ValidString(p) {
		t = ""
	}
	c.out = append(c.out, sandbox.Change{Path: "/" + p, Kind: kind, Type: t})
	return nil
}

// folder reports what changed in a folder of the upper layer. Folders below come
// after it is closed, so that a deep tree takes no more descriptors than a flat one.
func (c *comparer) folder(s subfolder) error {
	f, err := c.open(s)
	if err != nil {
		return err
	}
	below, err := c.entries(f)
	if err = errors.Join(err, f.close()); err != nil {
		return err
	}
	for _, sub := range below {
		before := len(c.out)
		if err := c.folder(sub.subfolder); err != nil {
			return err
		}
		// A folder that was made for a mount point is no change of the sandbox's.
		if sub.added && (len(c.out) > before || !c.mountParent(sub.path)) {
			if err := c.report(sub.path, sandbox.Added, sandbox.Directory); err != nil {
				return err
			}
		}
	}
	return nil
}

// changed is a folder of the upper layer.
type changed struct {
	subfolder
	added bool // and not yet reported
}

// entries reports the changes directly in a folder, except for folders that were
// added, and returns the folders in it.
func (c *comparer) entries(f *folder) (below []changed, err error) {
	top, lower := f.parts[0], f.parts[1:]
	names, err := c.names(f.parts[:1])
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		p, ok, err := c.child(f, name)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		sub, err := c.entry(f, top, lower, name, p)
		if err != nil {
			return nil, fmt.Errorf("comparing %q: %w", "/"+p, err)
		}
		if sub != nil {
			below = append(below, *sub)
		}
	}
	if f.opaque {
		err = c.gone(f, lower, names)
	}
	return below, err
}

// entry reports how one entry of the upper layer differs from those below it.
func (c *comparer) entry(f *folder, top part, lower []part, name, p string) (*changed, error) {
	now, err := c.find([]part{top}, name)
	if err != nil {
		return nil, err
	}
	was, err := c.find(lower, name)
	if err != nil {
		return nil, err
	}
	if !now.there {
		if was.there {
			err = c.report(p, sandbox.Deleted, "")
		}
		return nil, err
	}
	t := fileType(now.st.Mode)
	same := false
	if was.there {
		if same, err = c.same(now, was, name); err != nil {
			return nil, err
		}
	}
	added := !was.there && t == sandbox.Directory
	switch {
	case same || added:
	case was.there:
		err = c.report(p, sandbox.Modified, t)
	default:
		err = c.report(p, sandbox.Added, t)
	}
	if err != nil || t != sandbox.Directory {
		return nil, err
	}
	return &changed{subfolder{path: p, layers: append(now.folders, was.folders...), opaque: f.opaque}, added}, nil
}

// gone reports what the layers below have and an opaque folder hides. names are
// those that the upper layer has, sorted.
func (c *comparer) gone(f *folder, lower []part, names []string) error {
	were, err := c.names(lower)
	if err != nil {
		return err
	}
	for _, name := range were {
		if _, there := slices.BinarySearch(names, name); there {
			continue
		}
		p, ok, err := c.child(f, name)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		was, err := c.find(lower, name)
		if err == nil && was.there {
			err = c.report(p, sandbox.Deleted, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
