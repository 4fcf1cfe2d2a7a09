// Package report sums up a finished run: counts, rates with their intervals,
// and the tasks that did not pass, as a table, JSON,
// CSV, JUnit XML or a page of HTML.
//
// Records come from a file that anyone may have written. So a pass counts only if
// its record does not contradict itself, planned attempts without a record count
// as not passed, and every text is escaped.
package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"securebench/internal/console"
	"securebench/internal/verdict"
)

// Run describes the run as a whole.
type Run struct {
	// Verified is set if the run verifies. If not, the table and the JSON say so
	// first, the CSV in every row.
	Verified bool `json:"verified"`
	// Evidence is one line: the signer, or what is wrong.
	Evidence string `json:"evidence"`
	RunID    string `json:"run_id"`
	Agent    string `json:"agent"`
	// AgentNote is what a reader should know of the agent, "" for nothing.
	AgentNote string `json:"agent_note,omitzero"`
	// Program names the agents' programs and their versions, and Build what made and
	// scored the run; "" for none.
	Program string `json:"program,omitzero"`
	Build   string `json:"build,omitzero"`
	// Model is what the agents' provider was asked for, "" for none.
	Model       string `json:"model,omitzero"`
	PackID      string `json:"pack_id"`
	PackVersion int64  `json:"pack_version"`
	// Engine is the sandbox engine and why it was taken, "" for none.
	Engine string `json:"engine,omitzero"`
	// Started and Ended are times in RFC 3339, "" if unknown. Between them a run that
	// was resumed may have stood still.
	Started string `json:"started,omitzero"`
	Ended   string `json:"ended,omitzero"`
	// PlannedTasks is clamped to 0..2^30, PlannedAttempts (per task) to 1..2^30,
	// LeftOut to 0..2^30.
	PlannedTasks    int `json:"planned_tasks"`
	PlannedAttempts int `json:"planned_attempts"`
	// LeftOut is how many rows of the pack were not planned.
	LeftOut int `json:"left_out"`
	// PlannedJudged is how many of the planned tasks ask for a judge, clamped to 0 and
	// PlannedTasks, and Judge is the run's judge: its name, votes and canaries, "" for none.
	PlannedJudged int    `json:"planned_judged,omitzero"`
	Judge         string `json:"judge,omitzero"`
	// Canaries says in a word what came of trying the judge, "" without one.
	Canaries string `json:"judge_canaries,omitzero"`
	// Chosen says by which flags the rows were chosen, "" for none but a limit.
	Chosen string `json:"chosen,omitzero"`
	// Replaced is how many records resumes dropped or missed and made again, clamped
	// to 0..2^30.
	Replaced int      `json:"replaced,omitzero"`
	Labels   []string `json:"labels"` // of the run, not of its records
}

// Attempt is what a report needs of one record. The fields are named and
// valued as in docs/records.md.
type Attempt struct {
	Line   int // of its record in the file; the report does not use it
	TaskID string
	Index  int // position of the row
	// Attempt counts from 1. Only one record of an attempt can pass.
	Attempt     int
	Family      string
	Status      verdict.Status
	Outcome     verdict.Outcome
	Reason      verdict.Reason
	Containment verdict.Containment
	Basis       verdict.Basis
	Judge       Votes
	Labels      []string
	Tags        []string // of its row
	Passed      bool
	AgentExit   int   // exit code of an agent that ended by itself
	Retries     int   // tries before, which infrastructure errors ended
	TotalMS     int64 // milliseconds
	Usage       Usage
	Answers     verdict.Answers
	Candidate   string // digest
	// Measure is how good the candidate is, nil where that is not known. Of one that did
	// not pass only the operator knows it.
	Measure *verdict.Measure
	// Biases says by name whether the verdict went as something that should not decide it.
	Biases map[string]bool

	// Said is why an attempt did not pass, with an excerpt of what it left; see [Explain].
	Said string

	read verdict.Status // what a judge came to that read the answer, "" without one
}

// Votes are those of a judge on one attempt. The zero value is that none was asked.
type Votes struct {
	Model         string // as it answered
	Votes, Passed int
}

