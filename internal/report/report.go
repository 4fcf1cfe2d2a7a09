// Package report is what a finished run says: counts, rates with their
// intervals, and the tasks that did not pass, as a table, JSON or CSV.
//
// Records come from a file that anybody may have written. So a pass counts
// only where a record says so without contradicting itself, what was planned
// and is not there counts against the run, and every text is escaped.
package report

import (
	"maps"
	"slices"
	"strings"
)

// Run is what a report says of the run as a whole.
type Run struct {
	// Verified is set when the records' evidence holds; if not, the table and
	// the JSON say so first, the CSV in every row.
	Verified bool `json:"verified"`
	// Evidence is one line: who signed, or what is wrong.
	Evidence    string `json:"evidence"`
	RunID       string `json:"run_id"`
	Agent       string `json:"agent"`
	PackID      string `json:"pack_id"`
	PackVersion int64  `json:"pack_version"`
	// PlannedTasks below 0 count as 0, PlannedAttempts (per task) below 1 as
	// 1, LeftOut below 0 as 0; more than 2^30 of each count as 2^30.
	PlannedTasks    int `json:"planned_tasks"`
	PlannedAttempts int `json:"planned_attempts"`
	// LeftOut is how many rows of the pack were not planned.
	LeftOut int      `json:"left_out"`
	Labels  []string `json:"labels"` // of the run, not of its records
}

// Attempt is what a report needs of one record. The fields are named and
// valued as in docs/records.md.
type Attempt struct {
	TaskID string
	Index  int // position of the row
	// Attempt counts from 1. Only one record of an attempt can pass.
	Attempt     int
	Family      string
	Status      string
	Outcome     string
	Reason      string
	Containment string
	Labels      []string
	Passed      bool
	TotalMS     int64  // milliseconds
	Candidate   string // digest
}

// Report is a run's result. Rates are fractions from 0 to 1, rounded to six
// decimals: the same records give the same bytes on every machine.
type Report struct {
	Run   Run   `json:"run"`
	Total Total `json:"total"`
	// Families are in alphabetical order. A missing attempt belongs to the
	// family of its task's first record.
	Families []Group `json:"families"`
	// Profiles are in the order passive, split, shared, others. A missing
	// attempt has no profile: it stands under the empty name, at the end.
	Profiles []Group `json:"profiles"`
	// Outcomes has all of docs/records.md in its order, then the report's
	// own, then unknown ones in alphabetical order.
	Outcomes []Count `json:"outcomes"`
	Labels   []Count `json:"labels"` // attempts by label, in alphabetical order
	// PassK is empty when one attempt per task was planned.
	PassK   []PassK `json:"pass_k"`
	Slowest []Slow  `json:"slowest"` // at most five
	// Unpassed are the tasks of which not every attempt passed, in row order.
	Unpassed []Unpassed `json:"not_passed"`
	// TasksMissing are not in Unpassed: without a record, nothing names them.
	TasksMissing int `json:"tasks_missing"`

	attempts []Attempt // in row order, as counted
}

// Tally is what became of attempts. Attempts is the denominator, and the sum
// of the five after it.
type Tally struct {
	Tasks    int `json:"tasks"`
	Attempts int `json:"attempts"`
	Passed   int `json:"passed"`
	Failed   int `json:"failed"`  // and whatever else is final and no pass
	Pending  int `json:"pending"` // nobody scored it
	// Infrastructure failed for the engine's or this program's own fault.
	Infrastructure int `json:"infrastructure"`
	Missing        int `json:"missing"` // planned, without a record
	// PassRate is the mean over tasks of a task's share of passes; 0 of none.
	PassRate float64 `json:"pass_rate"`
	// Interval is the rate's 95 % Wilson score interval over tasks.
	Interval Interval `json:"interval_95"`
}

// Total is the tally of all attempts. As no total mixes containment profiles
// silently, it says how many attempts ran under each.
type Total struct {
	Tally
	Containment Mix `json:"containment"`
}

// Mix is how many attempts ran under each containment profile.
type Mix struct {
	Passive int `json:"passive"`
	Split   int `json:"split"`
	Shared  int `json:"shared"`
	Other   int `json:"other"` // a profile that this program does not know, or none
	Missing int `json:"missing"`
}

// Group is the tally of one family or profile. The empty name is for what has
// none, such as attempts without a record.
type Group struct {
	Name string `json:"name"`
	Tally
}

// Count is how many attempts have an outcome or a label.
type Count struct {
	Name     string `json:"name"`
	Attempts int    `json:"attempts"`
}

// PassK estimates what K attempts at a task achieve, as a mean over tasks.
type PassK struct {
	K   int     `json:"k"`
	Any float64 `json:"pass_at_k"`  // pass@k: at least one passes
	All float64 `json:"pass_hat_k"` // pass^k: every one passes
}

// Slow is an attempt that took long.
type Slow struct {
	TaskID  string `json:"task_id"`
	Attempt int    `json:"attempt"`
	TotalMS int64  `json:"total_ms"`
	Outcome string `json:"outcome"`
}

// Unpassed is a task of which not every attempt passed.
type Unpassed struct {
	TaskID   string    `json:"task_id"`
	Index    int       `json:"index"`
	Attempts int       `json:"attempts"`
	Passed   int       `json:"passed"`
	Missing  int       `json:"missing"`
	Failures []Failure `json:"failures"` // the recorded attempts that did not pass
}

