package viewer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"securebench/internal/compare"
	"securebench/internal/earlier"
	"securebench/internal/redact"
	"securebench/internal/verdict"
)

// maxCompared is how many runs are compared.
const maxCompared = 12

// resamples and seed are those of "securebench compare" without flags, so that both say
// the same.
const (
	resamples = 10_000
	seed      = 0
)

// Compared is a comparison of runs with the first of them. Its texts are escaped.
type Compared struct {
	Runs []Summary `json:"runs"`
	// Refused says why the runs cannot be compared. What has a kind can be allowed.
	Refused []Refusal `json:"refused,omitzero"`
	Allowed []Refusal `json:"allowed,omitzero"`
	Notes   []string  `json:"notes,omitzero"`
	LeftOut int       `json:"left_out,omitzero"`
	// Parts are of what was computed and of what was judged.
	Parts []ComparedPart `json:"parts,omitzero"`
	Grid  []GridRow      `json:"grid,omitzero"`
	Total int            `json:"total"`
	Found int            `json:"found"`
	Page  int            `json:"page"`
	Pages int            `json:"pages"`

	all []GridRow
}

// Refusal is a difference between runs.
type Refusal struct {
	Kind string `json:"kind,omitzero"`
	What string `json:"what"`
}

// ComparedPart is the comparison over the tasks of one basis.
type ComparedPart struct {
	Basis string `json:"basis"`
	Tasks int    `json:"tasks"`
	// Rates are those of the runs over these tasks, and Against the differences of each
	// but the first to it.
	Rates   []ShortTotal `json:"rates"`
	Against []Against    `json:"against"`
}

// Against is how a run differs from the first.
type Against struct {
	Difference float64           `json:"difference"`
	Interval   *compare.Interval `json:"interval,omitzero"`
	Method     string            `json:"method,omitzero"`
	Gained     int               `json:"gained"`
	Lost       int               `json:"lost"`
	Test       string            `json:"test,omitzero"`
	P          *float64          `json:"p,omitzero"`
	Adjusted   *float64          `json:"adjusted,omitzero"`
}

// GridRow is a task with what became of it in each run.
type GridRow struct {
	Task   string     `json:"task"`
	Index  int        `json:"row"`
	Family string     `json:"family"`
	Basis  string     `json:"basis"`
	Cells  []GridCell `json:"cells"`
}

// GridCell is a task in a run. Without attempts it has none there.
type GridCell struct {
	Passed   int `json:"passed"`
	Attempts int `json:"attempts"`
	Unscored int `json:"unscored,omitzero"`
	// Change is 1 if a larger share passed than in the first run, -1 if a smaller one.
	Change int `json:"change,omitzero"`
}

// compared remembers the last comparison, whose pages are asked for one after the other.
type compared struct {
	of  string
	was *Compared
}

// Compare compares runs. The parameters name the differences that are allowed, and which
// page of which tasks to show.
func (l *Library) Compare(ctx context.Context, by url.Values) (*Compared, error) {
	ids := strings.Split(by.Get("runs"), "\n")
	if len(ids) < 2 || len(ids) > maxCompared {
		return nil, fmt.Errorf("choose 2 to %d runs to compare", maxCompared)
	}
	of := by.Get("allow")
	var summaries []Summary
	var paths []string
	for _, id := range ids {
		run, summary, err := l.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		summaries, paths, of = append(summaries, summary), append(paths, run.path), of+"\n"+id+"\n"+stamp(run.path)
	}
	l.mu.Lock()
	last := l.last
	l.mu.Unlock()
	if last.of != of {
		was, err := l.compare(ctx, paths, summaries, strings.Fields(by.Get("allow")))
		if err != nil {
			return nil, err
		}
		last = compared{of, was}
		l.mu.Lock()
		l.last = last
		l.mu.Unlock()
	}
	return last.was.shown(by), nil
}

// compare compares the runs at paths.
func (l *Library) compare(ctx context.Context, paths []string, summaries []Summary, allow []string) (*Compared, error) {
	out := &Compared{Runs: summaries}
	var runs []*earlier.Run
	for i, path := range paths {
		run, err := earlier.Open(ctx, path, l.options.Trust)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			out.Refused = append(out.Refused, Refusal{What: redact.EscapeShort(err.Error(), maxError)})
			continue
		}
		run.Name = summaries[i].ID
		runs = append(runs, run)
	}
	if len(out.Refused) > 0 {
		return out, nil
	}
	return compareRuns(runs, summaries, allow)
}

