// Package compare says whether one run is better than another, task by task: the
// difference in pass rate with its intervals, tests of whether it could be
// chance, and the tasks whose result changed.
//
// The runs must be about the same tasks. Each task is paired with itself, so what
// makes a task easy or hard does not blur the comparison.
package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"securebench/internal/earlier"
	"securebench/internal/report"
	"securebench/internal/verdict"
)

// Options say how runs are compared.
type Options struct {
	// Allowed are the kinds of differences between the runs' inputs that do not
	// prevent the comparison.
	Allowed []Kind
	// Clusters are the groups of tasks that are not independent of each other, by
	// task; a task without one is its own cluster.
	Clusters map[string]string
	// Resamples is how often the bootstrap draws, Seed what its draws follow from.
	Resamples int
	Seed      uint64
}

// Report is the comparison of runs with the first of them.
type Report struct {
	Pack    string `json:"pack_id"`
	Section        // of what was computed
	// Judged is of the tasks that ask for a judge, nil for none. Nothing is of both.
	Judged *Section `json:"judged,omitzero"`
	// LeftOut is how many rows of the pack were not compared: a run was not about
	// them.
	LeftOut   int    `json:"left_out"`
	Resamples int    `json:"resamples"`
	Seed      uint64 `json:"seed"`
	// Allowed are differences between the runs' inputs that the caller allowed.
	Allowed []Difference `json:"allowed_differences"`
	// Notes are what a reader should know besides.
	Notes []string `json:"notes"`
}

// Section is the comparison over the tasks of one basis.
type Section struct {
	Tasks int `json:"tasks"` // that are in all runs
	// Clusters is how many groups of tasks there are, if the pack says so.
	Clusters int `json:"clusters,omitzero"`
	// Containment counts the compared tasks by profile.
	Containment map[verdict.Containment]int `json:"containment"`
	Runs        []Run                       `json:"runs"`        // the first is the baseline
	Comparisons []Comparison                `json:"comparisons"` // of each further run with the first
}

// Run is one of the runs, as far as it was compared.
type Run struct {
	Name     string   `json:"name"`
	RunID    string   `json:"run_id"`
	Agent    string   `json:"agent"`
	Model    string   `json:"model,omitzero"`
	Signer   string   `json:"signer"`
	Attempts int      `json:"attempts"` // at each task
	Passed   int      `json:"passed"`   // attempts at compared tasks
	Rate     float64  `json:"pass_rate"`
	Interval Interval `json:"interval_95"` // Wilson's, over tasks
	Unscored int      `json:"unscored"`    // attempts without a verdict, which count as not passed
	Labels   []string `json:"labels"`
}

// Comparison is how a run differs from the baseline.
type Comparison struct {
	Run string `json:"run"`
	Estimate
	Families []Family `json:"families"`
	Gained   []Flip   `json:"gained"` // tasks of which a larger share passed
	Lost     []Flip   `json:"lost"`   // a smaller one
}

// Family is the difference within a family of tasks.
type Family struct {
	Name string `json:"name"`
	Estimate
}

// Flip is a task whose result changed.
type Flip struct {
	TaskID string  `json:"task_id"`
	Index  int     `json:"index"`
	Before float64 `json:"before"` // the share of attempts that passed
	After  float64 `json:"after"`
}

// Compare compares each run with the first. The error is a [*DifferentError] if
// they are not comparable.
func Compare(runs []*earlier.Run, o Options) (*Report, error) {
	allowed, err := sift(runs, o.Allowed)
	if err != nil {
		return nil, err
	}
	rows := common(runs)
	if len(rows) == 0 {
		return nil, &DifferentError{[]Difference{{Tasks, "no task is in all runs"}}}
	}
	base := runs[0]
	r := &Report{
		Pack: base.Manifest.Pack.ID, LeftOut: base.Manifest.Planned.Tasks + base.Manifest.Planned.LeftOut - len(rows),
		Resamples: o.Resamples, Seed: o.Seed, Allowed: allowed, Notes: notes(runs),
	}
	var apart verdict.ByBasis[[]row]
	for _, row := range rows {
		of := apart.Of(row.basis())
		*of = append(*of, row)
	}
	r.Section = section(runs, *apart.Of(verdict.Computed), o)
	if judged := *apart.Of(verdict.Judged); len(judged) > 0 {
		s := section(runs, judged, o)
		r.Judged = &s
	}
	return r, nil
}

