package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"securebench/internal/sandbox"
)

// place is where something can be left.
type place struct {
	Name string
	// findLeft lists what was left, and Remove removes one of these.
	Find   func(ctx context.Context) ([]sandbox.Leftover, error)
	Remove func(ctx context.Context, l sandbox.Leftover) error
}

// leftItem is something that was left in a place.
type leftItem struct {
	Place string
	sandbox.Leftover
	// Err is why it could not be removed.
	Err error
}

// findLeft lists what is left in all places, even where one of them fails.
func findLeft(ctx context.Context, places []place) ([]leftItem, error) {
	var items []leftItem
	var errs []error
	for _, p := range places {
		found, err := p.Find(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Name, err))
		}
		for _, l := range found {
			items = append(items, leftItem{Place: p.Name, Leftover: l})
		}
	}
	return items, errors.Join(errs...)
}

// removeLeft removes items. What fails has its error in the item; the error is that of
// ctx, and nothing is removed after its end.
func removeLeft(ctx context.Context, places []place, items []leftItem) (removed []leftItem, err error) {
	for _, it := range items {
		if ctx.Err() != nil {
			return removed, context.Cause(ctx)
		}
		i := slices.IndexFunc(places, func(p place) bool { return p.Name == it.Place })
		if i < 0 {
			continue
		}
		it.Err = places[i].Remove(ctx, it.Leftover)
		removed = append(removed, it)
	}
	return removed, nil
}

// kindPrograms is the kind of overlays.
const kindPrograms = "agents' program"

// onEngine is what dead processes left on an engine, and, if cached is not nil,
// the programs of agents that the cache does not have.
func onEngine(name string, e sandbox.Engine, cached func() (map[string]bool, error)) place {
	cleaner, _ := e.(sandbox.Cleaner)
	keeper, _ := e.(sandbox.Overlays)
	return place{Name: name,
		Find: func(ctx context.Context) (out []sandbox.Leftover, err error) {
			if cleaner != nil {
				if out, err = cleaner.Left(ctx); err != nil {
					return nil, err
				}
			}
			if keeper == nil || cached == nil {
				return out, nil
			}
			programs, err := unmatched(ctx, keeper, cached)
			return append(out, programs...), err
		},
		Remove: func(ctx context.Context, l sandbox.Leftover) error {
			if l.Kind == kindPrograms {
				return keeper.RemoveOverlay(ctx, l.Name)
			}
			return cleaner.RemoveLeft(ctx, l)
		},
	}
}

// unmatched lists the overlays that no release of the cache matches. A cache that
// cannot be read matches nothing, so that is an error.
func unmatched(ctx context.Context, keeper sandbox.Overlays, cached func() (map[string]bool, error)) (out []sandbox.Leftover, err error) {
	keys, err := cached()
	if err != nil {
		return nil, err
	}
	specs, err := keeper.Overlays(ctx)
	for _, s := range specs {
		if !keys[s.Key] {
			out = append(out, sandbox.Leftover{Kind: kindPrograms, Name: s.Key})
		}
	}
	return out, err
}
