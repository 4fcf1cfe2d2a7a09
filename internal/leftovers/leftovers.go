// Package leftovers finds and removes what killed runs and unused images left on
// this machine and on its engines. It touches nothing that a living process owns.
package leftovers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"securebench/internal/sandbox"
)

// Place is where something can be left.
type Place struct {
	Name string
	// Find lists what was left, and Remove removes one of these.
	Find   func(ctx context.Context) ([]sandbox.Leftover, error)
	Remove func(ctx context.Context, l sandbox.Leftover) error
}

// Item is something that was left in a place.
type Item struct {
	Place string
	sandbox.Leftover
	// Err is why it could not be removed.
	Err error
}

// Find lists what is left in all places, even where one of them fails.
func Find(ctx context.Context, places []Place) ([]Item, error) {
	var items []Item
	var errs []error
	for _, p := range places {
		found, err := p.Find(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Name, err))
		}
		for _, l := range found {
			items = append(items, Item{Place: p.Name, Leftover: l})
		}
	}
	return items, errors.Join(errs...)
}

// Remove removes items. What fails has its error in the item; the error is that of
// ctx, and nothing is removed after its end.
func Remove(ctx context.Context, places []Place, items []Item) (removed []Item, err error) {
	for _, it := range items {
		if ctx.Err() != nil {
			return removed, context.Cause(ctx)
		}
		i := slices.IndexFunc(places, func(p Place) bool { return p.Name == it.Place })
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

// OnEngine is what dead processes left on an engine, and, if cached is not nil,
// the programs of agents that the cache does not have.
func OnEngine(name string, e sandbox.Engine, cached func() (map[string]bool, error)) Place {
	cleaner, _ := e.(sandbox.Cleaner)
	keeper, _ := e.(sandbox.Overlays)
	return Place{Name: name,
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
