package imagestore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"securebench/internal/durable"
	"securebench/internal/sandbox/owner"
)

// Leftover is something that [Store.Prune] removes.
type Leftover struct {
	Name string
	Kind string // "layer", "image" or "unfinished"
	Size int64  // bytes of its files; those of an image are its layers'
}

// ErrInUse is wrapped by the error of [Store.Remove] for an image that a process uses.
var ErrInUse = errors.New("it is in use")

// Remove removes a name, and the image if it has no other, with the layers that no
// other image has; if an addition is under way, these go with [Store.Prune]. An
// image in use is an error. The error wraps sandbox.ErrImageMissing if there is none.
func (s *Store) Remove(ref string) error {
	if err := s.remove(ref); err != nil {
		return fmt.Errorf("removing %w", err)
	}
	return nil
}

func (s *Store) remove(ref string) error {
	lock, err := s.exclusive()
	if err != nil {
		return err
	}
	defer lock.Close()
	x, err := s.readIndex()
	if err != nil {
		return err
	}
	r, err := x.find(ref)
	if err != nil {
		return err
	}
	names := 0
	for _, other := range x.Images {
		if other.ID == r.ID {
			names++
		}
	}
	byID := fullID.MatchString(ref) || r.Ref == ""
	if byID && names > 1 {
		return fmt.Errorf("image %q: it has %d names; remove these", ref, names)
	}
	if names == 1 {
		if free, err := s.unused(r.ID); err != nil || !free {
			return errors.Join(err, fmt.Errorf("image %q: %w", ref, ErrInUse))
		}
	}
	x.Images = slices.DeleteFunc(x.Images, func(o record) bool { return o.ID == r.ID && o.Ref == r.Ref })
	if err := s.writeIndex(x); err != nil {
		return fmt.Errorf("image %q: %w", ref, err)
	}
	trash, err := s.detach(x, r.Layers)
	if err == nil {
		err = s.dropFiles(x)
	}
	return errors.Join(err, lock.Close(), s.removeAll(trash))
}

// sweep removes those of the layers that no image has.
func (s *Store) sweep(diffIDs []string) error {
	lock, err := s.exclusive()
	if err != nil {
		return err
	}
	defer lock.Close()
	x, err := s.readIndex()
	if err != nil {
		return err
	}
	trash, err := s.detach(x, diffIDs)
	return errors.Join(err, lock.Close(), s.removeAll(trash))
}

// detach takes those of the layers that no image has out of the store and returns
// where they are. It is called while the index is locked exclusively.
func (s *Store) detach(x index, diffIDs []string) (trash []string, err error) {
	adding, err := s.locked(addingFile, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, durable.ErrLocked) {
		return nil, nil // an addition may have found them there
	}
	if err != nil {
		return nil, err
	}
	defer closer(&err, adding)
	used := x.layers()
	for _, id := range diffIDs {
		if used[id] {
			continue
		}
		to := filepath.Join(UnfinishedDir, rand.Text())
		err := s.root.Rename(s.layerDir(id), to)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return trash, err
		}
		trash = append(trash, to)
		// Only additions wait for it, and there is none.
		if err := s.root.Remove(filepath.Join(waitsDir, hexOf(id))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return trash, err
		}
	}
	return trash, nil
}

// layers returns the layers that images have.
func (x index) layers() map[string]bool {
	used := make(map[string]bool)
	for _, r := range x.Images {
		for _, l := range r.Layers {
			used[l] = true
		}
	}
	return used
}