// Failure is a recorded attempt that did not pass.
type Failure struct {
	Attempt int    `json:"attempt"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
}

// The outcomes of docs/records.md that the report treats differently.
const (
	passed         = "passed"
	pending        = "pending"
	infrastructure = "infrastructure"
)

// The report's own outcomes, for what no honest record says.
const (
	missing = "missing" // there is no record
	// inconsistent records claim a pass in one field and deny it in another,
	// or claim one of these outcomes.
	inconsistent = "inconsistent"
	// repeated records are further ones of the same attempt.
	repeated = "repeated"
)

// knownOutcomes lists the outcomes in the order in which they are shown.
func knownOutcomes() []string {
	return []string{passed, "failed", "no_candidate", "agent_timeout", "verifier_timeout", "limit",
		"tampering", pending, infrastructure, missing, inconsistent, repeated}
}

// The containment profiles.
const (
	passive = "passive"
	split   = "split"
	shared  = "shared"
)

// Builder collects the records of a run.
type Builder struct {
	run      Run
	attempts []Attempt
	texts    map[string]string
}

// NewBuilder begins the report of run.
func NewBuilder(run Run) *Builder {
	const most = 1 << 30 // the product of two fits an int
	run.PlannedTasks = min(max(run.PlannedTasks, 0), most)
	run.PlannedAttempts = min(max(run.PlannedAttempts, 1), most)
	run.LeftOut = min(max(run.LeftOut, 0), most)
	run.Labels = slices.Clone(run.Labels)
	return &Builder{run: run, texts: map[string]string{}}
}

// Add counts one record. Nothing of a is kept but short copies.
func (b *Builder) Add(a Attempt) {
	for _, s := range []*string{&a.TaskID, &a.Family, &a.Status, &a.Outcome, &a.Reason, &a.Containment} {
		*s = b.keep(*s)
	}
	a.Candidate = strings.Clone(a.Candidate)
	labels := a.Labels
	a.Labels = nil
	for _, l := range labels {
		a.Labels = append(a.Labels, b.keep(l))
	}
	if claim := a.Outcome == passed; a.Passed != claim || (a.Status == passed) != claim || own(a.Outcome) {
		a.Passed, a.Outcome = false, inconsistent
	}
	b.attempts = append(b.attempts, a)
}

func own(outcome string) bool {
	return outcome == missing || outcome == inconsistent || outcome == repeated
}

// keep returns a copy of s, the same one for equal texts: most of them repeat
// in every record, and s may be a small part of a large buffer.
func (b *Builder) keep(s string) string {
	if kept, ok := b.texts[s]; ok {
		return kept
	}
	s = strings.Clone(s)
	b.texts[s] = s
	return s
}

// Report sums up what was added so far.
func (b *Builder) Report() *Report {
	attempts := slices.Clone(b.attempts)
	slices.SortStableFunc(attempts, rowOrder)
	tasks := byTask(attempts, b.run.PlannedAttempts)
	r := &Report{
		Run:          b.run,
		Labels:       labelCounts(attempts),
		PassK:        passK(tasks, b.run),
		Slowest:      slowest(attempts),
		Unpassed:     unpassed(tasks),
		TasksMissing: max(b.run.PlannedTasks-len(tasks), 0),
		attempts:     attempts,
	}
	r.sum(tasks)
	r.Outcomes = outcomeCounts(attempts, r.Total.Missing)
	return r
}

// sum fills in the tallies.
func (r *Report) sum(tasks []*task) {
	var total sums
	families, profiles := map[string]*sums{}, map[string]*sums{}
	for _, t := range tasks {
		total.add(t.tally())
		addTask(families, t, func(a *Attempt) string { return a.Family }, t.attempts[0].Family)
		addTask(profiles, t, func(a *Attempt) string { return a.Containment }, "")
	}
	if r.TasksMissing > 0 {
		for _, s := range []*sums{&total, group(families, ""), group(profiles, "")} {
			s.addMissing(r.TasksMissing, r.Run.PlannedAttempts)
		}
	}
	r.Total = Total{Tally: total.tally(), Containment: mix(profiles)}
	r.Families, r.Profiles = groups(families), groups(profiles, passive, split, shared)
}

func mix(profiles map[string]*sums) Mix {
	var m Mix
	for name, s := range profiles {
		m.Missing += s.Missing
		n := s.Attempts - s.Missing
		switch name {
		case passive:
			m.Passive += n
		case split:
			m.Split += n
		case shared:
			m.Shared += n
		default:
			m.Other += n
		}
	}
	return m
}

func labelCounts(attempts []Attempt) []Count {
	by := map[string]int{}
	for _, a := range attempts {
		for i, l := range a.Labels {
			if !slices.Contains(a.Labels[:i], l) {
				by[l]++
			}
		}
	}
	return counts(by, slices.Sorted(maps.Keys(by)))
}

func outcomeCounts(attempts []Attempt, without int) []Count {
	by := map[string]int{missing: without}
	for _, a := range attempts {
		by[a.Outcome]++
	}
	return counts(by, ordered(by, knownOutcomes()...))
}

func counts(by map[string]int, names []string) []Count {
	out := make([]Count, 0, len(names))
	for _, n := range names {
		out = append(out, Count{Name: n, Attempts: by[n]})
	}
	return out
}
