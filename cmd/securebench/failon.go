package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"securebench/internal/compare"
	"securebench/internal/console"
	"securebench/internal/earlier"
	"securebench/internal/evidence"
	"securebench/internal/fault"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/verdict"
	"securebench/internal/workload"
)

// wantFailOn says what a condition may be.
const wantFailOn = "failed, pending, any, rate<0.8, judged-rate<0.8, truncated>1%, empty>1%, refused>1% or regression:RUN"

// failConditions are the conditions of --fail-on that the operator gave.
type failConditions struct {
	all     []failCondition
	allowed []compare.Kind // differences to the runs that they name
}

type failCondition struct {
	text   string
	below  float64       // the rate, for "rate<" and "judged-rate<"
	basis  verdict.Basis // of that rate
	share  string        // of attempts, for "truncated>" and its like
	above  float64       // the share
	run    string        // for "regression:"
	before *earlier.Run
}

// parseFailOn reads conditions.
func parseFailOn(words []string) (*failConditions, error) {
	c := &failConditions{}
	for _, word := range words {
		next := failCondition{text: word}
		basis, rate, isRate := cutRate(word)
		share, most, isShare := strings.Cut(word, ">")
		name, isRegression := strings.CutPrefix(word, "regression:")
		switch {
		case isRate:
			var ok bool
			next.basis = basis
			if next.below, ok = parseRate(rate); !ok {
				return nil, fault.As(fault.Usage, fmt.Errorf("--fail-on %s: want a rate above 0 and up to 1, such as rate<0.8 or rate<80%%", redact.Quote(word)))
			}
		case isShare && slices.Contains(answerShares(), share):
			var ok bool
			if next.share, next.above, ok = parseShare(share, most); !ok {
				return nil, fault.As(fault.Usage, fmt.Errorf("--fail-on %s: want a share from 0 and below 1, such as %s>0.01 or %s>1%%", redact.Quote(word), share, share))
			}
		case isRegression && name != "":
			next.run = name
		case word != "failed" && word != "pending" && word != "any":
			return nil, fault.As(fault.Usage, fmt.Errorf("--fail-on is %q, want %s", word, wantFailOn))
		}
		c.all = append(c.all, next)
	}
	return c, nil
}

// judgedRate begins a condition on the rate of what a judge decides on, computedRate one on
// all others: no condition is about both together.
const (
	computedRate = "rate<"
	judgedRate   = "judged-rate<"
)

// cutRate reads which rate a condition is about.
func cutRate(word string) (b verdict.Basis, rate string, ok bool) {
	if rate, ok = strings.CutPrefix(word, judgedRate); ok {
		return verdict.Judged, rate, true
	}
	rate, ok = strings.CutPrefix(word, computedRate)
	return verdict.Computed, rate, ok
}

// parseRate reads a number, or one in percent.
func parseRate(s string) (float64, bool) {
	number, percent := strings.CutSuffix(s, "%")
	x, err := strconv.ParseFloat(number, 64)
	if percent {
		x /= 100
	}
	return x, err == nil && x > 0 && x <= 1
}

// answerShares are the words for what answers have that a score should be read with.
func answerShares() []string { return []string{"truncated", "empty", "refused"} }

// parseShare reads the largest share of attempts that a condition lets pass.
func parseShare(name, most string) (string, float64, bool) {
	if strings.TrimRight(strings.TrimSuffix(most, "%"), "0.") == "" && strings.Contains(most, "0") {
		return name, 0, true
	}
	x, ok := parseRate(most)
	return name, x, ok && x < 1
}

// counted is how many attempts a condition on a share is about.
func (one failCondition) counted(a verdict.Answers) int {
	return map[string]int{"truncated": a.Truncated, "empty": a.Empty, "refused": a.Refused}[one.share]
}

// Load reads the runs that conditions name. They must verify, and be signed by a
// key that counts.
func (c *failConditions) Load(ctx context.Context, trust evidence.Trust) (err error) {
	for i := range c.all {
		if one := &c.all[i]; one.run != "" {
			if one.before, err = earlier.Open(ctx, one.run, trust); err != nil {
				return fmt.Errorf("--fail-on: %w", err)
			}
		}
	}
	return nil
}

// Accept refuses a pack that cannot be compared with the runs that conditions name:
// they are of another, or lack some of the tasks.
func (c *failConditions) Accept(w *workload.Workload) error {
	for _, one := range c.all {
		if err := one.about(len(w.Rows), w.Judged()); err != nil {
			return err
		}
		if one.before == nil {
			continue
		}
		name := redact.Quote(one.run)
		if !one.before.Of(w.Manifest, w.Digests, w.Public) {
			return fault.As(fault.Refused, fmt.Errorf("%s is a run of another pack: nothing can be compared with it", name))
		}
		has := map[string]bool{}
		for _, t := range one.before.Tasks {
			has[t.ID] = true
		}
		lacking := slices.DeleteFunc(slices.Clone(w.Rows), func(row workload.Row) bool { return has[row.ID] })
		if n := len(lacking); n > 0 {
			return fault.As(fault.Refused, fmt.Errorf("%s lacks %d of the tasks of this run, such as %s: choose the rows that it has", name, n, redact.Quote(lacking[0].ID)))
		}
	}
	return nil
}