// compareRuns compares runs that verified.
func compareRuns(runs []*earlier.Run, summaries []Summary, allow []string) (*Compared, error) {
	out := &Compared{Runs: summaries}
	allowed, err := compare.ParseKinds(allow, compare.Allowable())
	if err != nil {
		return nil, err
	}
	rep, err := compare.Compare(runs, compare.Options{Allowed: allowed, Resamples: resamples, Seed: seed})
	if different, ok := errors.AsType[*compare.DifferentError](err); ok {
		out.Refused = refusals(different.Differences)
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	out.Allowed, out.LeftOut = refusals(rep.Allowed), rep.LeftOut
	for _, note := range rep.Notes {
		out.Notes = append(out.Notes, redact.Escape(note))
	}
	if rep.Tasks > 0 {
		out.Parts = append(out.Parts, newPart(verdict.Computed, &rep.Section))
	}
	if rep.Judged != nil {
		out.Parts = append(out.Parts, newPart(verdict.Judged, rep.Judged))
	}
	out.all = grid(runs)
	return out, nil
}

// refusals are differences, with their kinds if they can be allowed.
func refusals(all []compare.Difference) (out []Refusal) {
	for _, d := range all {
		r := Refusal{What: redact.EscapeShort(d.String(), maxError)}
		if slices.Contains(compare.Allowable(), d.Kind) {
			r.Kind = string(d.Kind)
		}
		out = append(out, r)
	}
	return out
}

func newPart(basis verdict.Basis, s *compare.Section) ComparedPart {
	p := ComparedPart{Basis: basis.String(), Tasks: s.Tasks, Against: []Against{}}
	for _, r := range s.Runs {
		p.Rates = append(p.Rates, ShortTotal{Basis: p.Basis, Rate: r.Rate, Interval: r.Interval, Passed: r.Passed, Attempts: s.Tasks * r.Attempts, Tasks: s.Tasks})
	}
	for _, c := range s.Comparisons {
		p.Against = append(p.Against, Against{Difference: c.Difference, Interval: c.Interval, Method: c.Method, Gained: len(c.Gained), Lost: len(c.Lost), Test: c.Test, P: c.P, Adjusted: c.Adjusted})
	}
	return p
}

// grid has a row for each task of any run, in the order of the pack.
func grid(runs []*earlier.Run) (out []GridRow) {
	at := map[string]int{}
	for i, run := range runs {
		for _, t := range run.Tasks {
			n, ok := at[t.ID]
			if !ok {
				n = len(out)
				at[t.ID] = n
				out = append(out, GridRow{Task: redact.EscapeShort(t.ID, maxWord), Index: t.Index, Family: redact.EscapeShort(t.Family, maxWord), Basis: t.Basis.String(), Cells: make([]GridCell, len(runs))})
			}
			out[n].Cells[i] = GridCell{Passed: t.Passed, Attempts: t.Attempts, Unscored: t.Unscored}
		}
	}
	slices.SortStableFunc(out, func(a, b GridRow) int { return cmp.Compare(a.Index, b.Index) })
	for _, row := range out {
		first := row.Cells[0]
		for i := range row.Cells {
			if c := &row.Cells[i]; first.Attempts > 0 && c.Attempts > 0 {
				c.Change = cmp.Compare(c.Passed*first.Attempts, first.Passed*c.Attempts)
			}
		}
	}
	return out
}

// shown is the comparison with a page of the tasks that are asked for: all, those that
// changed, or those that one of the runs gained or lost.
func (c *Compared) shown(by url.Values) *Compared {
	out := *c
	show, words := by.Get("show"), wordsOf(by)
	changed := func(row GridRow, way int) bool {
		return slices.ContainsFunc(row.Cells, func(c GridCell) bool { return c.Change != 0 && (way == 0 || c.Change == way) })
	}
	var found []GridRow
	for _, row := range c.all {
		text := strings.ToLower(row.Task + "\n" + row.Family)
		switch {
		case show == "changed" && !changed(row, 0), show == "gained" && !changed(row, 1), show == "lost" && !changed(row, -1):
		case slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }):
		default:
			found = append(found, row)
		}
	}
	out.Total, out.Found = len(c.all), len(found)
	out.Grid, out.Page, out.Pages = paged(found, by)
	return &out
}
