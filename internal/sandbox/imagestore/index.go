package imagestore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"securebench/internal/digest"
	"securebench/internal/durable"
	"securebench/internal/lazyregexp"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imagestore/layer"
)

// index lists the images. Its file is replaced as a whole.
type index struct {
	Images []record `json:"images"`
}

// record is an image under one of its names.
type record struct {
	Ref    string    `json:"ref,omitzero"`
	ID     string    `json:"id"`
	Digest string    `json:"digest,omitzero"`
	Origin string    `json:"origin,omitzero"`
	Owner  string    `json:"owner,omitzero"`
	Added  time.Time `json:"added"`
	// Layers are diff IDs, the lowest first, each once.
	Layers []string `json:"layers"`
	// Replaced says that another image took the name.
	Replaced bool `json:"replaced,omitzero"`
}

// layerInfo is the file beside an unpacked layer.
type layerInfo struct {
	Entries int      `json:"entries"`
	Bytes   int64    `json:"bytes"`
	LeftOut []string `json:"left_out,omitzero"`
	Omitted int      `json:"omitted,omitzero"`
}

const infoFile, filesDir = "layer.json", "files"

// readIndex is called while the index is locked.
func (s *Store) readIndex() (index, error) {
	var x index
	b, err := s.root.ReadFile(indexFile)
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &x, json.RejectUnknownMembers(true))
	}
	if err == nil {
		err = x.check()
	}
	if err != nil {
		return x, fmt.Errorf("the index of the image store is unreadable (%w): remove %s, then import the images again",
			err, filepath.Join(s.dir, indexFile))
	}
	return x, nil
}

