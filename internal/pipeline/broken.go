package pipeline

import (
	"fmt"

	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/verdict"
)

// FirstAttempts is how many agents have to fail at the beginning, and nothing
// else happen, for a run to stop.
const FirstAttempts = 5

// BrokenAgentError is returned by [Run] if the agents of the first attempts, or of
// all if there are fewer, ended with an error and left no candidate, or asked a model
// and got no answer: what would be scored is not the agent. The records are kept.
type BrokenAgentError struct {
	Failed          int    // attempts
	All             bool   // the run has no others whose agent ran
	Unanswered      int    // of them, those that asked a model and got no answer
	TaskID, Message string // of the last of them; there is no message if it is of an earlier part
}

// Error says what happened, and how the last of them ended.
func (e *BrokenAgentError) Error() string {
	who := fmt.Sprintf("the agents of the first %d attempts all", e.Failed)
	switch {
	case e.All && e.Failed == 1:
		who = "the only agent of the run"
	case e.All:
		who = fmt.Sprintf("all %d agents of the run", e.Failed)
	}
	how := "failed without a candidate"
	switch {
	case e.Unanswered == e.Failed:
		how = "asked a model and got no answer"
	case e.Unanswered > 0:
		how += ", or asked a model and got no answer"
	}
	text := fmt.Sprintf("%s %s; task %s", who, how, e.TaskID)
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// agents counts attempts by how their agents ended, until one is known to work.
type agents struct {
	failed     int
	unanswered int              // of them
	pending    int              // of those, that stay pending: their provider may yet answer
	last       BrokenAgentError // says which failed last
	worked     bool             // one of them, or it is known that none does
}

// broken counts a record, and returns an error if it is the last of the first and
// the agents of all of them failed. The caller holds the lock.
func (r *run) broken(line *record.Line) error {
	if r.KeepGoing || !r.agents.seen(FinalOf(line), why(line)) || r.agents.failed < FirstAttempts {
		return nil
	}
	return r.agents.stop(false)
}

// noneWorked returns an error if the run has ended and the agents of all its
// attempts failed. The caller holds the lock.
func (r *run) noneWorked() error {
	if r.KeepGoing || r.Part {
		return nil
	}
	return r.agents.noneWorked()
}

// noneWorked returns an error if the agents of all that were counted failed.
func (a *agents) noneWorked() error {
	if a.worked || a.failed == a.pending {
		return nil
	}
	return a.stop(true)
}

// Agents counts the attempts of a run whose parts were joined by how their agents ended.
type Agents struct{ agents }

// Add counts a record.
func (a *Agents) Add(line *record.Line) { a.seen(FinalOf(line), why(line)) }

// NoneWorked returns a [BrokenAgentError] if the agents of all attempts failed.
func (a *Agents) NoneWorked() error { return a.noneWorked() }

// stop returns the error, once.
func (a *agents) stop(all bool) error {
	a.worked = true
	err := a.last
	err.Failed, err.Unanswered, err.All = a.failed, a.unanswered, all
	return &err
}

// why says why an attempt's agent failed.
func why(line *record.Line) string {
	refusal := line.ProducerMetadata.Text(produce.RefusalKey)
	if refusal == "" || line.Answers().Unanswered == 0 {
		return line.FailureMessage
	}
	return "the relay refused its requests: " + refusal
}

// seen counts an attempt, also one that an earlier part of the run recorded, and
// reports whether its agent failed and none has worked. Attempts that stay pending
// count if they asked a model that did not answer.
func (a *agents) seen(f Final, message string) bool {
	unanswered, pending := f.Answers.Unanswered > 0, f.Status == verdict.StatusPending
	if a.worked || pending && !unanswered {
		return false
	}
	if a.worked = f.Reason != verdict.AgentFailed && !unanswered; a.worked {
		return false
	}
	a.failed++
	if unanswered {
		a.unanswered++
	}
	if pending {
		a.pending++
	}
	a.last = BrokenAgentError{TaskID: f.TaskID, Message: message}
	return true
}
