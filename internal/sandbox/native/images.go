package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imageconfig"
	"securebench/internal/sandbox/imagestore"
	"securebench/internal/sandbox/mountns"
)

// imagesInUse are the images of an engine.
type imagesInUse struct {
	store  *imagestore.Store
	ns     *mountns.Namespace
	shared *mountns.Shared // mounts the layers
	dir    string          // a folder of the namespace for images that are looked into
	owner  string          // marks what is imported
	// missing is that of [Config].
	missing func(ctx context.Context, ref string) error
	looks   atomic.Int64 // how often images were looked into

	mu       sync.Mutex
	used     map[string]*mounted // by ID
	imported map[string]int      // how often images were, by ID
}

// mounted is an image whose layers are mounted.
type mounted struct {
	ID      string
	Env     []string
	Volumes []string
	Layers  []string // as sandboxes see them, the lowest first
	// Of the root folder, as in a sandbox:
	RootMode  fs.FileMode
	RootOwner sandbox.User

	image    imagestore.Image
	info     sandbox.Image // without Ref
	unusable error         // why nothing can run in it: a [sandbox.ErrUnusable]
	release  func() error
	uses     int
}

// Image implements [sandbox.Images].
func (i *imagesInUse) Image(ctx context.Context, ref string) (sandbox.Image, error) {
	if ctx.Err() != nil {
		return sandbox.Image{}, context.Cause(ctx)
	}
	if i.missing != nil {
		if err := i.missing(ctx, ref); err != nil {
			return sandbox.Image{}, fmt.Errorf("looking up image %q: %w", ref, err)
		}
	}
	info, err := i.stored(ref)
	if err != nil && !errors.Is(err, sandbox.ErrUnusable) {
		err = fmt.Errorf("looking up image %q: %w", ref, err)
	}
	return info, err
}

// stored describes an image of the store.
func (i *imagesInUse) stored(ref string) (sandbox.Image, error) {
	m, err := i.use(ref)
	if err != nil {
		return sandbox.Image{}, err
	}
	defer i.drop(m)
	info := m.info
	info.Ref, info.Env = ref, slices.Clone(info.Env)
	return info, m.unusable
}

// use returns an image by name or ID and mounts its layers. It stays until it
// was dropped as often, and as long as the engine after that.
func (i *imagesInUse) use(ref string) (*mounted, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if m := i.used[ref]; m != nil {
		m.uses++
		return m, nil
	}
	img, release, err := i.store.Use(ref)
	if err != nil {
		return nil, err
	}
	if m := i.used[img.ID]; m != nil {
		m.uses++
		return m, release()
	}
	m := &mounted{ID: img.ID, image: img, release: release, uses: 1}
	if err := i.mount(m); err != nil {
		return nil, errors.Join(err, i.unmount(m))
	}
	i.used[img.ID] = m
	return m, nil
}

// drop ends one use. The image's layers stay mounted.
func (i *imagesInUse) drop(m *mounted) {
	if m == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	m.uses--
}

// forget releases an image that no sandbox uses, so that it can be removed.
func (i *imagesInUse) forget(id string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := i.used[id]
	if m == nil {
		return nil
	}
	if m.uses > 0 {
		return fmt.Errorf("%d sandboxes use it: %w", m.uses, imagestore.ErrInUse)
	}
	delete(i.used, id)
	return i.unmount(m)
}

// unmount drops the layers that are mounted, and releases the image.
func (i *imagesInUse) unmount(m *mounted) error {
	return errors.Join(i.shared.Drop(m.image.Layers[:len(m.Layers)]...), m.release())
}

// Close releases all images. Their layers stay mounted until the namespace ends.
func (i *imagesInUse) Close() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	var errs []error
	for _, m := range i.used {
		errs = append(errs, m.release())
	}
	clear(i.used)
	return errors.Join(errs...)
}

// mount reads the configuration and mounts the layers.
func (i *imagesInUse) mount(m *mounted) error {
	config := m.image.Config
	m.Volumes = slices.Sorted(maps.Keys(config.Config.Volumes))
	m.Env = config.Config.Env
	on := m.image.Platform()
	m.info = sandbox.Image{ID: m.ID, Digest: m.image.Digest, OS: on.OS, Arch: on.Arch, Variant: on.Variant,
		Env: imageconfig.VariableNames(m.Env), Path: imageconfig.SearchPath(m.Env)}
	if len(m.image.Layers) == 0 {
		return errors.New("the image has no layers")
	}
	for _, dir := range m.image.Layers {
		at, err := i.shared.Use(dir)
		if err != nil {
			return err
		}
		m.Layers = append(m.Layers, at)
	}
	root, err := os.Lstat(m.image.Layers[len(m.Layers)-1])
	if err != nil {
		return err
	}
	m.RootMode = root.Mode() & (fs.ModePerm | fs.ModeSticky)
	if st, ok := root.Sys().(*syscall.Stat_t); ok {
		m.RootOwner = sandbox.User{UID: int(st.Uid), GID: int(st.Gid)}
	}
	if err = imageconfig.CheckVariables(m.Env); err == nil {
		m.info.User, err = i.userOf(m, config.Config.User)
	}
	if errors.Is(err, sandbox.ErrUnusable) {
		m.info.User, m.unusable = sandbox.Nobody, err
		return nil
	}
	return err
}

