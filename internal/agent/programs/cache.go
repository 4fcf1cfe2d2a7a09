package programs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"securebench/internal/agent/catalogue"
	"securebench/internal/attended"
	"securebench/internal/digest"
	"securebench/internal/durable"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// A release is a folder of the cache with these names in it. The folder gets its
// name when all is there; until then, and when it is being removed, its name
// begins with [durable.TempPrefix].
const (
	treeName    = "tree"
	releaseName = "release.json"
	lockSuffix  = ".lock"
	cacheLock   = "cache.lock"
)

// Cache holds releases on this machine. Processes can share one.
type Cache struct {
	root   *os.Root
	getenv func(string) string
	// workdir is where the npm client's configuration of a project is looked for.
	workdir string
	pause   time.Duration // before a registry is asked again
}

// OpenCache opens the cache: dir, else $SECUREBENCH_AGENT_CACHE, else the user's
// cache folder.
func OpenCache(dir string, getenv func(string) string) (*Cache, error) {
	if dir == "" {
		dir = getenv("SECUREBENCH_AGENT_CACHE")
	}
	if dir == "" {
		base := getenv("XDG_CACHE_HOME")
		if !filepath.IsAbs(base) {
			var err error
			if base, err = os.UserCacheDir(); err != nil {
				return nil, fault.Errorf(fault.Config, "there is no folder for the agents' programs: set SECUREBENCH_AGENT_CACHE")
			}
		}
		dir = filepath.Join(base, "securebench", "agents")
	}
	workdir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("finding the current folder: %w", err)
	}
	root, err := durable.OpenFolder(dir, 0o755)
	if err != nil {
		return nil, cacheError(err)
	}
	if info, err := root.Stat("."); err != nil || !isOurs(info) {
		root.Close()
		return nil, fault.Errorf(fault.Refused, "other users could change the agents' programs in %s: make it yours, and remove their right to write there", redact.Quote(dir))
	}
	return &Cache{root: root, getenv: getenv, workdir: workdir, pause: time.Second}, nil
}

// isOurs reports whether only this user and root can write in a folder: who
// can decides what runs.
func isOurs(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&0o022 == 0 && (int(s.Uid) == os.Geteuid() || s.Uid == 0)
}

func cacheError(err error) error {
	return fault.Errorf(fault.Refused, "the cache of agents cannot be used: %s (set SECUREBENCH_AGENT_CACHE to a folder that can be written)", source.Words(err))
}

// Close ends the use of the cache.
func (c *Cache) Close() error { return c.root.Close() }

// Entry is a release in the cache.
type Entry struct {
	Release
	Bytes int64 // of its files

	layout string // with which it was unpacked; "" if it does not say
}

// stored is [Entry] as a release's file has it.
type stored struct {
	Program   Program `json:"program"`
	Version   string  `json:"version"`
	Platform  string  `json:"platform"`
	Integrity string  `json:"integrity"`
	Digest    string  `json:"digest"`
	Bytes     int64   `json:"bytes"`
	Layout    string  `json:"layout,omitzero"`
}

// folder is the name of a release's folder. What the catalogue pins can differ for a
// version, so that each has a folder of its own.
func folder(p Program, version string, on Platform, integrity string) string {
	name := fmt.Sprintf("%s_%s_%s", hyphened(string(p)), version, strings.ReplaceAll(on.String(), "/", "-"))
	if sum, err := digest.Hex(integrity); err == nil {
		name += "_" + sum[:12]
	}
	return name
}

// List returns what is in the cache, in order. Only [Cache.Resolve] checks
// content.
func (c *Cache) List() ([]Entry, error) {
	names, err := fs.ReadDir(c.root.FS(), ".")
	if err != nil {
		return nil, cacheError(err)
	}
	var out []Entry
	for _, d := range names {
		if !d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			continue
		}
		if e, err := c.read(d.Name()); err == nil {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Title(), b.Title()) })
	return out, nil
}

// read reads what is stored about a release. The error is [fs.ErrNotExist] if it
// is not in the cache.
func (c *Cache) read(name string) (Entry, error) {
	if _, err := c.root.Lstat(name); err != nil {
		return Entry{}, err
	}
	text, err := source.ReadFileIn(c.root, path.Join(name, releaseName), 64<<10)
	if err != nil {
		return Entry{}, errDamaged
	}
	var s stored
	if err := digest.DecodeCanonical(text, &s); err != nil {
		return Entry{}, errDamaged
	}
	on, err := ParsePlatform(s.Platform)
	if err != nil || folder(s.Program, s.Version, on, s.Integrity) != name {
		return Entry{}, errDamaged
	}
	return Entry{Release{Program: s.Program, Version: s.Version, Platform: on, Integrity: s.Integrity, Digest: s.Digest}, s.Bytes, s.Layout}, nil
}