// Report is a run's result. Rates are fractions from 0 to 1, rounded to six
// decimals: the same records give the same bytes on every machine.
type Report struct {
	Run     Run `json:"run"`
	Section     // of what was computed
	// Judged is of the tasks that ask for a judge, nil for none. No figure of the report
	// is of both.
	Judged *Section `json:"judged,omitzero"`
	// Read is of the computed attempts whose candidates state no answer by their row's
	// rule, so that they failed, and in which a judge was to read one; nil for none.
	Read   *Read   `json:"judge_read,omitzero"`
	Labels []Count `json:"labels"` // attempts by label, in alphabetical order
	// Usage is absent when no record counts requests to a provider.
	Usage Usage `json:"usage,omitzero"`
	// Answers counts attempts by what came of their requests to a model. It is absent
	// when no record counts answers.
	Answers verdict.Answers `json:"answers,omitzero"`
	Slowest []Slow          `json:"slowest"` // at most five
	// Unpassed are the tasks with an attempt that did not pass, in row order.
	Unpassed []Unpassed `json:"not_passed"`
	// AgentErrors counts the attempts whose agent ended by itself with an exit code
	// other than 0, AgentsFailed those of them that have no candidate for that.
	AgentErrors  int `json:"agent_errors"`
	AgentsFailed int `json:"agents_failed"`
	// Retried counts the attempts that were made again after infrastructure errors,
	// Retries these errors.
	Retried int `json:"retried,omitzero"`
	Retries int `json:"retries,omitzero"`
	// TasksMissing are not in Unpassed: without a record, nothing names them.
	TasksMissing int `json:"tasks_missing"`

	attempts []Attempt // in row order, as counted
}

// Read counts attempts by what a judge came to that read their answers.
type Read struct {
	Attempts int `json:"attempts"`
	Passed   int `json:"passed"` // what it read is right by the row's rule
	Failed   int `json:"failed"` // it is not, or it read none
	Pending  int `json:"pending"`
}

// add counts an attempt.
func (r *Read) add(s verdict.Status) {
	r.Attempts++
	switch s {
	case verdict.StatusPassed:
		r.Passed++
	case verdict.StatusFailed:
		r.Failed++
	default:
		r.Pending++
	}
}

// String is a line about them.
func (r *Read) String() string {
	return fmt.Sprintf("%s: of what a judge read in them, %d right, %d not, %d pending; none of it is part of the rate",
		console.Plural(r.Attempts, "attempt")+" without an answer by rule", r.Passed, r.Failed, r.Pending)
}

// Section is what attempts of one basis scored.
type Section struct {
	Total Total `json:"total"`
	// Families are in alphabetical order. A missing attempt belongs to the
	// family of its task's first record.
	Families []Group `json:"families"`
	// Tags are in alphabetical order. A task counts in each of its tags; without a
	// record it has none.
	Tags []Group `json:"tags,omitzero"`
	// Profiles are in the order passive, split, shared, others. Missing attempts
	// have the empty name, at the end.
	Profiles []Group `json:"profiles"`
	// Outcomes lists those of docs/records.md, then the report's own, then
	// unknown ones in alphabetical order.
	Outcomes []Count `json:"outcomes"`
	// PassK is empty when one attempt per task was planned.
	PassK []PassK `json:"pass_k"`
	// Measures are means over the passes, or over all attempts: see [Report.Measured].
	Measures []Mean `json:"measures,omitzero"`
	// Biases are absent where no record knows of any.
	Biases []Bias `json:"biases,omitzero"`

	basis   verdict.Basis
	tasks   []*task
	missing int // tasks without a record
}

// Tally counts attempts. Attempts is the denominator and the sum of the five
// fields after it.
type Tally struct {
	Tasks    int `json:"tasks"`
	Attempts int `json:"attempts"`
	Passed   int `json:"passed"`
	Failed   int `json:"failed"`  // every other final outcome that is not a pass
	Pending  int `json:"pending"` // without a verdict
	// Infrastructure counts infrastructure errors.
	Infrastructure int `json:"infrastructure"`
	Missing        int `json:"missing"` // planned, without a record
	// PassRate is the mean over tasks of a task's share of passes; 0 without tasks.
	PassRate float64 `json:"pass_rate"`
	// Interval is the rate's 95 % Wilson score interval over tasks.
	Interval Interval `json:"interval_95"`
}

// Total is the tally of all attempts. It shows how many attempts ran under each
// containment profile, because no total mixes them silently.
type Total struct {
	Tally
	Containment Mix `json:"containment"`
}

// Mix counts attempts by containment profile.
type Mix struct {
	Passive int `json:"passive"`
	Split   int `json:"split"`
	Shared  int `json:"shared"`
	Other   int `json:"other"` // an unknown profile, or none
	Missing int `json:"missing"`
}

// Group is the tally of one family or profile. Attempts without one, such as
// those without a record, have the empty name.
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

