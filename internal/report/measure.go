package report

import (
	"maps"
	"slices"

	"securebench/internal/console"
)

// mean is the mean of a measure over the attempts that have it.
type mean struct {
	name     string
	attempts int
	value    float64
}

// means returns the means of measures, in the order of their names. A verdict of which
// only passes show a measure has none: their mean would say little.
func means(attempts []Attempt) (out []mean) {
	by := map[string]*mean{}
	for _, a := range attempts {
		if a.Measure == nil || a.Outcome == repeated || a.Outcome == inconsistent {
			continue
		}
		m := by[a.Measure.Name]
		if m == nil {
			m = &mean{name: a.Measure.Name}
			by[m.name] = m
		}
		m.attempts++
		m.value += a.Measure.Value
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		m := *by[name]
		m.value /= float64(m.attempts)
		out = append(out, m)
	}
	return out
}

// Measured says that measures of candidates that did not pass are known as well.
func (r *Report) Measured() *Report {
	shown := *r
	shown.showMeasures = true
	return &shown
}

// measures shows the means.
func (t *table) measures() {
	if !t.r.showMeasures || len(t.r.measures) == 0 {
		return
	}
	t.Line("\nMEASURE\tMEAN\tATTEMPTS")
	for _, m := range t.r.measures {
		t.Line("  %s\t%.4f\t%d of %d", console.Cell(m.name, maxWord), m.value, m.attempts, t.r.Total.Attempts)
	}
}
