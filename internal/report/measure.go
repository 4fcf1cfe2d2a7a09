package report

import (
	"maps"
	"slices"

	"securebench/internal/console"
)

// Mean is the mean of a measure over the attempts of one basis that have it.
type Mean struct {
	Name     string  `json:"name"`
	Of       string  `json:"of"` // "passed" or "all"
	Attempts int     `json:"attempts"`
	Value    float64 `json:"mean"`
}

// The attempts that a mean is of.
const (
	ofPasses = "passed"
	ofAll    = "all"
)

// means returns the means of measures over the attempts that count, in the order of
// their names.
func means(tasks []*task, counts func(*Attempt) bool) (out []Mean) {
	by := map[string]*Mean{}
	for _, t := range tasks {
		for _, a := range t.attempts {
			if a.Measure == nil || a.Outcome == repeated || a.Outcome == inconsistent || !counts(a) {
				continue
			}
			m := by[a.Measure.Name]
			if m == nil {
				m = &Mean{Name: a.Measure.Name, Of: ofPasses}
				by[m.Name] = m
			}
			m.Attempts++
			m.Value += a.Measure.Value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		m := *by[name]
		m.Value = Rounded(m.Value / float64(m.Attempts))
		out = append(out, m)
	}
	return out
}

// Measured is the report with means over all attempts, for the operator: the measures of
// candidates that did not pass, which tell how near each came, are known.
func (r *Report) Measured() *Report {
	shown := *r
	shown.Section = r.measured()
	if r.Judged != nil {
		judged := r.Judged.measured()
		shown.Judged = &judged
	}
	return &shown
}

func (s Section) measured() Section {
	s.Measures = means(s.tasks, func(*Attempt) bool { return true })
	for i := range s.Measures {
		s.Measures[i].Of = ofAll
	}
	return s
}

// measures shows the means over all attempts: those over passes say little.
func (t *table) measures(s *Section) {
	if len(s.Measures) == 0 || s.Measures[0].Of != ofAll {
		return
	}
	t.Line("\n%s\tMEAN\tATTEMPTS", t.title("MEASURE", s))
	for _, m := range s.Measures {
		t.Line("  %s\t%.4f\t%d of %d", console.Cell(m.Name, maxWord), m.Value, m.Attempts, s.Total.Attempts)
	}
}
