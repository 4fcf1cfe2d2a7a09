package packimage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"securebench/internal/console"
	"securebench/internal/digest"
	"securebench/internal/fault"
	"securebench/internal/piped"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/platform"
)

// Job is one build of images.
type Job struct {
	Pack    Pack
	Names   []string // of the images; empty is all
	Rebuild bool     // also what is built from the same files
	Say     func(format string, args ...any)
	Log     io.Writer // the engine's own messages
}

// Result counts what a build did.
type Result struct{ Built, Kept int }

// Run builds images, each after those that it is built from. One that the
// engine has built from the same files, and from the same images of the pack,
// is kept.
//
// The pack is read before the engine is opened; Run closes the engine.
func (j Job) Run(ctx context.Context, open func() (sandbox.Engine, error)) (sum Result, err error) {
	images, err := j.Pack.Images(j.Names...)
	if err != nil {
		return Result{}, fault.As(fault.Pack, err)
	}
	engine, err := open()
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	builder, ok := engine.(sandbox.Builder)
	if !ok {
		return Result{}, fault.Errorf(fault.Engine, "the engine %q cannot build images: build them where there is a Docker engine", engine.Info().Name)
	}
	for _, img := range images {
		kept, err := j.one(ctx, engine, builder, img)
		switch {
		case ctx.Err() != nil:
			return sum, fault.Errorf(fault.Interrupted, "interrupted while building image %s", img.Ref)
		case err != nil:
			return sum, err
		case kept:
			sum.Kept++
		default:
			sum.Built++
		}
	}
	return sum, nil
}

// one builds an image unless it is there.
func (j Job) one(ctx context.Context, engine sandbox.Engine, builder sandbox.Builder, img Image) (kept bool, err error) {
	files, err := j.digest(ctx, img.Name)
	if err != nil {
		return false, fault.As(fault.Pack, err)
	}
	key, err := contextKey(ctx, engine, files, img.Uses)
	if err != nil {
		return false, fault.As(fault.Engine, err)
	}
	former, err := builder.BuiltFrom(ctx, img.Ref)
	if err != nil && !errors.Is(err, sandbox.ErrImageMissing) {
		return false, fault.As(fault.Engine, err)
	}
	if former == key && !j.Rebuild {
		j.Say("%s: kept, it was built from the same files (--rebuild builds it again)", img.Ref)
		return true, nil
	}
	if err == nil && former != key {
		j.Say("%s: replaces the image of that name, which was made of other files", img.Ref)
	}
	cache := ""
	if j.Rebuild {
		cache = "--no-cache "
	}
	j.Say("docker build %s-t %s %s", cache, img.Ref, filepath.Join(j.Pack.Dir, Folder, img.Name))
	built, err := j.build(ctx, builder, img, key, files)
	if err != nil {
		return false, fault.As(fault.Engine, err)
	}
	if err := fits(engine.Info(), built); err != nil {
		return false, fault.As(fault.Pack, fmt.Errorf("image %s was built, but cannot be run: %w (correct FROM in %s)", img.Ref, err,
			filepath.Join(j.Pack.Dir, Folder, img.Name, file)))
	}
	return false, nil
}

// fits compares what an image is for with the engine's machine.
func fits(info sandbox.Info, built sandbox.Image) error {
	machine := platform.Machine{Own: platform.New(info.OS, info.Arch, ""), Emulated: info.Emulated}
	return machine.Check(platform.New(built.OS, built.Arch, built.Variant), "")
}

// build sends the files of an image to the engine, and fails if they are not
// those that the key was made from.
func (j Job) build(ctx context.Context, builder sandbox.Builder, img Image, key, files string) (built sandbox.Image, err error) {
	_, err = piped.Both(func(w io.Writer) error {
		hash := sha256.New()
		err := j.Pack.archive(ctx, img.Name, io.MultiWriter(w, hash))
		if err == nil && digest.Format(hash.Sum(nil)) != files {
			err = fmt.Errorf("the files of image %q changed while it was built", img.Name)
		}
		return err
	}, func(r io.Reader) (err error) {
		built, err = builder.Build(ctx, sandbox.Build{Tag: img.Ref, From: key, Fresh: j.Rebuild}, r, visible{j.Log})
		return err
	})
	return built, err
}

// digest covers the files of an image.
func (j Job) digest(ctx context.Context, name string) (string, error) {
	hash := sha256.New()
	if err := j.Pack.archive(ctx, name, hash); err != nil {
		return "", err
	}
	return digest.Format(hash.Sum(nil)), nil
}

// contextKey names all that an image is built from: its files, and the images
// of the pack below it, which were built just before.
func contextKey(ctx context.Context, engine sandbox.Images, files string, uses []string) (string, error) {
	text := "image of a pack, 1\n" + files + "\n"
	for _, ref := range uses {
		base, err := engine.Image(ctx, ref)
		if err != nil {
			return "", fmt.Errorf("looking up image %s: %w", ref, err)
		}
		text += ref + " " + base.ID + "\n"
	}
	return digest.Bytes([]byte(text)), nil
}

// visible shows the text of a build for whoever reads it later: without the sequences that
// colour it or move a cursor, each state of a progress line on a line of its own, and without
// other control characters. The engine's messages come whole.
type visible struct{ to io.Writer }

func (v visible) Write(p []byte) (int, error) {
	if _, err := io.WriteString(v.to, redact.EscapeText(console.Uncoloured(string(p)))); err != nil {
		return 0, err
	}
	return len(p), nil
}