// dropFiles removes configurations and lock files of images that are not in the
// index. It is called while the index is locked exclusively.
func (s *Store) dropFiles(x index) error {
	have := make(map[string]bool)
	for _, r := range x.Images {
		have[hexOf(r.ID)] = true
	}
	for _, dir := range []string{configsDir, usesDir} {
		names, err := s.names(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			if !have[name] {
				if err := s.root.Remove(filepath.Join(dir, name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *Store) names(dir string) ([]string, error) {
	f, err := s.root.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, errors.Join(err, f.Close())
}

func (s *Store) removeAll(names []string) (err error) {
	for _, name := range names {
		err = errors.Join(err, s.removeTree(name))
	}
	return err
}

// removeTree removes a file or a folder, also one that its owner may not change.
func (s *Store) removeTree(name string) error {
	err := s.root.RemoveAll(name)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	walk := fs.WalkDir(s.root.FS(), name, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			return s.root.Chmod(path, 0o700)
		}
		return nil
	})
	return errors.Join(walk, s.root.RemoveAll(name))
}

// Leftovers lists the layers that no image has, images whose process has ended or
// whose name another one took, what killed processes left, and, with all, the images
// without exception that nothing uses.
func (s *Store) Leftovers(all bool) ([]Leftover, error) {
	found, _, err := s.clean(all, false)
	if err != nil {
		return nil, fmt.Errorf("looking for what the image store does not need: %w", err)
	}
	return found, nil
}

// Prune removes what Leftovers lists, and returns what it removed.
func (s *Store) Prune(ctx context.Context, all bool) ([]Leftover, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	found, trash, err := s.clean(all, true)
	// Nothing refers to these any more. If ctx ends, the next call removes them.
	for _, name := range trash {
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			break
		}
		err = s.removeTree(name)
	}
	if err != nil {
		return nil, fmt.Errorf("pruning the image store: %w", err)
	}
	return found, nil
}

// Reap removes the images of processes that have ended, and what killed processes
// left unfinished, and returns how many objects that were. It costs little if there
// are none.
func (s *Store) Reap(ctx context.Context) (int, error) {
	found, err := s.Leftovers(false)
	if err != nil || !slices.ContainsFunc(found, func(l Leftover) bool { return l.Kind != "layer" }) {
		return 0, err
	}
	removed, err := s.Prune(ctx, false)
	return len(removed), err
}

// clean finds, and with remove takes out of the store, what is not needed.
func (s *Store) clean(all, remove bool) (found []Leftover, trash []string, err error) {
	lock, err := s.exclusive()
	if err != nil {
		return nil, nil, err
	}
	defer closer(&err, lock)
	x, err := s.readIndex()
	if err != nil {
		return nil, nil, err
	}
	kept, doomed, err := s.doomed(x, all)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range doomed {
		found = append(found, Leftover{Name: cmp.Or(r.Ref, r.ID), Kind: "image"})
	}
	layers, loose, err := s.loose(kept)
	if err != nil {
		return nil, nil, err
	}
	dead, err := s.dead()
	if err != nil {
		return nil, nil, err
	}
	found = append(append(found, layers...), dead...)
	if !remove {
		return found, nil, nil
	}
	if len(doomed) > 0 {
		if err := s.writeIndex(kept); err != nil {
			return nil, nil, err
		}
	}
	if trash, err = s.detach(kept, loose); err == nil {
		err = s.dropFiles(kept)
	}
	for _, l := range dead {
		trash = append(trash, filepath.Join(UnfinishedDir, l.Name))
	}
	return found, trash, err
}

// doomed separates the images that go.
func (s *Store) doomed(x index, all bool) (kept index, doomed []record, err error) {
	for _, r := range x.Images {
		o, owned := owner.Parse(r.Owner)
		if goes := all || r.Replaced || owned && o.Dead(s.me); goes {
			if goes, err = s.unused(r.ID); err != nil {
				return index{}, nil, err
			} else if goes {
				doomed = append(doomed, r)
				continue
			}
		}
		kept.Images = append(kept.Images, r)
	}
	return kept, doomed, nil
}

// loose lists the layers that no image has, unless an addition is under way.
func (s *Store) loose(x index) (found []Leftover, diffIDs []string, err error) {
	adding, err := s.locked(addingFile, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, durable.ErrLocked) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer closer(&err, adding)
	names, err := s.names(layersDir)
	if err != nil {
		return nil, nil, err
	}
	used := x.layers()
	for _, name := range names {
		id := "sha256:" + name
		if used[id] {
			continue
		}
		info, err := s.layerInfo(id)
		if err != nil {
			info = layerInfo{}
		}
		found = append(found, Leftover{Name: id, Kind: "layer", Size: info.Bytes})
		diffIDs = append(diffIDs, id)
	}
	return found, diffIDs, nil
}

// dead lists the folders of additions that were killed.
func (s *Store) dead() (found []Leftover, err error) {
	names, err := s.names(UnfinishedDir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f, err := s.root.Open(filepath.Join(UnfinishedDir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		err = durable.TryLock(f)
		f.Close()
		if errors.Is(err, durable.ErrLocked) {
			continue
		}
		if err != nil {
			return nil, err
		}
		size, err := s.sizeOf(filepath.Join(UnfinishedDir, name))
		if err != nil {
			return nil, err
		}
		found = append(found, Leftover{Name: name, Kind: "unfinished", Size: size})
	}
	return found, nil
}

// sizeOf counts the bytes of a tree that another process may be removing.
func (s *Store) sizeOf(name string) (size int64, err error) {
	err = fs.WalkDir(s.root.FS(), name, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // what is gone or closed to us has no size
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size, err
}
