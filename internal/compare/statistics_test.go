package compare

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/console"
	"securebench/internal/report"
)

// golden is what testdata/golden.py found with scipy.
type golden struct {
	Difference float64
	Counts     *[4]int
	Wilson     *[2][2]float64
	Exact      *float64 `json:"exact_p"`
	Mid        *float64 `json:"mid_p"`
	Newcombe   *[2]float64
	Bootstrap  *[2]float64
	T          *struct {
		StandardError float64 `json:"standard_error"`
		Statistic, P  float64
		Interval      [2]float64
	}
}

// TestScipy compares every figure with scipy's, on recorded answers of GSM8K's
// four models and on made-up pairs with corner cases, several attempts and
// clusters.
func TestScipy(t *testing.T) {
	t.Parallel()
	var cases map[string]struct {
		Before, After []float64
		Clusters      []int
	}
	var want map[string]golden
	readJSON(t, "pairs.json", &cases)
	readJSON(t, "scipy.json", &want)
	if len(cases) < 15 || len(cases) != len(want) {
		t.Fatalf("%d pairs and %d results", len(cases), len(want))
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := want[name]
			p := &pairs{before: c.Before, after: c.After, groups: c.Clusters, binary: w.Counts != nil}
			e := p.estimate(Options{Resamples: 10000, Seed: 1})
			near(t, "difference", e.Difference, w.Difference, 1e-6)
			if w.Counts != nil {
				got := [4]int{e.Counts.Both, e.Counts.Gained, e.Counts.Lost, e.Counts.Neither}
				if got != *w.Counts {
					t.Errorf("counts %v, want %v", got, *w.Counts)
				}
				for i, rate := range []float64{e.Before, e.After} {
					in := report.Wilson(rate, len(c.Before))
					nearInterval(t, "Wilson", &in, w.Wilson[i], 1e-6)
				}
			}
			if w.Exact != nil {
				relative(t, "exact p", e.McNemar.Exact, *w.Exact)
				relative(t, "mid-p", e.McNemar.Mid, *w.Mid)
				relative(t, "p", *e.P, *w.Exact)
				nearInterval(t, "Newcombe", e.Interval, *w.Newcombe, 2e-6)
			}
			if w.Bootstrap == nil != (e.Bootstrap == nil) {
				t.Errorf("bootstrap %v, want %v", e.Bootstrap, w.Bootstrap)
			} else if w.Bootstrap != nil {
				// Both draw at random; a bound is a multiple of 1/n.
				nearInterval(t, "bootstrap", e.Bootstrap, *w.Bootstrap, 0.002+1.01/float64(len(c.Before)))
			}
			if w.T == nil != (e.T == nil) {
				t.Fatalf("t %v, want %v", e.T, w.T)
			}
			if w.T != nil {
				relative(t, "standard error", e.T.StandardError, w.T.StandardError)
				relative(t, "t", e.T.Statistic, w.T.Statistic)
				relative(t, "p of t", e.T.P, w.T.P)
				if w.Exact == nil {
					nearInterval(t, "interval", e.Interval, [2]float64{max(w.T.Interval[0], -1), min(w.T.Interval[1], 1)}, 2e-6)
				}
			}
		})
	}
}

func readJSON(t *testing.T, name string, v any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// relative compares figures that were cut to six significant digits.
func relative(t *testing.T, what string, got, want float64) {
	t.Helper()
	near(t, what, got, want, 5.1e-6*math.Abs(want)+1e-300)
}

func nearInterval(t *testing.T, what string, got *Interval, want [2]float64, tolerance float64) {
	t.Helper()
	if got == nil {
		t.Errorf("no %s interval", what)
		return
	}
	near(t, what+", lower bound", got[0], want[0], tolerance)
	near(t, what+", upper bound", got[1], want[1], tolerance)
}

// TestBootstrapSeed: the draws follow from the seed, in the documented way.
func TestBootstrapSeed(t *testing.T) {
	t.Parallel()
	p := &pairs{binary: true}
	for i := range 50 {
		p.before, p.after = append(p.before, float64(i%2)), append(p.after, float64(i%3/2))
	}
	first := *p.estimate(Options{Resamples: 200, Seed: 1}).Bootstrap
	if again := *p.estimate(Options{Resamples: 200, Seed: 1}).Bootstrap; again != first {
		t.Errorf("the same seed gives %v and %v", first, again)
	}
	if other := *p.estimate(Options{Resamples: 200, Seed: 2}).Bootstrap; other == first {
		t.Error("another seed gives the same interval")
	}
	if want := (Interval{-0.36, 0.04}); first != want {
		t.Errorf("seed 1 gives %v, on other machines %v", first, want)
	}
}

// TestConstantDifference: where every task changed equally, rounding is no standard
// error, and what is said is why there is no test. Tasks that differ have one.
func TestConstantDifference(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after []float64
		groups        []int
		say           string // "" for a test
	}{
		"three of five":         {[]float64{0, 0, 0}, []float64{0.2, 0.2, 0.2}, nil, "every task changed equally"},
		"two":                   {[]float64{0, 0.2}, []float64{0.2, 0.4}, nil, "every task changed equally"},
		"other rates":           {[]float64{0.1, 0.3, 0.6, 0.7}, []float64{0.2, 0.4, 0.7, 0.8}, nil, "every task changed equally"},
		"all gained, clusters":  {[]float64{0, 0, 0, 0}, []float64{1, 1, 1, 1}, []int{0, 0, 1, 2}, "every task changed equally"},
		"clusters of five":      {[]float64{0, 0, 0, 0}, []float64{0.2, 0.2, 0.2, 0.2}, []int{0, 0, 0, 1}, "every task changed equally"},
		"equal clusters":        {[]float64{0, 1, 0, 1}, []float64{1, 0, 1, 0}, []int{0, 0, 1, 1}, "every cluster changed equally"},
		"one task":              {[]float64{0}, []float64{0.2}, nil, "one task"},
		"one cluster":           {[]float64{0, 1}, []float64{1, 1}, []int{0, 0}, "one cluster"},
		"nothing":               {[]float64{0.2, 0.4}, []float64{0.2, 0.4}, nil, "nothing varies"},
		"one of them otherwise": {[]float64{0, 0, 0}, []float64{0.2, 0.2, 0.4}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pairs{before: c.before, after: c.after, groups: c.groups}
			e := p.estimate(Options{Resamples: 10, Seed: 1})
			tested := e.T != nil && e.P != nil && e.Interval != nil
			if e.untested != c.say || tested != (c.say == "") || !tested && (e.T != nil || e.P != nil || e.Interval != nil) {
				t.Errorf("%+v, want %q", e, c.say)
			}
			near(t, "difference", e.Difference, mean(c.after)-mean(c.before), 1e-6)
			var out strings.Builder
			table := console.NewTable(&out)
			Comparison{Estimate: e}.figures(table, &Report{}, &Section{})
			if err := table.Flush(); err != nil || c.say != "" && !strings.Contains(out.String(), "none: "+c.say+"\n") {
				t.Errorf("%v: %s", err, out.String())
			}
		})
	}
}