// User implements [sandbox.Images].
func (i *imagesInUse) User(ctx context.Context, image sandbox.Image, name string) (sandbox.User, error) {
	if u, ok := imageconfig.NumericUser(name); ok {
		return u, nil
	}
	if ctx.Err() != nil {
		return sandbox.User{}, context.Cause(ctx)
	}
	m, err := i.use(image.ID)
	if err != nil {
		return sandbox.User{}, fmt.Errorf("looking up user %q of image %s: %w", name, image.ID, err)
	}
	defer i.drop(m)
	return i.userOf(m, name)
}

func (i *imagesInUse) userOf(m *mounted, name string) (sandbox.User, error) {
	if known, ok := imageconfig.NumericUser(name); ok {
		return known, nil
	}
	var passwd, group []byte
	err := i.inside(m, func(root int) (err error) {
		if passwd, err = account(root, "/etc/passwd"); err != nil {
			return err
		}
		group, err = account(root, "/etc/group")
		return err
	})
	var found sandbox.User
	if err == nil {
		found, err = imageconfig.LookupUser(name, passwd, group)
	}
	if err != nil {
		return sandbox.User{}, fmt.Errorf("looking up user %q of image %s: %w", name, m.ID, err)
	}
	return found, nil
}

// folder opens a folder of an image, without what other images or sandboxes have of
// it. The error wraps [sandbox.ErrNoFolder] if there is none.
func (i *imagesInUse) folder(m *mounted, name string) (folder *os.Root, err error) {
	err = i.inside(m, func(root int) error {
		f, err := openIn(root, name, unix.O_PATH|unix.O_DIRECTORY)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return fmt.Errorf("%s in image %s: %w", name, m.ID, sandbox.ErrNoFolder)
		}
		if err != nil {
			return err
		}
		defer f.Close()
		folder, err = os.OpenRoot("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
		return err
	})
	return folder, err
}

// Look implements [sandbox.Looker].
func (i *imagesInUse) Look(ctx context.Context, image sandbox.Image, name string) (seen sandbox.Sight, err error) {
	if ctx.Err() != nil {
		return seen, context.Cause(ctx)
	}
	m, err := i.use(image.ID)
	if err != nil {
		return seen, fmt.Errorf("looking at %s of image %s: %w", name, image.ID, err)
	}
	defer i.drop(m)
	err = i.inside(m, func(root int) (err error) {
		seen, err = look(root, name)
		return err
	})
	if err != nil {
		return sandbox.Sight{}, fmt.Errorf("looking at %s of image %s: %w", name, image.ID, err)
	}
	return seen, nil
}

// look says what is at a path below an open root.
func look(root int, name string) (seen sandbox.Sight, err error) {
	f, err := openIn(root, name, unix.O_PATH)
	if errors.Is(err, fs.ErrNotExist) {
		return seen, nil
	}
	if err != nil {
		return seen, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return seen, err
	}
	seen.Type = sandbox.TypeOf(info.Mode())
	if seen.Type != sandbox.Symlink {
		return seen, nil
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(f.Fd()), "", buf)
	if err != nil {
		return seen, fmt.Errorf("reading the link: %w", err)
	}
	if seen.Link = string(buf[:n]); !path.IsAbs(seen.Link) {
		seen.Link = path.Join(path.Dir(name), seen.Link)
	}
	return seen, nil
}

// inside calls f in the namespace with a descriptor of the image's root, which
// is mounted meanwhile with the host's own IDs.
func (i *imagesInUse) inside(m *mounted, f func(root int) error) error {
	return i.ns.Do(func() (err error) {
		at := filepath.Join(i.dir, strconv.FormatInt(i.looks.Add(1), 10))
		if err := os.Mkdir(at, 0o700); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.Remove(at)) }()
		if err := mountns.Overlay(at, m.image.Layers, "", ""); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, mountns.Unmount(at)) }()
		root, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(root)
		return f(root)
	})
}

// openIn opens a path of an image as a process in it would: links lead nowhere
// else. The last element is no link.
func openIn(root int, name string, flags uint64) (*os.File, error) {
	fd, err := unix.Openat2(root, name, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), path.Base(name)), nil
}

// maxAccounts bounds an account file in bytes: the image may be hostile.
const maxAccounts = 1 << 20

// account reads an account file. A missing one is empty.
func account(root int, name string) ([]byte, error) {
	f, err := openIn(root, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxAccounts {
		return nil, sandbox.Unusable(fmt.Errorf("%s of the image is not a file of at most %d bytes", name, maxAccounts))
	}
	return io.ReadAll(io.LimitReader(f, maxAccounts))
}