// Slow is one of the slowest attempts.
type Slow struct {
	TaskID  string          `json:"task_id"`
	Attempt int             `json:"attempt"`
	TotalMS int64           `json:"total_ms"`
	Outcome verdict.Outcome `json:"outcome"`
}

// Unpassed is a task with an attempt that did not pass.
type Unpassed struct {
	TaskID   string        `json:"task_id"`
	Basis    verdict.Basis `json:"basis,omitzero"`
	Index    int           `json:"index"`
	Attempts int           `json:"attempts"`
	Passed   int           `json:"passed"`
	Missing  int           `json:"missing"`
	Failures []Failure     `json:"failures"` // the recorded attempts that did not pass
}

// Failure is a recorded attempt that did not pass.
type Failure struct {
	Attempt int             `json:"attempt"`
	Outcome verdict.Outcome `json:"outcome"`
	Reason  verdict.Reason  `json:"reason"`
}

// The report's own outcomes. No honest record has them.
const (
	missing verdict.Outcome = "missing" // there is no record
	// inconsistent: one field of the record claims a pass and another denies
	// it, or the record claims one of these three outcomes.
	inconsistent verdict.Outcome = "inconsistent"
	repeated     verdict.Outcome = "repeated" // another record of the same attempt
)

// knownOutcomes lists the outcomes in the order in which they are shown.
func knownOutcomes() []verdict.Outcome {
	return []verdict.Outcome{verdict.Passed, verdict.Failed, verdict.NoCandidate, verdict.AgentTimeout, verdict.VerifierTimeout,
		verdict.Limit, verdict.Tampering, verdict.Pending, verdict.Infrastructure, missing, inconsistent, repeated}
}

// Builder collects the records of a run.
type Builder struct {
	run      Run
	attempts []Attempt
	texts    map[string]string
}

// NewBuilder starts a report.
func NewBuilder(run Run) *Builder {
	const most = 1 << 30 // the product of two fits an int
	run.PlannedTasks = min(max(run.PlannedTasks, 0), most)
	run.PlannedAttempts = min(max(run.PlannedAttempts, 1), most)
	run.LeftOut = min(max(run.LeftOut, 0), most)
	run.Replaced = min(max(run.Replaced, 0), most)
	run.PlannedJudged = min(max(run.PlannedJudged, 0), run.PlannedTasks)
	run.Labels = slices.Clone(run.Labels)
	return &Builder{run: run, texts: map[string]string{}}
}

// Add counts one record. It keeps only copies of its texts.
func (b *Builder) Add(a Attempt) {
	a.TaskID, a.Family, a.Status = keep(b, a.TaskID), keep(b, a.Family), keep(b, a.Status)
	a.Outcome, a.Reason, a.Containment = keep(b, a.Outcome), keep(b, a.Reason), keep(b, a.Containment)
	a.Candidate = strings.Clone(a.Candidate)
	a.Labels, a.Tags = keepAll(b, a.Labels), keepAll(b, a.Tags)
	a.Biases = maps.Clone(a.Biases)
	a.Judge.Model = keep(b, a.Judge.Model)
	if slices.Contains(a.Labels, verdict.JudgedLabel) {
		a.Basis = verdict.Judged // of a record that contradicts itself, what says less
	}
	claim := a.Outcome == verdict.Passed
	if a.Passed != claim || (a.Status == verdict.StatusPassed) != claim || own(a.Outcome) {
		a.Passed, a.Outcome = false, inconsistent
	}
	if slices.Contains(a.Labels, verdict.JudgeRead) {
		a.read = a.Status
		is := verdict.Result{Basis: a.Basis, Status: a.Status, Outcome: a.Outcome, Reason: a.Reason}.ByRule(true)
		a.Basis, a.Status, a.Outcome, a.Reason, a.Passed = is.Basis, is.Status, is.Outcome, is.Reason, false
	}
	b.attempts = append(b.attempts, a)
}

func own(outcome verdict.Outcome) bool {
	return outcome == missing || outcome == inconsistent || outcome == repeated
}

func keepAll(b *Builder, all []string) (out []string) {
	for _, s := range all {
		out = append(out, keep(b, s))
	}
	return out
}

// keep returns a copy of s, the same one for equal texts: most texts repeat in
// every record, and s may be a small part of a large buffer.
func keep[T ~string](b *Builder, s T) T {
	text, ok := b.texts[string(s)]
	if !ok {
		text = strings.Clone(string(s))
		b.texts[text] = text
	}
	return T(text)
}

