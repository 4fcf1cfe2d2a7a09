package validate

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/console"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/verdict"
)

// Report prints results: as JSON lines as they arrive, or as one table in row
// order at the end.
type Report struct {
	w    io.Writer
	json bool
	at   func(line int) string // the place of a row
	all  []Result
	err  error

	total, bad, skipped int
	failed              int // of bad, those that could not be checked
	baselines           Baselines
}

// NewReport makes a report about rows; at names the place of one by its line.
func NewReport(w io.Writer, asJSON bool, at func(line int) string, reg family.Registry) *Report {
	return &Report{w: w, json: asJSON, at: at, baselines: Baselines{Families: reg}}
}

// Add adds a result.
func (r *Report) Add(v Result) {
	r.total++
	r.baselines.Add(v)
	switch {
	case v.Skipped != "":
		r.skipped++
	case !v.OK():
		r.bad++
		if v.infrastructure() {
			r.failed++
		}
	}
	if !r.json {
		r.all = append(r.all, v)
		return
	}
	b, err := json.Marshal(struct {
		Result
		OK     bool  `json:"ok"`
		TookMS int64 `json:"took_ms"`
	}{v, v.OK(), v.Took.Milliseconds()})
	if err == nil {
		_, err = fmt.Fprintf(r.w, "%s\n", redact.ASCII(b))
	}
	r.err = errors.Join(r.err, err)
}

// Finish prints what is left. The first error says that checks failed, the
// second that an answer that ignores the question beats chance: [ErrBeaten].
func (r *Report) Finish() (failed, beaten error) {
	return r.finish(), printBaselines(r.w, r.json, r.baselines.Results())
}

func (r *Report) finish() error {
	sort.Slice(r.all, func(i, j int) bool { return r.all[i].Line < r.all[j].Line })
	if !r.json {
		r.err = errors.Join(r.err, r.table())
	}
	if r.err != nil {
		return fmt.Errorf("printing the validation: %w", r.err)
	}
	if r.bad > 0 && r.bad == r.failed {
		return fault.As(fault.Infrastructure, fmt.Errorf("%d of %d tasks could not be checked: repeat the command", r.bad, r.total))
	}
	if r.bad > 0 {
		return fault.As(fault.Problems, fmt.Errorf("%d of %d tasks have problems", r.bad, r.total))
	}
	return nil
}

func (r *Report) table() error {
	w := console.NewTable(r.w)
	checks := []string{CheckReference, CheckEmpty, CheckGarbage}
	if slices.ContainsFunc(r.all, func(v Result) bool {
		return slices.ContainsFunc(v.Checks, func(c Check) bool { return c.Candidate == CheckStarter })
	}) {
		checks = append(checks, CheckStarter)
	}
	w.Line("TASK\tFAMILY\t%s\tRESULT", strings.ToUpper(strings.Join(checks, "\t")))
	for _, v := range r.all {
		cells := map[string]string{}
		for _, c := range v.Checks {
			cells[c.Candidate] = cell(c)
		}
		row := redact.Quote(v.TaskID) + "\t" + redact.Quote(v.Family)
		for _, check := range checks {
			row += "\t" + cmp.Or(cells[check], "-")
		}
		w.Line("%s\t%s", row, result(v))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	r.explain()
	_, err := fmt.Fprintf(r.w, "\n%s: %d valid, %d with problems, %d skipped\n",
		console.Plural(r.total, "task"), r.total-r.bad-r.skipped, r.bad, r.skipped)
	return err
}

// explain says, with the row's place, what is wrong with each problem, and
// what tests are weak.
func (r *Report) explain() {
	sep := "\n"
	for _, v := range r.all {
		for _, c := range v.Checks {
			if c.OK {
				continue
			}
			what := c.Message
			if c.Outcome == verdict.Passed {
				what = "it passes and must fail"
			}
			fmt.Fprintf(r.w, "%s%s: %s: %s candidate: %s\n", sep, r.at(v.Line), redact.Quote(v.TaskID), c.Candidate, redact.Escape(what))
			for _, line := range c.Why {
				fmt.Fprintf(r.w, "    %s\n", redact.Escape(line))
			}
			sep = ""
		}
		if v.Proposal != "" {
			fmt.Fprintf(r.w, "%s%s: %s: proposal: %s\n", sep, r.at(v.Line), redact.Quote(v.TaskID), v.Proposal)
			sep = ""
		}
		for _, what := range v.Weak {
			fmt.Fprintf(r.w, "%s%s: %s: warning: %s\n",
				sep, r.at(v.Line), redact.Quote(v.TaskID), redact.Escape(what))
			sep = ""
		}
	}
}

func cell(c Check) string {
	got := "fails"
	switch {
	case c.Tried > 1:
		got = fmt.Sprintf("passes %d of %d", c.Passed, c.Tried)
	case c.Outcome == verdict.Passed:
		got = "passes"
	}
	if !c.OK {
		got = strings.ToUpper(got)
		if c.Reason != "" {
			got += " (" + string(c.Reason) + ")"
		}
	}
	return got
}

func result(v Result) string {
	switch {
	case v.Skipped != "":
		return "skipped: " + string(v.Skipped)
	case v.OK():
		return "ok"
	}
	return "PROBLEM"
}

// ErrBeaten reports that a baseline beats chance.
var ErrBeaten = errors.New("answers that ignore the question beat chance")

// printBaselines prints, by family, which baseline passes most rows, and
// every one that beats chance. Its error is ErrBeaten if there is one.
func printBaselines(w io.Writer, asJSON bool, all []FamilyBaselines) error {
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
			if asJSON || i > 0 && !r.Beats && (!r.shown || f.Results[0].Passed == 0) {
				continue
			}
			if _, err := fmt.Fprintln(w, baselineLine(f, r, i == 0)); err != nil {
				return fmt.Errorf("printing the baselines: %w", err)
			}
		}
	}
	if beaten {
		return ErrBeaten
	}
	return nil
}

// baselineLine describes one baseline.
func baselineLine(f FamilyBaselines, r BaselineResult, best bool) string {
	what := "also "
	switch {
	case best && r.Passed == 0:
		return f.Family + ": no baseline passes a row"
	case best:
		what = "the best baseline is "
	}
	s := fmt.Sprintf("%s: %s%q, which passes %d of %s (%s)", f.Family, what, r.Name, r.Passed, console.Plural(r.Tried, "row"), percent(r.Passed, r.Tried))
	chance := fmt.Sprintf("%.1f %%", 100*r.Chance)
	if f.KnownChance {
		s += "; chance passes " + chance
	} else {
		s += "; chance is not known and assumed to be " + chance
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