// check prevents that a damaged index leads to other files.
func (x index) check() error {
	for _, r := range x.Images {
		for _, d := range append([]string{r.ID}, r.Layers...) {
			if _, err := digest.Hex(d); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) writeIndex(x index) error {
	slices.SortStableFunc(x.Images, func(a, b record) int {
		return strings.Compare(a.Ref+"\x00"+a.ID, b.Ref+"\x00"+b.ID)
	})
	b, err := json.Marshal(x, jsontext.Multiline(true))
	if err != nil {
		return err
	}
	return durable.WriteFile(s.root, indexFile, append(b, '\n'), 0o600)
}

// set adds an image, from which another may lose its name.
func (x *index) set(r record) {
	kept := x.Images[:0]
	for _, old := range x.Images {
		switch {
		case r.Ref != "" && old.Ref == r.Ref && old.ID != r.ID:
			old.Ref, old.Replaced = "", true
		case old.ID == r.ID && (old.Ref == r.Ref || old.Ref == ""):
			if r.Ref == "" && old.Owner == "" {
				r.Owner = "" // it was added to stay
			}
			continue
		}
		kept = append(kept, old)
	}
	x.Images = append(kept, r)
	x.dropUnnamed()
}

// dropUnnamed removes replaced records of images that have another record.
func (x *index) dropUnnamed() {
	count := make(map[string]int)
	for _, r := range x.Images {
		count[r.ID]++
	}
	x.Images = slices.DeleteFunc(x.Images, func(r record) bool {
		drop := r.Replaced && count[r.ID] > 1
		if drop {
			count[r.ID]--
		}
		return drop
	})
}

var (
	fullID = lazyregexp.New(`^(sha256:)?[0-9a-f]{64}$`)
	partID = lazyregexp.New(`^(sha256:)?[0-9a-f]{12,63}$`)
)

// hubHost begins the full names of images of Docker's own registry.
const hubHost = "index.docker.io/"

// find looks an image up as Docker does: by name, then by ID.
func (x index) find(ref string) (record, error) {
	missing := fmt.Errorf("image %q: %w", ref, sandbox.ErrImageMissing)
	if fullID.MatchString(ref) {
		id := "sha256:" + hexOf(ref)
		for _, r := range x.Images {
			if r.ID == id {
				return r, nil
			}
		}
		return record{}, missing
	}
	named, err := familiar(ref)
	if err != nil {
		return record{}, fmt.Errorf("image %q: %w", ref, err)
	}
	for _, r := range x.Images {
		if r.Ref == named || r.Digest != "" && r.Digest == named {
			return r, nil
		}
	}
	var found record
	for _, r := range x.Images {
		if partID.MatchString(ref) && strings.HasPrefix(hexOf(r.ID), hexOf(ref)) {
			if found.ID != "" && found.ID != r.ID {
				return record{}, fmt.Errorf("image %q: several images have an ID that begins so", ref)
			}
			found = r
		}
	}
	if found.ID == "" {
		return record{}, missing
	}
	return found, nil
}

// familiar writes a reference as Docker shows it: with a tag, and without what it
// says by default.
func familiar(ref string) (string, error) {
	parsed, err := name.ParseReference(ref, name.WeakValidation)
	if err != nil {
		return "", fmt.Errorf("not a reference to an image: %w", oneLine(err))
	}
	repo := familiarRepository(parsed.Context())
	if d, ok := parsed.(name.Digest); ok {
		return repo + "@" + d.DigestStr(), nil
	}
	return repo + ":" + parsed.Identifier(), nil
}

func familiarRepository(r name.Repository) string {
	short, hub := strings.CutPrefix(r.Name(), hubHost)
	if hub {
		return strings.TrimPrefix(short, "library/")
	}
	return short
}

// Use returns an image by name or ID. Until release is called it is not removed by
// any process. The error wraps [sandbox.ErrImageMissing] if there is none.
func (s *Store) Use(ref string) (img Image, release func() error, err error) {
	lock, err := s.shared()
	if err != nil {
		return Image{}, nil, fmt.Errorf("looking up image %q: %w", ref, err)
	}
	defer lock.Close()
	x, err := s.readIndex()
	if err != nil {
		return Image{}, nil, err
	}
	r, err := x.find(ref)
	if err != nil {
		return Image{}, nil, err
	}
	if img, err = s.image(r); err != nil {
		return Image{}, nil, fmt.Errorf("image %q: %w", ref, err)
	}
	if release, err = s.lease(r.ID); err != nil {
		return Image{}, nil, fmt.Errorf("using image %q: %w", ref, err)
	}
	return img, release, nil
}

// image reads what the store has of an image. A part that is gone makes the image
// a missing one, so that it is fetched again.
func (s *Store) image(r record) (Image, error) {
	img := Image{Ref: r.Ref, ID: r.ID, Digest: r.Digest, Origin: r.Origin, Added: r.Added}
	config, err := s.root.ReadFile(filepath.Join(configsDir, hexOf(r.ID)))
	if err != nil || digest.Bytes(config) != r.ID {
		return Image{}, fmt.Errorf("its configuration in the image store is lost: %w", sandbox.ErrImageMissing)
	}
	parsed, err := v1.ParseConfigFile(strings.NewReader(string(config)))
	if err != nil {
		return Image{}, fmt.Errorf("reading its configuration: %w", err)
	}
	img.Config = *parsed
	for _, l := range r.Layers {
		info, err := s.layerInfo(l)
		if err != nil {
			return Image{}, fmt.Errorf("its layer %s in the image store is lost: %w", l, sandbox.ErrImageMissing)
		}
		img.Layers = append(img.Layers, filepath.Join(s.dir, s.layerDir(l), filesDir))
		img.Size += info.Bytes
	}
	return img, nil
}

// layerInfo describes a layer that the store has.
func (s *Store) layerInfo(diffID string) (layerInfo, error) {
	var info layerInfo
	b, err := s.root.ReadFile(filepath.Join(s.layerDir(diffID), infoFile))
	if err == nil {
		err = json.Unmarshal(b, &info, json.RejectUnknownMembers(true))
	}
	return info, err
}

func infoOf(sum layer.Summary) layerInfo {
	return layerInfo{Entries: sum.Entries, Bytes: sum.Bytes, LeftOut: sum.LeftOut, Omitted: sum.Omitted}
}

// List returns all images, by name.
func (s *Store) List() ([]Image, error) {
	out, err := s.list()
	if err != nil {
		return nil, fmt.Errorf("listing images: %w", err)
	}
	return out, nil
}

func (s *Store) list() (out []Image, err error) {
	lock, err := s.shared()
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	x, err := s.readIndex()
	if err != nil {
		return nil, err
	}
	for _, r := range x.Images {
		img, err := s.image(r)
		if errors.Is(err, sandbox.ErrImageMissing) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", r.ID, err)
		}
		out = append(out, img)
	}
	return out, nil
}
