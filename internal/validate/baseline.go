package validate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/scoring"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Where the number of possible answers is unknown, chance is assumed to be that
// of a yes-or-no question, so that a fair pack of those is not blamed.
const unknownChance = 0.5

// baselineLevel is how unlikely a baseline's passes must be under chance, all
// baselines of the family together, before it beats the pack.
const baselineLevel = 0.001

// rowBaselines holds the results of a family's baselines on one row.
type rowBaselines struct {
	chance []float64 // by baseline
	known  bool
	passed []bool
	tried  []bool // the others had no answer
}

// tryBaselines scores what the baselines of the task's family answer. Families that
// need a sandbox for it have none.
func (cfg Config) tryBaselines(ctx context.Context, t task.Task, v family.Verifier, fam family.Family, at family.Case) (*rowBaselines, error) {
	if len(fam.Baselines) == 0 || fam.Basis(at.Evaluator) == verdict.Judged { // each would cost a judge's votes
		return nil, nil
	}
	n := len(fam.Baselines)
	b := &rowBaselines{chance: make([]float64, n), passed: make([]bool, n), tried: make([]bool, n)}
	b.known = b.chances(fam, at)
	view, verdicts := t.Agent(), map[string]bool{}
	for i, base := range fam.Baselines {
		text, ok := base.Answer(view)
		if !ok {
			continue
		}
		pass, done := verdicts[text]
		if !done {
			cand := candidate.New(t.Extraction().Kind, candidate.Given, []byte(text))
			got, err := scoring.Score(ctx, v, at, cand, nil, cfg.Retries)
			if err != nil {
				return nil, fmt.Errorf("trying %q: %w", base.Name, err)
			}
			pass = got.Outcome == verdict.Passed
			verdicts[text] = pass
		}
		b.tried[i], b.passed[i] = true, pass
	}
	return b, nil
}

// chances sets how likely the baselines' guesses pass, and reports whether that is known.
func (b *rowBaselines) chances(fam family.Family, at family.Case) (known bool) {
	chance, known := unknownChance, false
	if fam.Chance != nil {
		if c, ok := fam.Chance(at.Evaluator); ok {
			chance, known = c, true
		}
	}
	own := 0
	for i, base := range fam.Baselines {
		b.chance[i] = chance
		if base.Chance != nil {
			b.chance[i] = base.Chance(at)
			own++
		}
	}
	return known || own == len(fam.Baselines)
}

// Baselines collects the results of each family's baselines on a pack.
type Baselines struct {
	Families family.Registry

	mu   sync.Mutex
	rows map[string][]*rowBaselines
}

// BaselineResult is the result of one baseline on the rows of its family.
type BaselineResult struct {
	Name   string `json:"name"`
	Passed int    `json:"passed"`
	Tried  int    `json:"tried"` // rows that it has an answer to
	// Chance is the part of the tried rows that chance passes; P is how likely
	// it passes so many or more of them.
	Chance float64 `json:"chance"`
	P      float64 `json:"p"`
	Beats  bool    `json:"beats_chance"`

	shown bool // whatever the others pass
}

// FamilyBaselines holds the results of the baselines on the rows of a family.
type FamilyBaselines struct {
	Family string `json:"family"`
	Rows   int    `json:"rows"`
	// KnownChance is set if the number of right answers is known for every
	// row.
	KnownChance bool             `json:"known_chance"`
	Results     []BaselineResult `json:"baselines"` // the most passes first
}

// Add adds the results of a task. It is safe for concurrent use.
func (b *Baselines) Add(v Result) {
	if v.baselines == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rows == nil {
		b.rows = map[string][]*rowBaselines{}
	}
	b.rows[v.Family] = append(b.rows[v.Family], v.baselines)
}

// Results returns the families whose rows were tried, in alphabetical order.
func (b *Baselines) Results() []FamilyBaselines {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []FamilyBaselines
	for _, name := range slices.Sorted(maps.Keys(b.rows)) {
		out = append(out, judgeBaselines(name, b.Families[name].Baselines, b.rows[name]))
	}
	return out
}

func judgeBaselines(name string, bases []family.Baseline, rows []*rowBaselines) FamilyBaselines {
	out := FamilyBaselines{Family: name, Rows: len(rows), KnownChance: true}
	for _, r := range rows {
		out.KnownChance = out.KnownChance && r.known
	}
	dist := distributions{}
	different := map[string]bool{} // which rows pass, of the baselines that pass any
	for i, base := range bases {
		r, pattern := judgeBaseline(base.Name, i, rows, &dist)
		r.shown = base.Shown
		if r.Passed > 0 {
			different[pattern] = true
		}
		out.Results = append(out.Results, r)
	}
	for i := range out.Results {
		r := &out.Results[i]
		r.Beats = r.Passed > 0 && r.P*float64(len(different)) < baselineLevel
	}
	slices.SortStableFunc(out.Results, func(x, y BaselineResult) int { return cmp.Compare(y.Passed, x.Passed) })
	return out
}

// judgeBaseline counts the passes of baseline i and names the rows that they
// are of.
func judgeBaseline(name string, i int, rows []*rowBaselines, known *distributions) (r BaselineResult, pattern string) {
	r.Name = name
	passes, chances := make([]byte, len(rows)), []float64(nil)
	for j, row := range rows {
		if !row.tried[i] {
			continue
		}
		chances = append(chances, row.chance[i])
		if row.passed[i] {
			r.Passed, passes[j] = r.Passed+1, 1
		}
	}
	dist := known.of(chances)
	r.Tried, r.Chance = len(chances), sum(chances)/float64(max(len(chances), 1))
	r.P = min(sum(dist[min(r.Passed, len(dist)):]), 1)
	return r, string(passes)
}

// distributions are those of the rows' chances, which most baselines share.
type distributions []struct{ chances, passes []float64 }

func (d *distributions) of(chances []float64) []float64 {
	for _, known := range *d {
		if slices.Equal(known.chances, chances) {
			return known.passes
		}
	}
	passes := passesByChance(chances)
	*d = append(*d, struct{ chances, passes []float64 }{chances, passes})
	return passes
}

// passesByChance returns how likely it is that chance passes 0, 1, 2 and more
// of rows with these chances: the Poisson binomial distribution, exact except for
// parts below 1e-40.
func passesByChance(chances []float64) []float64 {
	const negligible = 1e-40
	dist, low := []float64{1}, 0 // what is below low is left out
	for _, p := range chances {
		dist = append(dist, 0)
		for k := len(dist) - 1; k > low; k-- {
			dist[k] = dist[k]*(1-p) + dist[k-1]*p
		}
		dist[low] *= 1 - p
		for low < len(dist)-1 && dist[low] < negligible {
			dist[low], low = 0, low+1
		}
		for len(dist) > low+1 && dist[len(dist)-1] < negligible {
			dist = dist[:len(dist)-1]
		}
	}
	return dist
}

// sum adds from the end, where a tail is smallest.
func sum(xs []float64) float64 {
	total := 0.0
	for _, x := range slices.Backward(xs) {
		total += x
	}
	return total
}
