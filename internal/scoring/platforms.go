package scoring

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"securebench/internal/packimage"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/platform"
	"securebench/internal/workload"
)

// platformFault returns an error that names both sides if an image is for another
// platform than the engine's machine runs, or than rows ask for.
func platformFault(w *workload.Workload, info sandbox.Info, img sandbox.Image) error {
	machine := platform.Machine{Own: platform.New(info.OS, info.Arch, ""), Emulated: info.Emulated}
	asked := []workload.Platform{}
	for key := range w.Platforms {
		if key.Image == img.Ref {
			asked = append(asked, key)
		}
	}
	slices.SortFunc(asked, func(a, b workload.Platform) int { return strings.Compare(a.Name, b.Name) })
	on := platform.New(img.OS, img.Arch, img.Variant)
	if len(asked) == 0 {
		if err := machine.Check(on, ""); err != nil {
			return otherPlatform(w, info, img.Ref, machine.Own.String(), fmt.Errorf("%w (first needed at %s)", err, w.Images[img.Ref]))
		}
	}
	for _, key := range asked {
		if err := machine.Check(on, key.Name); err != nil {
			want, parseErr := platform.Parse(key.Name)
			if parseErr == nil && !machine.Runs(want) {
				return fmt.Errorf("image %s: %w (environment.platform at %s asks for %s): run these rows on such a machine, or register an emulator (docs/images.md)",
					img.Ref, err, w.Platforms[key], key.Name)
			}
			return otherPlatform(w, info, img.Ref, key.Name, fmt.Errorf("%w (environment.platform at %s)", err, w.Platforms[key]))
		}
	}
	return nil
}

// otherPlatform adds how to get an image of a platform.
func otherPlatform(w *workload.Workload, info sandbox.Info, ref, want string, err error) error {
	own := packimage.Pack{Dir: packDir(w), ID: w.Manifest.ID, Version: w.Manifest.Version}
	if own.Makes(ref) {
		return fmt.Errorf("image %s: %w: correct FROM in its Dockerfile and build it with: securebench pack build %s", ref, err, own.Dir)
	}
	return fmt.Errorf("image %s: %w: get it with: %s --platform %s %s, or leave these rows out with --task", ref, err, cmp.Or(info.Obtain, "docker pull"), want, ref)
}