// errLayout says that the files of a release lie where another description has them.
var errLayout = errors.New("another description of it laid it out")

// check returns a release of the cache if its content is what was stored, and lies as the
// package says. Those of former builds do not say how they lie.
func (c *Cache) check(ctx context.Context, name string, of catalogue.Package) (Release, error) {
	e, err := c.read(name)
	switch {
	case err != nil:
		return Release{}, err
	case e.layout != of.Layout() && (e.layout != "" || len(of.Executable) > 0):
		return Release{}, errLayout
	}
	root, err := c.root.OpenRoot(path.Join(name, treeName))
	if err != nil {
		return Release{}, errDamaged
	}
	defer root.Close()
	sum, _, err := walk(ctx, root, nil)
	switch {
	case ctx.Err() != nil:
		return Release{}, ctx.Err()
	case err != nil || sum != e.Digest:
		return Release{}, errDamaged
	}
	return e.Release, nil
}

// Remove removes the releases of a version, for all platforms, and returns them.
// An empty version means every version, and an empty program everything
// in the cache.
func (c *Cache) Remove(ctx context.Context, p Program, version string) ([]Entry, error) {
	entries, err := c.List()
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, e := range entries {
		if p != "" && e.Program != p || version != "" && e.Version != version {
			continue
		}
		name := folder(e.Program, e.Version, e.Platform, e.Integrity)
		unlock, err := c.lock(ctx, name+lockSuffix, func() {})
		if err != nil {
			return out, err
		}
		if err := errors.Join(c.discard(name), unlock()); err != nil {
			return out, cacheError(err)
		}
		out = append(out, e)
	}
	return out, c.sweep(ctx)
}

// discard removes a folder. It loses its name first, so that no process finds a part
// of it.
func (c *Cache) discard(name string) error {
	gone := durable.UniqueName(".")
	if err := c.root.Rename(name, gone); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return c.root.RemoveAll(gone)
}

// lock locks a file of the cache for this process. waiting is called once if
// another one holds it.
func (c *Cache) lock(ctx context.Context, name string, waiting func()) (unlock func() error, err error) {
	f, err := source.OpenIn(c.root, name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, cacheError(err)
	}
	for first := true; ; first = false {
		err := durable.TryLock(f)
		if err == nil {
			return f.Close, nil
		}
		if !errors.Is(err, durable.ErrLocked) {
			return nil, errors.Join(cacheError(err), f.Close())
		}
		if first {
			waiting()
		}
		if err := attended.Pause(ctx, 100*time.Millisecond); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
}

// sweep removes what killed processes left.
func (c *Cache) sweep(ctx context.Context) error {
	unlock, err := c.lock(ctx, cacheLock, func() {})
	if err != nil {
		return err
	}
	return errors.Join(c.sweepLocked(), unlock())
}

func (c *Cache) sweepLocked() error {
	names, err := fs.ReadDir(c.root.FS(), ".")
	if err != nil {
		return cacheError(err)
	}
	for _, d := range names {
		if !d.IsDir() || !strings.HasPrefix(d.Name(), durable.TempPrefix) {
			continue
		}
		f, err := c.root.Open(d.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return cacheError(err)
		}
		if durable.TryLock(f) == nil { // its maker has ended
			err = c.root.RemoveAll(d.Name())
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return cacheError(err)
		}
	}
	return nil
}

// workshop makes an empty folder in which this process makes a release. It is
// locked while that is being made, so that no other process removes it.
func (c *Cache) workshop(ctx context.Context) (name string, root *os.Root, done func() error, err error) {
	unlock, err := c.lock(ctx, cacheLock, func() {})
	if err != nil {
		return "", nil, nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := c.sweepLocked(); err != nil {
		return "", nil, nil, err
	}
	name = durable.UniqueName(".")
	if err := c.root.Mkdir(name, 0o755); err != nil {
		return "", nil, nil, cacheError(err)
	}
	f, err := c.root.Open(name)
	if err != nil {
		return "", nil, nil, cacheError(err)
	}
	root, err = c.root.OpenRoot(name)
	if err = errors.Join(err, durable.TryLock(f)); err != nil {
		return "", nil, nil, errors.Join(cacheError(err), f.Close())
	}
	return name, root, func() error { return errors.Join(root.Close(), c.root.RemoveAll(name), f.Close()) }, nil
}
