package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"securebench/internal/agent/catalogue"
	"securebench/internal/agent/debian"
	"securebench/internal/agent/npm"
	"securebench/internal/digest"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/registry"
	"securebench/internal/source"
)

// Resolve returns the release of a version, or of the newest for "latest" and of
// a tag of the registry's for another word, and fetches what the cache does not
// have. An exact version that is in the cache needs no registry, and of what the
// catalogue pins, there is one version. progress gets a line now and then.
func (c *Cache) Resolve(ctx context.Context, of catalogue.Package, version string, on Platform, progress func(string)) (Release, error) {
	p := Program(of.Name)
	if err := checkPlatform(on); err != nil {
		return Release{}, err
	}
	if !of.ByLibc() {
		on.Musl = false
	}
	f := &fetcher{Cache: c, of: of, program: p, on: on, progress: progress}
	lock, locked, err := of.Locked(on.Arch)
	switch {
	case err != nil:
		return Release{}, fault.As(fault.Config, fmt.Errorf("%s: %w", p, err))
	case locked:
		return f.locked(ctx, lock, version)
	case isExact(version):
	case isTag(version):
		if err := f.open(); err != nil {
			return Release{}, err
		}
		defer f.client.Close()
		if version, err = f.tagged(ctx, version); err != nil {
			return Release{}, err
		}
		return f.release(ctx, version)
	default:
		return Release{}, fault.Errorf(fault.Config, "%s is not a version of %s: want one such as 1.2.3, or latest", redact.QuoteShort(version, 60), p)
	}
	switch r, err := c.check(ctx, folder(p, version, on, ""), of); {
	case err == nil:
		return r, nil
	case ctx.Err() != nil:
		return Release{}, ctx.Err()
	}
	if err := f.open(); err != nil {
		return Release{}, err
	}
	defer f.client.Close()
	return f.release(ctx, version)
}

// fetcher gets one program for one platform.
type fetcher struct {
	*Cache
	of       catalogue.Package
	program  Program
	on       Platform
	progress func(string)

	// Of the npm registry:
	client   *npm.Client
	packages map[string]*npm.Package // asked for once
}

// parcel is what a release is made of.
type parcel struct {
	integrity string // of the package, or of all that is pinned
	from      string // where it is fetched, for people
	fill      func(ctx context.Context, at string, work, tree *os.Root) error
}

// open reads the npm client's configuration.
func (f *fetcher) open() error {
	conf, err := npm.Load(f.workdir, f.getenv)
	if err != nil {
		return fault.As(fault.Config, err)
	}
	for _, w := range conf.Warnings() {
		f.progress("warning: " + w)
	}
	if f.client, err = npm.New(conf, f.pause); err != nil {
		return fault.As(fault.Config, err)
	}
	f.packages = map[string]*npm.Package{}
	return nil
}

// pack asks the registry for a package, once.
func (f *fetcher) pack(ctx context.Context, name string) (*npm.Package, error) {
	if p := f.packages[name]; p != nil {
		return p, nil
	}
	p, err := f.client.Package(ctx, name)
	if err == nil {
		f.packages[name] = p
	}
	return p, err
}

// tagged returns the version that a tag names.
func (f *fetcher) tagged(ctx context.Context, tag string) (string, error) {
	p, err := f.pack(ctx, f.of.NPM)
	if err != nil {
		return "", f.advise(err, fmt.Sprintf("only the registry knows what %s means", tag))
	}
	version, ok := p.Tags[tag]
	if !ok {
		return "", fault.Errorf(fault.Config, "%s has no version %s: want one such as 1.2.3, or latest", f.program, redact.Quote(tag))
	}
	if !isExact(version) {
		return "", fault.Errorf(fault.Infrastructure, "the registry says that %s of %s is %s, which is not a version", tag, f.program, redact.QuoteShort(version, 60))
	}
	return version, nil
}

// release returns a release of the npm registry from the cache, or fetches it. Of several
// processes that want the same, one fetches.
func (f *fetcher) release(ctx context.Context, version string) (r Release, err error) {
	if r, err := f.check(ctx, folder(f.program, version, f.on, ""), f.of); err == nil || ctx.Err() != nil {
		return r, err
	}
	b, err := f.find(ctx, version)
	if err != nil {
		return Release{}, err
	}
	return f.made(ctx, version, b)
}

// made makes a release, unless another process makes it meanwhile.
func (f *fetcher) made(ctx context.Context, version string, b parcel) (r Release, err error) {
	name := folder(f.program, version, f.on, b.integrity)
	unlock, err := f.lock(ctx, name+lockSuffix, func() {
		f.progress(fmt.Sprintf("another process fetches %s %s: waiting", f.program, version))
	})
	if err != nil {
		return Release{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	r, err = f.check(ctx, name, f.of)
	switch {
	case err == nil || ctx.Err() != nil:
		return r, err
	case errors.Is(err, errLayout):
		f.progress(fmt.Sprintf("%s %s in the cache: %v: fetching it again", f.program, version, err))
	case !errors.Is(err, fs.ErrNotExist):
		f.progress(fmt.Sprintf("%s %s in the cache is damaged: fetching it again", f.program, version))
	}
	return f.fetch(ctx, name, version, b)
}

// find returns the build of a version, or says what is missing: the version, or
// a build of it for the platform.
func (f *fetcher) find(ctx context.Context, version string) (parcel, error) {
	name, build, err := buildOf(f.of, f.on, version)
	if err != nil {
		return parcel{}, err
	}
	p, err := f.pack(ctx, name)
	if err == nil && p.Has(build) {
		b, err := p.Build(build)
		return f.parcel(b), f.advise(err, "")
	}
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return parcel{}, f.advise(err, "")
	}
	main, err := f.pack(ctx, f.of.NPM)
	switch {
	case err != nil:
		return parcel{}, f.advise(err, "")
	case main.Has(version):
		return parcel{}, fault.Errorf(fault.Config, "%s %s has no build for %s: choose another version", f.program, version, f.on)
	}
	return parcel{}, fault.Errorf(fault.Config, "%s has no version %s; the newest is %s", f.program, version, redact.QuoteShort(main.Tags["latest"], 60))
}

// parcel is what a build is made of.
func (f *fetcher) parcel(b npm.Build) parcel {
	return parcel{integrity: b.Integrity, from: b.Host(), fill: func(ctx context.Context, _ string, work, tree *os.Root) error {
		return f.unpacked(ctx, b, work, tree)
	}}
}

// advise says whose fault an error of the registry is, and what can be done.
func (f *fetcher) advise(err error, note string) error {
	if note != "" {
		note += "; "
	}
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, npm.ErrIntegrity):
		return fault.Errorf(fault.Integrity, "%w (nothing was kept; if it happens again, the registry or something before it changes packages)", err)
	case errors.Is(err, registry.ErrUnreachable):
		return fault.Errorf(fault.Infrastructure, "%w (%s%s)", err, note, f.offline())
	case errors.Is(err, registry.ErrNotFound):
		return fault.Errorf(fault.Config, "%w: check the setting registry in .npmrc", err)
	}
	return fault.As(fault.Config, err)
}

