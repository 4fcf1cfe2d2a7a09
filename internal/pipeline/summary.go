package pipeline

import (
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/verdict"
)

// Final is the outcome of a recorded attempt.
type Final struct {
	TaskID    string
	Attempt   int
	Status    verdict.Status
	Outcome   verdict.Outcome
	Reason    verdict.Reason
	AgentExit int // as [record.Line.AgentExit]
	Answers   verdict.Answers
}

// FinalOf returns the outcome of a record's attempt.
func FinalOf(l *record.Line) Final {
	return Final{l.TaskID, l.Attempt, l.Status, l.Outcome, l.FailureReason, l.AgentExit(), l.Answers()}
}

// Summary counts a run's final records.
type Summary struct {
	RunID    string
	Planned  int // planned attempts
	Total    int // attempts recorded
	Verified int
	Passed   int
	Score    float64
	Failed   int
	Pending  int // pending attempts without infrastructure errors
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
}

// Status is "complete" if every planned attempt is verified, "pending" if none
// is, and "partial" otherwise.
func (s Summary) Status() string {
	switch s.Verified {
	case s.Planned:
		return "complete"
	case 0:
		return "pending"
	}
	return "partial"
}

// Summarise counts the recorded attempts.
func Summarise(runID string, planned int, finals []Final) Summary {
	s := Summary{RunID: runID, Planned: planned}
	for _, f := range finals {
		s.Add(f)
	}
	return s
}

// Add counts a recorded attempt.
func (s *Summary) Add(f Final) {
	s.Total++
	switch f.Status {
	case verdict.StatusPassed:
		s.Passed++
		s.Score++
		s.Verified++
	case verdict.StatusFailed:
		s.Failed++
		s.Verified++
	default:
		s.Pending++
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
		s.Pending--
	}
	if f.Status != verdict.StatusPassed && len(s.Failures) < progress.MaxFailures {
		s.Failures = append(s.Failures, progress.Failure{TaskID: f.TaskID, Attempt: f.Attempt, Outcome: f.Outcome, Reason: f.Reason})
	}
}
