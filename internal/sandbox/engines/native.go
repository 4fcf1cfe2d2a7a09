package engines

import (
	"context"
	"errors"
	"fmt"
	"io"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/docker"
	"securebench/internal/sandbox/imagestore"
	"securebench/internal/sandbox/native"
	"securebench/internal/sandbox/platform"
)

func nativeConfig(cfg Config) native.Config {
	return native.Config{Helper: cfg.Helper, Runtime: cfg.Runtime, Getenv: cfg.Getenv, Log: cfg.Log}
}

func nativeRequirements(ctx context.Context, cfg Config) []sandbox.Requirement {
	return append(native.Requirements(ctx, nativeConfig(cfg)), platform.Requirement(platform.ThisMachine()))
}

// chosenNative is the native engine, which knows why it was chosen, with a Docker
// engine beside it, if one answers: images come from there, and are built there.
type chosenNative struct {
	*native.Engine
	choice string
	supply *supply
}

var (
	_ sandbox.Builder  = (*chosenNative)(nil)
	_ sandbox.Puller   = (*chosenNative)(nil)
	_ sandbox.Importer = (*chosenNative)(nil)
	_ sandbox.Overlays = (*chosenNative)(nil)
	_ sandbox.Sizer    = (*chosenNative)(nil)
	_ sandbox.Cleaner  = (*chosenNative)(nil)
)

func openNative(ctx context.Context, cfg Config, choice string) (sandbox.Engine, error) {
	dir, err := imagestore.DefaultDir(cfg.Getenv)
	if err != nil {
		return nil, err
	}
	store, err := imagestore.Open(dir)
	if err != nil {
		return nil, err
	}
	s := newSupply(cfg, store)
	c := nativeConfig(cfg)
	c.Images, c.Missing = dir, s.missing
	e, err := native.New(ctx, c)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return &chosenNative{e, choice, s}, nil
}

// Info implements [sandbox.Service].
func (e *chosenNative) Info() sandbox.Info {
	info := e.Engine.Info()
	info.Choice, info.Obtain = e.choice, "securebench image pull"
	return info
}

// Size implements [sandbox.Sizer]: sandboxes are on this machine, and all that they
// write is in its memory.
func (e *chosenNative) Size(context.Context) (sandbox.Size, error) { return platform.Size() }

// Build implements [sandbox.Builder]: a Docker engine builds, and the image is
// taken into the store.
func (e *chosenNative) Build(ctx context.Context, b sandbox.Build, files io.Reader, log io.Writer) (sandbox.Image, error) {
	d, err := e.supply.docker(ctx)
	if err != nil {
		return sandbox.Image{}, fmt.Errorf("building image %q needs a Docker engine: %w (start Docker, or set DOCKER_HOST)", b.Tag, err)
	}
	if _, err := d.Build(ctx, b, files, log); err != nil {
		return sandbox.Image{}, err
	}
	if err := e.supply.take(ctx, b.Tag); err != nil {
		return sandbox.Image{}, err
	}
	return e.Image(ctx, b.Tag)
}

// BuiltFrom implements [sandbox.Builder].
func (e *chosenNative) BuiltFrom(ctx context.Context, ref string) (string, error) {
	if err := e.supply.missing(ctx, ref); err != nil {
		return "", err
	}
	img, release, err := e.supply.store.Use(ref)
	if err != nil {
		return "", err
	}
	if err := release(); err != nil {
		return "", err
	}
	return img.Config.Config.Labels[docker.BuiltFrom], nil
}

// Pull implements [sandbox.Puller].
func (e *chosenNative) Pull(ctx context.Context, ref string, log io.Writer) (sandbox.Image, error) {
	said := 0
	_, err := e.supply.store.Pull(ctx, ref, imagestore.Addition{Ref: ref, Progress: func(p imagestore.Progress) {
		if p.Layer != said { // a line for each layer
			said = p.Layer
			fmt.Fprintf(log, "layer %d of %d\n", p.Layer, p.Layers)
		}
	}})
	if err != nil {
		return sandbox.Image{}, err
	}
	return e.Image(ctx, ref)
}

// Close implements [sandbox.Service].
func (e *chosenNative) Close() error {
	return errors.Join(e.Engine.Close(), e.supply.close())
}
