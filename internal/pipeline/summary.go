package pipeline

import (
	"cmp"
	"slices"
	"strings"

	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/verdict"
)

// Final is the outcome of a recorded attempt.
type Final struct {
	TaskID  string
	Attempt int
	verdict.Result
	Read      bool // as [record.Line.JudgeRead]
	AgentExit int  // as [record.Line.AgentExit]
	Answers   verdict.Answers
}

// FinalOf returns the outcome of a record's attempt.
func FinalOf(l *record.Line) Final {
	return Final{l.TaskID, l.Attempt, l.Result(), l.JudgeRead(), l.AgentExit(), l.Answers()}
}

// Summary counts a run's final records.
type Summary struct {
	RunID   string
	Planned Planned
	Total   int // attempts recorded
	Scored  int // of them, those with a verdict
	// Counts are those of one basis each.
	Counts verdict.ByBasis[verdict.Counts]
	// Read are those in which a judge was to read the answer, as it decided; in Counts they
	// are what the rule says of them.
	Read verdict.Counts
	// Infrastructure counts attempts that ended in an infrastructure error.
	Infrastructure int
	// PackFaults counts the pending attempts that a pack fault caused.
	PackFaults int
	// AgentErrors counts the attempts whose agent ended by itself, with an exit code
	// other than 0.
	AgentErrors int
	// Answers counts attempts by what came of their requests to a model.
	Answers verdict.Answers
	// Failures are the first attempts that did not pass, in the order in which
	// they ended, up to the number that a run lists.
	Failures []progress.Failure
	// Unpassed counts the attempts that did not pass by their reasons, or outcomes where
	// there is none.
	Unpassed map[string]int
}

// Planned is how many attempts are planned.
type Planned struct {
	All    int
	Judged int // of them, those at rows that ask for a judge
}

// Of returns how many there are of a basis.
func (p Planned) Of(b verdict.Basis) int {
	if b == verdict.Judged {
		return p.Judged
	}
	return p.All - p.Judged
}

// Reasons says why attempts did not pass, the most frequent reason first.
func (s Summary) Reasons() []progress.ReasonCount {
	out := []progress.ReasonCount{}
	for reason, n := range s.Unpassed {
		out = append(out, progress.ReasonCount{Reason: reason, Count: n})
	}
	slices.SortFunc(out, func(a, b progress.ReasonCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Reason, b.Reason))
	})
	return out
}

// Status is "complete" if every planned attempt is verified, "pending" if none
// is, and "partial" otherwise.
func (s Summary) Status() string {
	switch s.Scored {
	case s.Planned.All:
		return "complete"
	case 0:
		return "pending"
	}
	return "partial"
}

// Of returns the counts of one basis.
func (s Summary) Of(b verdict.Basis) verdict.Counts { return *s.Counts.Of(b) }

// Summarise counts the recorded attempts.
func Summarise(runID string, planned Planned, finals []Final) Summary {
	s := Summary{RunID: runID, Planned: planned}
	for _, f := range finals {
		s.Add(f)
	}
	return s
}

// Add counts a recorded attempt.
func (s *Summary) Add(f Final) {
	s.Total++
	if f.Read {
		s.Read.Add(f.Status, f.Outcome)
	}
	f.Result = f.ByRule(f.Read)
	s.Counts.Of(f.Basis).Add(f.Status, f.Outcome)
	if f.Status != verdict.StatusPending {
		s.Scored++
	}
	if f.Reason == verdict.PackFault {
		s.PackFaults++
	}
	s.Answers.Add(f.Answers)
	if f.AgentExit != 0 {
		s.AgentErrors++
	}
	if f.Outcome == verdict.Infrastructure {
		s.Infrastructure++
	}
	if f.Status != verdict.StatusPassed {
		if s.Unpassed == nil {
			s.Unpassed = map[string]int{}
		}
		s.Unpassed[cmp.Or(string(f.Reason), string(f.Outcome))]++
	}
	if f.Status != verdict.StatusPassed && len(s.Failures) < progress.MaxFailures {
		s.Failures = append(s.Failures, progress.Failure{TaskID: f.TaskID, Attempt: f.Attempt, Outcome: f.Outcome, Reason: f.Reason})
	}
}
