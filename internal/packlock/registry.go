package packlock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imagestore"
	"securebench/internal/sandbox/platform"
)

// asked is how many images are asked for at the same time: registries may be far.
const asked = 8

// platforms are those that are asked for where no row says.
func platforms() []platform.Platform {
	return []platform.Platform{platform.New("linux", "amd64", ""), platform.New("linux", "arm64", "")}
}

// Ask asks the registries what images are, each for some platforms, or for the usual ones.
// It pulls none.
func Ask(ctx context.Context, images map[string][]platform.Platform) (*Lock, error) {
	refs := slices.Sorted(maps.Keys(images))
	found, errs := make([]Image, len(refs)), make([]error, len(refs))
	var all sync.WaitGroup
	turns := make(chan struct{}, asked)
	for i, ref := range refs {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			found[i], errs[i] = ask(ctx, ref, images[ref])
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	l := &Lock{Version: version, Images: map[string]Image{}}
	for i, ref := range refs {
		l.Images[ref] = found[i]
	}
	return l, nil
}

// ask asks for one image.
func ask(ctx context.Context, ref string, on []platform.Platform) (img Image, err error) {
	if len(on) == 0 {
		on = platforms()
	}
	img.Configs = map[string]string{}
	var none error
	for _, p := range on {
		d, err := imagestore.Describe(ctx, ref, p)
		switch {
		case err != nil && strings.Contains(err.Error(), "no child with platform"):
			none = err
			continue
		case err != nil && !errors.Is(err, sandbox.ErrUnusable):
			return Image{}, err
		case img.Digest != "" && img.Digest != d.Manifest:
			return Image{}, fmt.Errorf("image %s moved while its registry was asked: try again", redact.Quote(ref))
		}
		img.Digest = d.Manifest
		img.Configs[platform.New(d.OS, d.Arch, d.Variant).String()] = d.ID
	}
	if img.Digest == "" {
		return Image{}, none
	}
	return img, nil
}
