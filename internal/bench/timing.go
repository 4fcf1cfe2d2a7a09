package bench

import (
	"context"
	"math"
	"slices"
	"time"
)

// budget bounds how often something is measured.
type budget struct {
	min, max int
	time     time.Duration
}

// repeat calls f once to warm up, and then within the budget.
func (b budget) repeat(ctx context.Context, f func(context.Context) error) error {
	if err := f(ctx); err != nil {
		return err
	}
	start := time.Now()
	for n := 0; n < b.min || n < b.max && time.Since(start) < b.time; n++ {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

// series collects durations by name, in the order of first use.
type series struct {
	names []string
	took  map[string][]time.Duration
}

func (s *series) add(name string, d time.Duration) {
	if s.took == nil {
		s.took = map[string][]time.Duration{}
	}
	if _, known := s.took[name]; !known {
		s.names = append(s.names, name)
	}
	s.took[name] = append(s.took[name], d)
}

// timings returns a timing for each name, without the first sample: it warms up.
func (s *series) timings() (out []Timing) {
	for _, name := range s.names {
		out = append(out, timing(name, s.took[name][1:]))
	}
	return out
}

func timing(name string, took []time.Duration) Timing {
	sorted := slices.Sorted(slices.Values(took))
	return Timing{Name: name, Samples: len(took), Min: ms(quantile(sorted, 0)), P50: ms(quantile(sorted, 0.5)),
		P99: ms(quantile(sorted, 0.99)), Max: ms(quantile(sorted, 1))}
}

// quantile returns the smallest of the sorted values below or at which a share
// of q of them is; 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// ms returns milliseconds, rounded to microseconds.
func ms(d time.Duration) float64 { return round(d.Seconds()*1000, 3) }

// round rounds to a number of decimal places, so that results can be read.
func round(x float64, places int) float64 {
	unit := math.Pow10(places)
	return math.Round(x*unit) / unit
}

// per returns a rate or a ratio, 0 if there is nothing to divide by.
func per(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return round(a/b, 3)
}
