package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"securebench/internal/agent/catalogue"
	"securebench/internal/agent/debian"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/registry"
	"securebench/internal/source"
	"securebench/internal/wheels"
)

// locked returns the release of a program of which the catalogue pins everything.
func (f *fetcher) locked(ctx context.Context, l catalogue.Locked, version string) (Release, error) {
	if version != latestVersion && version != l.Version {
		return Release{}, fault.Errorf(fault.Config, "%s has no version %s here: the catalogue pins %s with all that it needs (another one needs a description of your own, docs/agents.md)", f.program, redact.QuoteShort(version, 60), l.Version)
	}
	if r, err := f.check(ctx, folder(f.program, l.Version, f.on, l.Digest), f.of); err == nil || ctx.Err() != nil {
		return r, err
	}
	b := parcel{integrity: l.Digest, from: "the Python registry", fill: func(ctx context.Context, at string, _, tree *os.Root) error {
		return f.layWheels(ctx, at, tree, l)
	}}
	if l.Debian != nil {
		b.from, b.fill = "a mirror of Debian", func(ctx context.Context, _ string, _, tree *os.Root) error { return f.layDebian(ctx, tree, l) }
	}
	return f.made(ctx, l.Version, b)
}

// layDebian fills an empty folder with packages of Debian.
func (f *fetcher) layDebian(ctx context.Context, tree *os.Root, l catalogue.Locked) error {
	client, err := debian.Open(f.getenv, f.pause)
	if err != nil {
		return fault.As(fault.Config, err)
	}
	defer client.Close()
	for _, p := range l.Debian {
		deb, err := client.Fetch(ctx, p)
		if err != nil {
			return adviseDebian(err)
		}
		if err := debian.Unpack(ctx, deb, tree, f.of.Place); err != nil {
			return fmt.Errorf("unpacking %s: %w", path.Base(p.File), err)
		}
	}
	return layBeside(tree, l.Beside)
}

// adviseDebian says whose fault it is that a package of Debian is not there.
func adviseDebian(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, debian.ErrIntegrity):
		return fault.Errorf(fault.Integrity, "%w (nothing was kept; if it happens again, the mirror or something before it changes packages)", err)
	case errors.Is(err, registry.ErrUnreachable):
		return fault.Errorf(fault.Infrastructure, "%w (check the network and the variables of proxies, or name a mirror of Debian in SECUREBENCH_DEBIAN_MIRROR)", err)
	}
	return fault.Errorf(fault.Config, "%w (mirrors keep a version for as long as it is the newest of its release: name one in SECUREBENCH_DEBIAN_MIRROR that has it, such as an archive of snapshots)", err)
}

// layWheels fills an empty folder with a Python program, as a virtual environment is laid
// out. The wheels are kept until then in a cache of their own.
func (f *fetcher) layWheels(ctx context.Context, at string, tree *os.Root, l catalogue.Locked) (err error) {
	const folder = "wheels"
	cache, err := wheels.OpenCache(filepath.Join(f.root.Name(), at, folder), f.getenv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cache.Close(), f.root.RemoveAll(path.Join(at, folder))) }()
	set, err := cache.Resolve(ctx, l.Requirements, l.Python, f.progress)
	if err == nil {
		err = cache.Fetch(ctx, set, f.progress)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", redact.Escape(string(f.program)), err)
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(cache.WriteTar(set, w)) }()
	err = unpackFiles(ctx, r, tree, proper, func(name string) string { return placeWheel(f.of, l, name) }, ofPython())
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	return layBeside(tree, l.Beside)
}

// layBeside writes the texts of the catalogue, which no package may bring.
func layBeside(tree *os.Root, texts []catalogue.File) error {
	for _, file := range texts {
		if err := writeBeside(tree, file); err != nil {
			return err
		}
	}
	return nil
}

// placeWheel is where a file of installed wheels lies in the tree.
func placeWheel(p catalogue.Package, l catalogue.Locked, name string) string {
	if len(p.Files) > 0 {
		if name = p.Place(name); name == "" {
			return ""
		}
	}
	top, rest, _ := strings.Cut(name, "/")
	switch top {
	case "lib":
		return path.Join(l.ModulesOf(), rest)
	case "data":
		return rest
	}
	return name
}

func writeBeside(tree *os.Root, file catalogue.File) error {
	if err := tree.MkdirAll(path.Dir(file.Path), 0o755); err != nil {
		return cacheError(err)
	}
	mode := os.FileMode(0o644)
	if strings.HasPrefix(file.Text, "#!") {
		mode = 0o755
	}
	out, err := source.OpenIn(tree, file.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: it brings %s", errPackage, file.Path)
	}
	if err != nil {
		return cacheError(err)
	}
	_, err = out.WriteString(file.Text)
	return errors.Join(err, out.Close())
}
