package engines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imagestore"
)

// shelf is a store in memory.
type shelf struct {
	imageStore // what the supply does not use
	images     map[string]imagestore.Image
	imported   []string
}

func (s *shelf) Use(ref string) (imagestore.Image, func() error, error) {
	img, ok := s.images[ref]
	if !ok {
		return img, nil, fmt.Errorf("image %q: %w", ref, sandbox.ErrImageMissing)
	}
	return img, func() error { return nil }, nil
}

func (s *shelf) Import(ctx context.Context, source string, a imagestore.Addition, from imagestore.Exporter) (imagestore.Image, error) {
	ref := source[len(imagestore.FromDocker):]
	id, err := from.ExportImage(ctx, ref, "")
	if err != nil {
		return imagestore.Image{}, err
	}
	s.imported = append(s.imported, ref)
	s.images[ref] = imagestore.Image{Ref: a.Ref, ID: id, Origin: cmp.Or(a.Origin, source)}
	return s.images[ref], nil
}

func (*shelf) Close() error { return nil }

// daemon is a Docker engine that has images by ID.
type daemon struct {
	ids   map[string]string
	other bool // an ID is not the digest of the configuration
	asked int
}

func (d *daemon) ID(_ context.Context, ref string) (string, error) {
	d.asked++
	if id, ok := d.ids[ref]; ok {
		return id, nil
	}
	return "", sandbox.ErrImageMissing
}

func (d *daemon) ExportImage(ctx context.Context, ref, _ string) (string, error) {
	id, err := d.ID(ctx, ref)
	if d.other {
		id += "-config"
	}
	return id, err
}

func (*daemon) Build(context.Context, sandbox.Build, io.Reader, io.Writer) (sandbox.Image, error) {
	return sandbox.Image{}, errors.New("not here")
}

func (*daemon) Close() error { return nil }

func newTestSupply(s *shelf, d *daemon) (*supply, *[]string) {
	var said []string
	out := newSupply(Config{Say: func(line string) { said = append(said, line) }}, s)
	out.open = func(context.Context) (dockerImages, error) {
		if d == nil {
			return nil, errors.New("nobody answers")
		}
		return d, nil
	}
	return out, &said
}

// TestSupply: an image is taken from Docker if the store lacks it, or has a former
// one from there; what came from elsewhere stays.
func TestSupply(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has    imagestore.Image
		docker map[string]string // nil does not answer
		take   bool
	}{
		"absent":                 {imagestore.Image{}, map[string]string{"a:1": "sha256:2"}, true},
		"nowhere":                {imagestore.Image{}, map[string]string{}, false},
		"absent, no Docker":      {imagestore.Image{}, nil, false},
		"the same":               {imagestore.Image{ID: "sha256:2", Origin: "docker:a:1"}, map[string]string{"a:1": "sha256:2"}, false},
		"another one there now":  {imagestore.Image{ID: "sha256:1", Origin: "docker:a:1"}, map[string]string{"a:1": "sha256:2"}, true},
		"gone there":             {imagestore.Image{ID: "sha256:1", Origin: "docker:a:1"}, map[string]string{}, false},
		"from Docker, now down":  {imagestore.Image{ID: "sha256:1", Origin: "docker:a:1"}, nil, false},
		"imported from a folder": {imagestore.Image{ID: "sha256:1", Origin: "rootfs"}, map[string]string{"a:1": "sha256:2"}, false},
		"pulled":                 {imagestore.Image{ID: "sha256:1", Origin: "registry"}, map[string]string{"a:1": "sha256:2"}, false},
	} {
		s := &shelf{images: map[string]imagestore.Image{}}
		if c.has.ID != "" {
			s.images["a:1"] = c.has
		}
		var d *daemon
		if c.docker != nil {
			d = &daemon{ids: c.docker}
		}
		sup, said := newTestSupply(s, d)
		for range 2 { // the second time nothing is taken again
			if err := sup.missing(t.Context(), "a:1"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if took := slices.Equal(s.imported, []string{"a:1"}); took != c.take || len(*said) != len(s.imported) {
			t.Errorf("%s: imported %q, said %q", name, s.imported, *said)
		}
	}
}

// TestSupplyByID: an image that is named by its ID cannot be another one, so
// Docker is not asked.
func TestSupplyByID(t *testing.T) {
	t.Parallel()
	d := &daemon{ids: map[string]string{"sha256:1": "sha256:1"}}
	s := &shelf{images: map[string]imagestore.Image{"sha256:1": {ID: "sha256:1", Origin: "docker:a:1"}}}
	sup, _ := newTestSupply(s, d)
	if err := sup.missing(t.Context(), "sha256:1"); err != nil || d.asked != 0 {
		t.Errorf("%v, Docker was asked %d times", err, d.asked)
	}
	delete(s.images, "sha256:1")
	sup, _ = newTestSupply(s, d)
	if err := sup.missing(t.Context(), "sha256:1"); err != nil || s.images["sha256:1"].ID == "" || s.images["sha256:1"].Ref != "" {
		t.Errorf("an ID that is missing: %v, %+v", err, s.images)
	}
}

// TestSupplyOfOtherIDs: an engine whose IDs are not those of configurations is
// asked for an image again only when it has another one.
func TestSupplyOfOtherIDs(t *testing.T) {
	t.Parallel()
	s, d := &shelf{images: map[string]imagestore.Image{}}, &daemon{ids: map[string]string{"a:1": "sha256:1"}, other: true}
	for _, c := range []struct {
		id    string
		taken bool
	}{{"sha256:1", true}, {"sha256:1", false}, {"sha256:2", true}, {"sha256:2", false}} {
		d.ids["a:1"], s.imported = c.id, nil
		sup, _ := newTestSupply(s, d) // as the next run does
		if err := sup.missing(t.Context(), "a:1"); err != nil || (len(s.imported) > 0) != c.taken || s.images["a:1"].ID != c.id+"-config" {
			t.Errorf("%+v: %v, imported %q, has %+v", c, err, s.imported, s.images["a:1"])
		}
	}
}

// TestSupplyAtOnce: many tasks that want one image get it with one import.
func TestSupplyAtOnce(t *testing.T) {
	t.Parallel()
	s := &shelf{images: map[string]imagestore.Image{}}
	sup, _ := newTestSupply(s, &daemon{ids: map[string]string{"a:1": "sha256:1"}})
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			if err := sup.missing(t.Context(), "a:1"); err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	if len(s.imported) != 1 {
		t.Errorf("imported %q", s.imported)
	}
}
