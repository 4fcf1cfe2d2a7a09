package native

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"securebench/internal/durable"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imagestore/layer"
)

// The folders and files of a store, and those of an overlay.
const (
	lockFile      = "lock" // held while a folder gets or loses its name
	keysDir       = "keys"
	locksDir      = "locks" // held while the overlay of a key is made or removed
	unfinishedDir = "unfinished"

	filesDir = "files"
	infoFile = "overlay.json"
	useFile  = "use" // held, together with others, by whoever uses the overlay
)

// overlayStore is a folder of overlays. It is safe for concurrent use, also by several
// processes, any of which may be killed at any time.
type overlayStore struct {
	dir    string
	root   *os.Root
	limits layer.Limits
	flush  func(*os.File) error // makes a file system durable; replaced in tests

	filling sync.Mutex      // one at a time in this process
	sound   map[string]bool // IDs of overlays whose content was verified
}

// openOverlays opens the overlays in dir, and makes the folder if there is none.
func openOverlays(dir string) (*overlayStore, error) {
	s, err := openOverlayStore(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the overlays: %w", err)
	}
	return s, nil
}

func openOverlayStore(dir string) (*overlayStore, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := durable.OpenFolder(dir, 0o700)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{keysDir, locksDir, unfinishedDir} {
		if err := root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, errors.Join(err, root.Close())
		}
	}
	return &overlayStore{dir: dir, root: root, sound: map[string]bool{}, limits: layer.Limits{Entries: 1 << 20, Bytes: 8 << 30},
		flush: func(f *os.File) error { return unix.Syncfs(int(f.Fd())) }}, nil
}

// Close releases the folder. Overlays that are in use stay so.
func (s *overlayStore) Close() error { return s.root.Close() }

// overlay is one that is there.
type overlay struct {
	store *overlayStore
	info
}

// info is what an overlay says about itself.
type info struct {
	ID      string `json:"id"` // another one for the same key has another ID
	Key     string `json:"key"`
	Title   string `json:"title"`
	Content string `json:"content"` // digest of the tree
}

// OverlayKey implements [sandbox.Overlay].
func (o *overlay) OverlayKey() string { return o.Key }

// Overlay implements [sandbox.Overlays]. A process verifies the content of an
// overlay when it meets it first, and fills one again whose content has changed.
func (s *overlayStore) Overlay(ctx context.Context, spec sandbox.OverlaySpec, fill func(io.Writer) error) (sandbox.Overlay, error) {
	if err := spec.Check(); err != nil {
		return nil, fmt.Errorf("making an overlay: %w", err)
	}
	s.filling.Lock()
	defer s.filling.Unlock()
	o, err := s.overlay(ctx, spec, fill)
	if err != nil {
		return nil, fmt.Errorf("making the overlay %s: %w", spec.Key, err)
	}
	return o, nil
}

func (s *overlayStore) overlay(ctx context.Context, spec sandbox.OverlaySpec, fill func(io.Writer) error) (o *overlay, err error) {
	lock, err := s.waitFor(ctx, spec.Key)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	there, err := s.find(spec.Key)
	if err != nil {
		return nil, err
	}
	if there != nil {
		sound, err := s.verify(ctx, there)
		if err != nil || sound {
			return there, err
		}
		if err := s.remove(there); err != nil {
			return nil, fmt.Errorf("its content has changed: %w", err)
		}
	}
	return s.make(ctx, spec, fill)
}

