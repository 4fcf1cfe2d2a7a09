// Package packlock keeps which images the names in a pack mean, in a file beside its
// manifest: a tag can become another image, and a score then says something else. Whatever
// runs a pack that has such a file refuses images that are not those of it.
package packlock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/digest"
	"securebench/internal/durable"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/platform"
	"securebench/internal/source"
)

// Name is the name of the file, beside the pack's manifest.
const Name = "images.lock"

const (
	version = 1
	maxSize = 16 << 20
)

// Lock says which images names mean.
type Lock struct {
	Version int              `json:"version"`
	Images  map[string]Image `json:"images"` // by the reference that the pack has
}

// Image is what a name means in its registry.
type Image struct {
	// Digest is that of what the registry gives for the name, which can be an index of
	// several platforms.
	Digest string `json:"digest"`
	// Configs are the digests of the images' configurations by platform, by which an engine
	// knows an image that did not come from its registry.
	Configs map[string]string `json:"configs"`
}

// Pinned reports whether a reference names an image by its digest.
func Pinned(ref string) bool {
	return strings.Contains(ref, "@sha256:") || strings.HasPrefix(ref, "sha256:")
}

// Lockable reports whether a reference can become another image: it names an image of a
// registry, and not by its digest. Images of packs and of securebench are built on each
// machine.
func Lockable(ref string) bool {
	return ref != "" && ref != "scratch" && !Pinned(ref) &&
		!strings.HasPrefix(ref, "localhost/") && !strings.HasPrefix(ref, "securebench-")
}

// Read reads the lock of the pack in a folder. It is nil if there is none.
func Read(dir string) (*Lock, error) {
	file := filepath.Join(dir, Name)
	text, err := source.ReadFile(file, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the pack's lock of images: %w", err)
	}
	l, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (write it again with: securebench pack lock)", redact.Quote(file), err)
	}
	return l, nil
}

func decode(text []byte) (*Lock, error) {
	var l Lock
	if err := json.Unmarshal(text, &l, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if l.Version != version {
		return nil, fmt.Errorf("its version is %d, and this program reads version %d", l.Version, version)
	}
	for ref, img := range l.Images {
		if !Lockable(ref) {
			return nil, fmt.Errorf("%.200q is not an image that can be locked", ref)
		}
		if _, err := digest.Hex(img.Digest); err != nil {
			return nil, fmt.Errorf("the digest of %.200q: %w", ref, err)
		}
		for on, sum := range img.Configs {
			if _, err := platform.Parse(on); err != nil {
				return nil, fmt.Errorf("a configuration of %.200q: %w", ref, err)
			}
			if _, err := digest.Hex(sum); err != nil {
				return nil, fmt.Errorf("a configuration of %.200q: %w", ref, err)
			}
		}
	}
	return &l, nil
}

// Has reports whether a lock, which may be nil, says which image a reference means.
func (l *Lock) Has(ref string) bool {
	_, ok := l.images()[ref]
	return ok
}

// Write writes the lock of the pack in a folder, always with the same bytes.
func (l *Lock) Write(dir string) error {
	l.Version = version
	text, err := json.Marshal(l, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	err = durable.WriteFile(root, Name, append(text, '\n'), 0o644)
	return errors.Join(err, root.Close())
}

// Differences says, a line each, in what a newer lock differs.
func (l *Lock) Differences(newer *Lock) (out []string) {
	was, is := l.images(), newer.images()
	for ref, img := range is {
		switch old, ok := was[ref]; {
		case !ok:
			out = append(out, fmt.Sprintf("image %s is not in %s: its registry has %s", redact.Quote(ref), Name, img.Digest))
		case old.Digest != img.Digest:
			out = append(out, fmt.Sprintf("image %s has moved: %s says %s, and its registry has %s", redact.Quote(ref), Name, old.Digest, img.Digest))
		}
	}
	for ref := range was {
		if _, ok := is[ref]; !ok {
			out = append(out, fmt.Sprintf("image %s is in %s, and the pack does not name it", redact.Quote(ref), Name))
		}
	}
	slices.Sort(out)
	return out
}

func (l *Lock) images() map[string]Image {
	if l == nil {
		return nil
	}
	return l.Images
}

// Check compares an image of an engine, or of its registry, with the lock, which may be nil.
func (l *Lock) Check(ref string, img sandbox.Image) error {
	if l == nil || !Lockable(ref) {
		return nil
	}
	want, ok := l.Images[ref]
	if !ok {
		return fmt.Errorf("image %s is not in the pack's %s: add it with: securebench pack lock PACK", redact.Quote(ref), Name)
	}
	_, sum, _ := strings.Cut(img.Digest, "@")
	if want.Digest == sum || want.Digest == img.ID {
		return nil
	}
	for _, config := range want.Configs {
		if config == img.ID {
			return nil
		}
	}
	is := img.Digest
	if is == "" {
		is = img.ID
	}
	return fmt.Errorf("image %s is %s, and the pack's %s says %s: get that one, or look at what changed and run securebench pack lock PACK",
		redact.Quote(ref), redact.Quote(is), Name, want.Digest)
}