// section compares the runs over tasks of one basis.
func section(runs []*earlier.Run, rows []row, o Options) Section {
	s := Section{Tasks: len(rows), Containment: map[verdict.Containment]int{}, Comparisons: []Comparison{}}
	groups := clusters(rows, o.Clusters)
	if o.Clusters != nil {
		s.Clusters = distinct(groups)
	}
	for _, row := range rows {
		s.Containment[row.tasks[0].Containment]++
	}
	for i, run := range runs {
		s.Runs = append(s.Runs, about(run, rows, i))
		if i > 0 && len(rows) > 0 {
			s.Comparisons = append(s.Comparisons, against(run.Name, rows, groups, i, o))
		}
	}
	adjust(s.Comparisons)
	return s
}

// row is a task with its results in all runs.
type row struct{ tasks []earlier.Task }

// basis is judged if a run says so: a former build may not have said it.
func (r row) basis() (b verdict.Basis) {
	for _, t := range r.tasks {
		b = max(b, t.Basis)
	}
	return b
}

// common returns the tasks that are in all runs, in row order.
func common(runs []*earlier.Run) (out []row) {
	byID := make([]map[string]earlier.Task, len(runs))
	for i, run := range runs {
		byID[i] = make(map[string]earlier.Task, len(run.Tasks))
		for _, t := range run.Tasks {
			byID[i][t.ID] = t
		}
	}
	for _, t := range runs[0].Tasks {
		r := row{}
		for i := range runs {
			if other, ok := byID[i][t.ID]; ok {
				r.tasks = append(r.tasks, other)
			}
		}
		if len(r.tasks) == len(runs) {
			out = append(out, r)
		}
	}
	return out
}

// clusters numbers the group of each row; nil if every row is its own.
func clusters(rows []row, names map[string]string) []int {
	if names == nil {
		return nil
	}
	numbers, out := map[string]int{}, make([]int, len(rows))
	next := 0
	for i, r := range rows {
		name := names[r.tasks[0].ID]
		n, known := numbers[name]
		if name == "" || !known {
			n = next
			next++
			if name != "" {
				numbers[name] = n
			}
		}
		out[i] = n
	}
	return out
}

// distinct counts the groups.
func distinct(groups []int) int {
	n := -1
	for _, g := range groups {
		n = max(n, g)
	}
	return n + 1
}

// about describes a run.
func about(run *earlier.Run, rows []row, i int) Run {
	m := run.Manifest
	out := Run{Name: run.Name, RunID: m.RunID, Agent: m.Agent, Model: m.Model, Signer: run.Signer, Attempts: m.Planned.Attempts, Labels: m.Labels}
	var sum float64
	for _, r := range rows {
		t := r.tasks[i]
		out.Passed, out.Unscored = out.Passed+t.Passed, out.Unscored+t.Unscored
		sum += t.Share()
	}
	rate := sum / float64(max(len(rows), 1))
	out.Rate, out.Interval = report.Rounded(rate), report.Wilson(rate, len(rows)).Rounded()
	return out
}

// against compares run i with the baseline.
func against(name string, rows []row, groups []int, i int, o Options) Comparison {
	c := Comparison{Run: name, Gained: []Flip{}, Lost: []Flip{}, Families: []Family{}}
	sets := map[string]*pairs{}
	all := newPairs(rows, groups, i)
	for n, r := range rows {
		before, after := r.tasks[0], r.tasks[i]
		flip := Flip{before.ID, before.Index, report.Rounded(before.Share()), report.Rounded(after.Share())}
		switch cmp.Compare(after.Share(), before.Share()) {
		case 1:
			c.Gained = append(c.Gained, flip)
		case -1:
			c.Lost = append(c.Lost, flip)
		}
		set := sets[before.Family]
		if set == nil {
			set = &pairs{binary: all.binary}
			sets[before.Family] = set
		}
		set.add(all, n)
	}
	c.Estimate = all.estimate(o)
	for _, fam := range slices.Sorted(maps.Keys(sets)) {
		e := c.Estimate
		if len(sets) > 1 {
			e = sets[fam].estimate(o)
		}
		c.Families = append(c.Families, Family{fam, e})
	}
	return c
}

// adjust corrects the p values for the number of comparisons, after Holm: S. Holm,
// "A simple sequentially rejective multiple test procedure", Scandinavian Journal
// of Statistics 6 (1979), 65-70. A comparison without a p value was also made, and
// counts like one whose p value is 1.
func adjust(cs []Comparison) {
	if len(cs) < 2 {
		return
	}
	var order []*Comparison
	for i := range cs {
		if cs[i].P != nil {
			order = append(order, &cs[i])
		}
	}
	slices.SortStableFunc(order, func(a, b *Comparison) int { return cmp.Compare(*a.P, *b.P) })
	least := 0.0
	for i, c := range order {
		least = max(least, min(1, *c.P*float64(len(cs)-i)))
		c.Adjusted = significant(least)
	}
}

// String says what differs.
func (d Difference) String() string { return fmt.Sprintf("%s: %s", d.Kind, d.What) }
