package programs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"securebench/internal/agent/harness"
	"securebench/internal/fault"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
	"securebench/internal/source"
)

// Set has the programs of a run: the release of each that runs in an image, and where
// the engine has it. A nil set has none.
type Set struct {
	cache  *Cache
	engine sandbox.Overlays
	former []record.Program
	at     source.Pos
	notice func(string)

	mu       sync.Mutex
	on       map[string]Platform // by the ID of an image
	releases map[placed]Release
	trees    map[string]sandbox.Overlay // by key
}

// placed is a program on a platform.
type placed struct {
	program, version string // as it is configured
	on               Platform
}

func place(o harness.Overlay, on Platform) placed { return placed{o.Program, o.Version, on} }

// NewSet returns a set that takes programs from a cache, which stays open while any
// is installed, and puts them on an engine. former are the programs of the run
// that is resumed, and at is where the version is configured.
func NewSet(cache *Cache, engine sandbox.Overlays, former []record.Program, at source.Pos, notice func(string)) *Set {
	return &Set{cache: cache, engine: engine, former: former, at: at, notice: notice, on: map[string]Platform{},
		releases: map[placed]Release{}, trees: map[string]sandbox.Overlay{}}
}

// Install puts the release for a platform on the engine, once.
func (p *Set) Install(ctx context.Context, o harness.Overlay, img sandbox.Image, on Platform) (Release, sandbox.Overlay, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on[img.ID] = on
	rel, ok := p.releases[place(o, on)]
	if !ok {
		var err error
		if rel, err = p.cache.Resolve(ctx, o.Package, p.version(o), on, p.notice); err != nil {
			return rel, nil, fault.Errorf(fault.KindOf(err), "%s: %w", p.at, err)
		}
		p.releases[place(o, on)] = rel
	}
	tree := p.trees[rel.Key()]
	if tree == nil {
		var err error
		tree, err = p.engine.Overlay(ctx, rel.Spec(), func(w io.Writer) error {
			return p.cache.WriteTar(rel, w)
		})
		if err != nil {
			return rel, nil, fault.As(fault.Engine, fmt.Errorf("putting %s on the engine: %w", rel.Title(), err))
		}
		p.trees[rel.Key()] = tree
	}
	return rel, tree, nil
}

// version returns the version to resolve: once it is known what a run has, that
// is not asked for again, so that all platforms and resumes have the same.
func (p *Set) version(o harness.Overlay) string {
	if o.Version != latestVersion {
		return o.Version
	}
	for at, rel := range p.releases {
		if at.program == o.Program && at.version == o.Version {
			return rel.Version
		}
	}
	for _, was := range p.former {
		if was.Name == o.Program {
			return was.Version
		}
	}
	return o.Version
}

// latestVersion means the newest version, which is resolved once per run.
const latestVersion = "latest"

// Overlay returns a program as it runs in an image.
func (p *Set) Overlay(o harness.Overlay, img sandbox.Image) (sandbox.Overlay, error) {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if rel, ok := p.releases[place(o, p.on[img.ID])]; ok {
			return p.trees[rel.Key()], nil
		}
	}
	return nil, fmt.Errorf("the program %s was not prepared for image %s", o.Program, img.Ref)
}

// Ran returns the version of a program that was installed, "" if none was.
func (p *Set) Ran(program string) string {
	for at, rel := range p.releases {
		if at.program == program {
			return rel.Version
		}
	}
	return ""
}

// Placed is a release and the IDs of the images that it is for.
type Placed struct {
	Release
	Images []string
}

// Placed returns where which programs run, in order of their keys.
func (p *Set) Placed() (out []Placed) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, rel := range p.releases {
		in := Placed{Release: rel}
		for id, on := range p.on {
			if on == at.on {
				in.Images = append(in.Images, id)
			}
		}
		slices.Sort(in.Images)
		out = append(out, in)
	}
	slices.SortFunc(out, func(a, b Placed) int { return strings.Compare(a.Key(), b.Key()) })
	return out
}

// List returns the programs for the run manifest, in order.
func (p *Set) List() []record.Program {
	if p == nil {
		return nil
	}
	seen := map[record.Program]bool{}
	for _, rel := range p.releases {
		seen[record.Program{Name: string(rel.Program), Version: rel.Version, Platform: rel.Platform.String(),
			Integrity: rel.Integrity, Digest: rel.Digest}] = true
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b record.Program) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Platform, b.Platform))
	})
}