// offline says what works without a registry.
func (f *fetcher) offline() string {
	entries, err := f.List()
	var have []string
	for _, e := range entries {
		if err == nil && e.Program == f.program && e.Platform == f.on {
			have = append(have, e.Version)
		}
	}
	if len(have) == 0 {
		return "check the network and the npm client's settings: registry, proxy, cafile"
	}
	return "without a registry, name a version of the cache: " + strings.Join(have, ", ")
}

// fetch makes a release, and then gives it its name.
func (f *fetcher) fetch(ctx context.Context, name, version string, b parcel) (r Release, err error) {
	at, root, done, err := f.workshop(ctx)
	if err != nil {
		return Release{}, err
	}
	defer func() { err = errors.Join(err, done()) }()
	f.progress(fmt.Sprintf("fetching %s %s for %s from %s", f.program, version, f.on, redact.Escape(b.from)))
	e, err := f.fill(ctx, at, root, version, b)
	if err != nil {
		if errors.Is(err, errPackage) || errors.Is(err, debian.ErrPackage) {
			return Release{}, fault.Errorf(fault.Integrity, "%s %s: %w", f.program, version, err)
		}
		return Release{}, f.advise(err, "")
	}
	if err := f.discard(name); err != nil {
		return Release{}, cacheError(err)
	}
	// What a crash of the machine takes away is noticed: a release is checked
	// before each use. So nothing waits for the disk here.
	if err := f.root.Rename(at, name); err != nil {
		return Release{}, cacheError(err)
	}
	f.progress(fmt.Sprintf("%s %s is in the cache: %d MiB", f.program, version, e.Bytes>>20))
	return e.Release, nil
}

// fill fills an empty folder with a release.
func (f *fetcher) fill(ctx context.Context, at string, root *os.Root, version string, b parcel) (e Entry, err error) {
	if err := root.Mkdir(treeName, 0o755); err != nil {
		return e, cacheError(err)
	}
	tree, err := root.OpenRoot(treeName)
	if err != nil {
		return e, cacheError(err)
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	if err := b.fill(ctx, at, root, tree); err != nil {
		return e, err
	}
	info, err := tree.Lstat(f.of.Start)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o100 == 0 && f.of.Runtime == "" {
		return e, fmt.Errorf("%w: it has no program where %s is expected (its layout is not known; choose another version)", errPackage, f.of.Start)
	}
	return f.describe(ctx, root, tree, version, b.integrity)
}

// unpacked fills an empty folder with the files of a build.
func (f *fetcher) unpacked(ctx context.Context, b npm.Build, work, tree *os.Root) (err error) {
	const packed = "package.tgz"
	file, err := source.OpenIn(work, packed, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return cacheError(err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := f.client.Download(ctx, b, file, f.meter()); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return cacheError(err)
	}
	if err := unpackTarball(ctx, file, tree, f.of.Place, ofAgents()); err != nil {
		return err
	}
	for _, name := range f.of.Executable {
		if err := tree.Chmod(name, 0o755); err != nil && !errors.Is(err, fs.ErrNotExist) { // which not every release has
			return fmt.Errorf("%w: %s: %s", errPackage, redact.Quote(name), source.Words(err))
		}
	}
	return work.Remove(packed)
}

// describe stores beside a tree what it is.
func (f *fetcher) describe(ctx context.Context, root, tree *os.Root, version, integrity string) (Entry, error) {
	sum, size, err := walk(ctx, tree, nil)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Release{Program: f.program, Version: version, Platform: f.on, Integrity: integrity, Digest: sum}, size, f.of.Layout()}
	text, err := digest.Canonical(stored{f.program, version, f.on.String(), integrity, sum, size, f.of.Layout()})
	if err != nil {
		return Entry{}, err
	}
	if err := root.WriteFile(releaseName, text, 0o644); err != nil {
		return Entry{}, cacheError(err)
	}
	return e, nil
}

// meter reports a download every few seconds.
func (f *fetcher) meter() func(done, all int64) {
	last := time.Now()
	return func(done, all int64) {
		if time.Since(last) < 5*time.Second {
			return
		}
		last = time.Now()
		of := ""
		if all > 0 {
			of = fmt.Sprintf(" of %d", all>>20)
		}
		f.progress(fmt.Sprintf("fetched %d%s MiB", done>>20, of))
	}
}
