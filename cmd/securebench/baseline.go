package main

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/go-json-experiment/json"

	"securebench/internal/pipeline"
)

// errBeaten says that blind answers do better than chance.
var errBeaten = errors.New("answers that understand nothing beat chance")

// printBaselines tells, by family, which blind answer passes most rows, and
// every one that beats chance. Its error is errBeaten if there is one.
func printBaselines(w io.Writer, asJSON bool, all []pipeline.FamilyBaselines) error {
	beaten := false
	for _, f := range all {
		if asJSON {
			b, err := json.Marshal(f)
			if err == nil {
				_, err = fmt.Fprintf(w, "%s\n", b)
			}
			if err != nil {
				return fmt.Errorf("printing the baselines: %w", err)
			}
		}
		for i, r := range f.Results {
			beaten = beaten || r.Beats
			if asJSON || i > 0 && !r.Beats {
				continue
			}
			if _, err := fmt.Fprintln(w, baselineLine(f, r, i == 0)); err != nil {
				return fmt.Errorf("printing the baselines: %w", err)
			}
		}
	}
	if beaten {
		return errBeaten
	}
	return nil
}

// baselineLine is what is said of one baseline.
func baselineLine(f pipeline.FamilyBaselines, r pipeline.BaselineResult, best bool) string {
	what := "also "
	switch {
	case best && r.Passed == 0:
		return f.Family + ": no blind answer passes a row"
	case best:
		what = "the best blind answer is "
	}
	s := fmt.Sprintf("%s: %s%q, which passes %d of %s (%s)", f.Family, what, r.Name, r.Passed, plural(r.Tried, "row"), percent(r.Passed, r.Tried))
	chance := fmt.Sprintf("%.1f %%", 100*r.Chance)
	if f.KnownChance {
		s += "; chance passes " + chance
	} else {
		s += "; chance is not known and taken for " + chance
	}
	if r.Beats {
		s += fmt.Sprintf(". IT BEATS CHANCE (p %s)", likelihood(r.P))
	}
	return s
}

func percent(n, of int) string {
	return fmt.Sprintf("%.1f %%", 100*float64(n)/math.Max(float64(of), 1))
}

// likelihood prints a p-value.
func likelihood(p float64) string {
	if p < 1e-12 {
		return "below 1e-12"
	}
	return fmt.Sprintf("= %.2g", p)
}
