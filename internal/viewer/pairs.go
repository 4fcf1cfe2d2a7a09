package viewer

import (
	"context"
	"fmt"
	"path"
	"slices"

	"securebench/internal/earlier"
	"securebench/internal/evidence"
)

// The bounds of the comparisons in a folder: how many there are, and how many rows their
// grids have.
const (
	maxPairs    = 66 // of 12 runs
	maxGridRows = 300_000
)

// pairs writes the comparisons of each two runs of a pack into a folder, as long as there
// is room: what is chosen there cannot be computed there.
type pairs struct {
	export *export
	trust  evidence.Trust
	paths  []string // of the runs of the list
	opened map[string]*earlier.Run
	rows   int
}

// write writes the comparisons, and says in the list which there are.
func (p *pairs) write(ctx context.Context, list *List) error {
	for i, a := range list.Runs {
		for j, b := range list.Runs[i+1:] {
			if a.State != Verified || b.State != Verified || a.Pack != b.Pack || len(list.Compared) == maxPairs {
				continue
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			ok, err := p.pair(ctx, [2]Summary{a, b}, [2]string{p.paths[i], p.paths[i+1+j]})
			if err != nil {
				return fmt.Errorf("comparing %s and %s: %w", a.ID, b.ID, err)
			}
			if ok {
				list.Compared = append(list.Compared, [2]string{a.ID, b.ID})
			}
		}
	}
	return nil
}

// pair writes the comparison of two runs unless there is no room for it, and where only
// differences stand against it that can be allowed, the one that allows them as well.
func (p *pairs) pair(ctx context.Context, of [2]Summary, paths [2]string) (bool, error) {
	most := max(of[0].tasks(), of[1].tasks())
	if p.rows+most > maxGridRows {
		return false, nil // before a run is read for nothing
	}
	p.rows += most
	var runs []*earlier.Run
	for i, at := range paths {
		if p.opened[at] == nil {
			run, err := earlier.Open(ctx, at, p.trust)
			if err != nil {
				return false, err
			}
			p.opened[at] = run
		}
		named := *p.opened[at]
		named.Name = of[i].ID
		runs = append(runs, &named)
	}
	name := path.Join("compare", of[0].ID, of[1].ID)
	c, err := compareRuns(runs, of[:], nil)
	if err != nil {
		return false, err
	}
	if err := p.put(name, c); err != nil || len(c.Refused) == 0 {
		return true, err
	}
	var kinds []string
	for _, r := range c.Refused {
		if r.Kind == "" {
			return true, nil
		}
		kinds = append(kinds, r.Kind)
	}
	slices.Sort(kinds)
	if c, err = compareRuns(runs, of[:], slices.Compact(kinds)); err != nil {
		return false, err
	}
	return true, p.put(name+"/allowed", c)
}

// put writes a comparison with all its tasks.
func (p *pairs) put(name string, c *Compared) error {
	c.Grid = c.all
	return p.export.data(name, c)
}