// about refuses a condition on a rate that no task of the run has.
func (one failCondition) about(tasks, judged int) error {
	switch {
	case one.below == 0 || tasks == 0:
	case one.basis == verdict.Computed && judged == tasks:
		return fault.Errorf(fault.Refused, "--fail-on %s: a judge decides on all %s: give %s", redact.Quote(one.text), console.Plural(tasks, "task"), judgedRate)
	case one.basis == verdict.Judged && judged == 0:
		return fault.Errorf(fault.Refused, "--fail-on %s: no task asks for a judge: give %s", redact.Quote(one.text), computedRate)
	}
	return nil
}

// allowable are the differences to a run that is named that may be allowed.
func allowable() []compare.Kind {
	return []compare.Kind{compare.Verifier, compare.Images, compare.Limits, compare.Judge}
}

// Allow lets runs be compared although what they were given differs in this.
func (c *failConditions) Allow(words []string) (err error) {
	regression := slices.ContainsFunc(c.all, func(one failCondition) bool { return one.run != "" })
	if len(words) > 0 && !regression {
		return fault.As(fault.Usage, errors.New("--allow needs --fail-on regression:RUN"))
	}
	c.allowed, err = compare.ParseKinds(words, allowable())
	return fault.As(fault.Usage, err)
}

// Given refuses a run that was not given the same as the runs that conditions name:
// by another build, with other images or limits. name is what it is called, and m
// what is known of its manifest before it begins.
func (c *failConditions) Given(name string, m record.Manifest) error {
	for _, one := range c.all {
		if one.before == nil {
			continue
		}
		differences := compare.Differences(one.before, &earlier.Run{Name: name, Manifest: m})
		differences = slices.DeleteFunc(differences, func(d compare.Difference) bool {
			// Accept has compared the tasks.
			return d.Kind == compare.Tasks || slices.Contains(c.allowed, d.Kind)
		})
		if len(differences) > 0 {
			return fault.As(fault.Refused, (&compare.DifferentError{Differences: differences}).Explain())
		}
	}
	return nil
}

// finished counts the attempts of a finished run.
type finished struct {
	Planned pipeline.Planned
	Counts  verdict.ByBasis[verdict.Counts]
	Answers verdict.Answers
	// Read returns the tasks of the run.
	Read func() (*earlier.Run, error)
}

// Check returns an error for each condition that is met.
func (c *failConditions) Check(r finished) error {
	var met []error
	add := func(one failCondition, format string, args ...any) {
		met = append(met, fmt.Errorf("--fail-on %s: %s", redact.Quote(one.text), fmt.Sprintf(format, args...)))
	}
	for _, one := range c.all {
		switch {
		case one.before != nil:
			run, err := r.Read()
			if err != nil {
				return err
			}
			if worse := regressionsOf(one.before, run); len(worse) > 0 {
				add(one, "in %d of %d tasks, a smaller share of attempts passed than there: %s", len(worse), len(run.Tasks), redact.QuoteFew(worse))
			}
		case one.share != "":
			if n := one.counted(r.Answers); float64(n) > one.above*float64(r.Planned.All) {
				add(one, "%d of %d attempts", n, r.Planned.All)
			}
		case one.below > 0:
			passed, planned := r.Counts.Of(one.basis).Passed, r.Planned.Of(one.basis)
			if planned == 0 {
				add(one, "there is no task")
			} else if rate := float64(passed) / float64(planned); rate < one.below {
				add(one, "the rate is %.4g, %d of %d", rate, passed, planned)
			}
		default:
			if found := one.found(&r.Counts); found != "" {
				add(one, "%s", found)
			}
		}
	}
	return fault.As(fault.Threshold, errors.Join(met...))
}

// found says how many attempts failed or are pending, by basis, "" if the condition is
// about none of them.
func (one failCondition) found(counts *verdict.ByBasis[verdict.Counts]) string {
	var parts []string
	met := false
	for _, basis := range verdict.Bases() {
		n := counts.Of(basis)
		pending := n.Pending + n.Infrastructure
		met = met || one.text != "pending" && n.Failed > 0 || one.text != "failed" && pending > 0
		if n.Failed == 0 && pending == 0 {
			continue
		}
		part := fmt.Sprintf("%d failed, %d pending", n.Failed, pending)
		if basis == verdict.Judged {
			part = basis.String() + ": " + part
		}
		parts = append(parts, part)
	}
	if !met {
		return ""
	}
	return strings.Join(parts, "; ")
}

// regressionsOf are the ids of the tasks that passed a smaller share of attempts.
func regressionsOf(before, after *earlier.Run) (out []string) {
	was := map[string]float64{}
	for _, t := range before.Tasks {
		was[t.ID] = t.Share()
	}
	for _, t := range after.Tasks {
		if t.Share() < was[t.ID] {
			out = append(out, t.ID)
		}
	}
	return out
}