// Report sums up what was added so far.
func (b *Builder) Report() *Report {
	attempts := slices.Clone(b.attempts)
	slices.SortStableFunc(attempts, rowOrder)
	tasks := byTask(attempts, b.run.PlannedAttempts)
	var apart verdict.ByBasis[[]*task]
	for _, t := range tasks {
		of := apart.Of(t.attempts[0].Basis)
		*of = append(*of, t)
	}
	r := &Report{
		Run:      b.run,
		Section:  newSection(verdict.Computed, *apart.Of(verdict.Computed), b.run.PlannedTasks-b.run.PlannedJudged, b.run.PlannedAttempts),
		Labels:   labelCounts(attempts),
		Usage:    usage(attempts),
		Slowest:  slowest(attempts),
		Unpassed: unpassed(tasks),
		attempts: attempts,
	}
	if judged := *apart.Of(verdict.Judged); len(judged) > 0 || b.run.PlannedJudged > 0 {
		s := newSection(verdict.Judged, judged, b.run.PlannedJudged, b.run.PlannedAttempts)
		r.Judged = &s
	}
	for _, s := range r.sections() {
		r.TasksMissing += s.missing
	}
	for _, a := range attempts {
		if a.read != "" && !own(a.Outcome) {
			if r.Read == nil {
				r.Read = &Read{}
			}
			r.Read.add(a.read)
		}
		if a.AgentExit != 0 {
			r.AgentErrors++
		}
		if a.Outcome != repeated {
			r.Answers.Add(a.Answers)
		}
		if a.Retries > 0 {
			r.Retried++
			r.Retries += a.Retries
		}
		if a.Outcome == verdict.NoCandidate && a.Reason == verdict.AgentFailed {
			r.AgentsFailed++
		}
	}
	return r
}

// newSection sums up the tasks of one basis, of which so many are planned.
func newSection(basis verdict.Basis, tasks []*task, planned, attempts int) Section {
	s := Section{basis: basis, tasks: tasks, missing: max(planned-len(tasks), 0)}
	s.sum(attempts)
	s.PassK = passK(tasks, planned, attempts)
	s.Outcomes = outcomeCounts(tasks, s.Total.Missing)
	s.Measures = means(tasks, func(a *Attempt) bool { return a.Passed })
	s.Biases = biases(tasks)
	return s
}

// sections are those that the run has: of what was computed, unless all was judged, and
// of what was judged.
func (r *Report) sections() (out []*Section) {
	if r.Judged == nil || r.Total.Tasks > 0 {
		out = append(out, &r.Section)
	}
	if r.Judged != nil {
		out = append(out, r.Judged)
	}
	return out
}

// Counted returns the attempts as they were counted, in the order of the pack's
// rows: one whose record contradicts itself has not passed.
func (r *Report) Counted() []Attempt { return slices.Clone(r.attempts) }

// sum fills in the tallies.
func (s *Section) sum(planned int) {
	var total sums
	families, tags, profiles := map[string]*sums{}, map[string]*sums{}, map[verdict.Containment]*sums{}
	for _, t := range s.tasks {
		total.add(t.tally())
		addTask(families, t, func(a *Attempt) string { return a.Family }, t.attempts[0].Family)
		for _, tag := range slices.Compact(slices.Sorted(slices.Values(t.attempts[0].Tags))) {
			addTask(tags, t, func(*Attempt) string { return tag }, tag)
		}
		addTask(profiles, t, func(a *Attempt) verdict.Containment { return a.Containment }, "")
	}
	if s.missing > 0 {
		for _, to := range []*sums{&total, group(families, ""), group(profiles, "")} {
			to.addMissing(s.missing, planned)
		}
	}
	s.Total = Total{Tally: total.tally(), Containment: mix(profiles)}
	s.Families, s.Tags, s.Profiles = groups(families), groups(tags), groups(profiles, verdict.Passive, verdict.Split, verdict.Shared)
}

func mix(profiles map[verdict.Containment]*sums) Mix {
	var m Mix
	for name, s := range profiles {
		m.Missing += s.Missing
		n := s.Attempts - s.Missing
		switch name {
		case verdict.Passive:
			m.Passive += n
		case verdict.Split:
			m.Split += n
		case verdict.Shared:
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

func outcomeCounts(tasks []*task, without int) []Count {
	by := map[verdict.Outcome]int{missing: without}
	for _, t := range tasks {
		for _, a := range t.attempts {
			by[a.Outcome]++
		}
	}
	return counts(by, ordered(by, knownOutcomes()...))
}

func counts[K ~string](by map[K]int, names []K) []Count {
	out := make([]Count, 0, len(names))
	for _, n := range names {
		out = append(out, Count{Name: string(n), Attempts: by[n]})
	}
	return out
}