// find returns the overlay of a key, or nil.
func (s *overlayStore) find(key string) (*overlay, error) {
	b, err := s.root.ReadFile(filepath.Join(keysDir, key, infoFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // that is what is asked
	}
	if err != nil {
		return nil, err
	}
	o := &overlay{store: s}
	if err := json.Unmarshal(b, &o.info, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("reading what the overlay %s is: %w", key, err)
	}
	if o.Key != key {
		return nil, fmt.Errorf("the folder of the overlay %s has that of %q", key, o.Key)
	}
	return o, nil
}

// verify reports whether the content is what it was filled with.
func (s *overlayStore) verify(ctx context.Context, o *overlay) (bool, error) {
	if s.sound[o.ID] {
		return true, nil
	}
	sum, err := s.digest(ctx, filepath.Join(keysDir, o.Key, filesDir))
	if err != nil && ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	s.sound[o.ID] = err == nil && sum == o.Content
	return s.sound[o.ID], nil
}

// make fills a folder and gives it its name. The key is locked.
func (s *overlayStore) make(ctx context.Context, spec sandbox.OverlaySpec, fill func(io.Writer) error) (o *overlay, err error) {
	if _, err := s.sweep(); err != nil {
		return nil, err
	}
	name, folder, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	o = &overlay{store: s, info: info{ID: rand.Text(), Key: spec.Key, Title: spec.Title}}
	if err := s.fill(ctx, name, o, fill); err != nil {
		return nil, errors.Join(err, s.root.RemoveAll(name))
	}
	if err := s.flush(folder); err != nil { // also after the machine failed it is whole
		return nil, errors.Join(fmt.Errorf("flushing the overlays: %w", err), s.root.RemoveAll(name))
	}
	if err := s.root.Rename(name, filepath.Join(keysDir, spec.Key)); err != nil {
		return nil, errors.Join(err, s.root.RemoveAll(name))
	}
	s.sound[o.ID] = true
	return o, durable.SyncDir(s.root, keysDir)
}

// begin makes a folder that no process takes for a leftover until it is closed.
func (s *overlayStore) begin() (name string, folder *os.File, err error) {
	lock, err := s.locked(lockFile, unix.LOCK_EX)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	name = filepath.Join(unfinishedDir, rand.Text())
	if err := s.root.Mkdir(name, 0o700); err != nil {
		return "", nil, err
	}
	if folder, err = s.root.Open(name); err == nil {
		err = durable.TryLock(folder)
	}
	return name, folder, err
}

// fill lays down what fill writes, and what the overlay says about itself.
func (s *overlayStore) fill(ctx context.Context, name string, o *overlay, fill func(io.Writer) error) error {
	files := filepath.Join(name, filesDir)
	if err := errors.Join(s.root.Mkdir(files, 0o755), s.root.Chmod(files, 0o755)); err != nil {
		return err
	}
	err := sandbox.FillOverlay(fill, func(content io.Reader) error {
		_, err := layer.Unpack(ctx, content, filepath.Join(s.dir, files), layer.Options{Limits: s.limits})
		return err
	})
	if err == nil {
		o.Content, err = s.digest(ctx, files)
	}
	if err != nil {
		return err
	}
	b, err := json.Marshal(o.info)
	if err == nil {
		err = s.root.WriteFile(filepath.Join(name, infoFile), b, 0o600)
	}
	if err == nil {
		err = s.root.WriteFile(filepath.Join(name, useFile), nil, 0o600)
	}
	return err
}

// Overlays implements [sandbox.Overlays].
func (s *overlayStore) Overlays(context.Context) (all []sandbox.OverlaySpec, err error) {
	entries, err := fs.ReadDir(s.root.FS(), keysDir)
	if err != nil {
		return nil, fmt.Errorf("listing the overlays: %w", err)
	}
	for _, e := range entries {
		o, err := s.find(e.Name())
		if err != nil {
			return nil, fmt.Errorf("listing the overlays: %w", err)
		}
		if o != nil {
			all = append(all, sandbox.OverlaySpec{Key: o.Key, Title: o.Title})
		}
	}
	slices.SortFunc(all, func(a, b sandbox.OverlaySpec) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}

// RemoveOverlay implements [sandbox.Overlays].
func (s *overlayStore) RemoveOverlay(ctx context.Context, key string) error {
	if err := (sandbox.OverlaySpec{Key: key}).Check(); err != nil {
		return fmt.Errorf("removing an overlay: %w", err)
	}
	s.filling.Lock()
	defer s.filling.Unlock()
	if err := s.removeKey(ctx, key); err != nil {
		return fmt.Errorf("removing the overlay %s: %w", key, err)
	}
	return nil
}

func (s *overlayStore) removeKey(ctx context.Context, key string) (err error) {
	lock, err := s.waitFor(ctx, key)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	o, err := s.find(key)
	if err == nil && o != nil {
		err = s.remove(o)
	}
	if err == nil {
		_, err = s.sweep()
	}
	return err
}

// remove removes an overlay that nothing uses. The key is locked.
func (s *overlayStore) remove(o *overlay) (err error) {
	at := filepath.Join(keysDir, o.Key)
	use, err := s.locked(filepath.Join(at, useFile), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, durable.ErrLocked) {
		return errors.New("a sandbox uses it")
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, use.Close()) }()
	trash := filepath.Join(unfinishedDir, rand.Text())
	if err := s.root.Rename(at, trash); err != nil {
		return err
	}
	delete(s.sound, o.ID)
	return s.root.RemoveAll(trash)
}

// keep returns the folder of an overlay. Until release is called no process
// removes it.
func (s *overlayStore) keep(o sandbox.Overlay) (dir string, release func() error, err error) {
	mine, ok := o.(*overlay)
	if !ok || mine.store != s {
		return "", nil, errors.New("the overlay belongs to another engine")
	}
	gone := fmt.Errorf("the overlay %s was removed", mine.Key)
	use, err := s.locked(filepath.Join(keysDir, mine.Key, useFile), unix.LOCK_SH|unix.LOCK_NB)
	switch {
	case errors.Is(err, durable.ErrLocked), errors.Is(err, fs.ErrNotExist):
		return "", nil, gone
	case err != nil:
		return "", nil, err
	}
	// Another one may have taken its place.
	if now, err := s.find(mine.Key); err != nil || now == nil || now.ID != mine.ID {
		return "", nil, errors.Join(err, gone, use.Close())
	}
	return filepath.Join(s.dir, keysDir, mine.Key, filesDir), sync.OnceValue(use.Close), nil
}

// reapOverlays removes what killed processes left unfinished and returns how many
// folders that were.
func (s *overlayStore) reapOverlays() (int, error) {
	n, err := s.sweep()
	if err != nil {
		return n, fmt.Errorf("removing unfinished overlays: %w", err)
	}
	return n, nil
}

// sweep removes what killed processes left.
func (s *overlayStore) sweep() (n int, err error) {
	lock, err := s.locked(lockFile, unix.LOCK_EX)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	entries, err := fs.ReadDir(s.root.FS(), unfinishedDir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		name := filepath.Join(unfinishedDir, e.Name())
		folder, err := s.root.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return n, err
		}
		err = durable.TryLock(folder)
		if err == nil {
			err = s.root.RemoveAll(name)
			n++
		}
		if closed := folder.Close(); closed != nil || err != nil && !errors.Is(err, durable.ErrLocked) {
			return n, errors.Join(err, closed)
		}
	}
	return n, nil
}

// waitFor waits until no other process makes or removes the overlay of a key.
func (s *overlayStore) waitFor(ctx context.Context, key string) (*durable.Locked, error) {
	return durable.WaitIn(ctx, s.root, filepath.Join(locksDir, key))
}

// locked opens a file and locks it; closing it releases the lock. Files of keys
// are never removed, since a process may be waiting for one. A use file is made by
// only the overlay's own process.
func (s *overlayStore) locked(name string, how int) (*durable.Locked, error) {
	flags := os.O_RDWR
	if filepath.Base(name) != useFile {
		flags |= os.O_CREATE
	}
	return durable.LockIn(s.root, name, flags, how)
}
