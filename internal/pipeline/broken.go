package pipeline

import (
	"fmt"

	"securebench/internal/pipeline/record"
	"securebench/internal/verdict"
)

// FirstAttempts is how many agents have to fail at the beginning, and nothing
// else happen, for a run to stop.
const FirstAttempts = 5

// BrokenAgentError is returned by [Run] if the agents of the first attempts, or of
// all if there are fewer, ended with an error and left no candidate: what would be
// scored is not the agent. The records are kept.
type BrokenAgentError struct {
	Failed          int    // attempts
	All             bool   // the run has no others whose agent ran
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
	text := fmt.Sprintf("%s failed without a candidate; task %s", who, e.TaskID)
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// agents counts attempts by how their agents ended, until one is known to work.
type agents struct {
	failed int
	last   BrokenAgentError // says which failed last
	worked bool             // one of them, or it is known that none does
}

// broken counts a record, and returns an error if it is the last of the first and
// the agents of all of them failed. The caller holds the lock.
func (r *run) broken(line *record.Line) error {
	if r.KeepGoing || !r.agents.seen(FinalOf(line), line.FailureMessage) || r.agents.failed < FirstAttempts {
		return nil
	}
	return r.agents.stop(false)
}

// noneWorked returns an error if the run has ended and the agents of all its
// attempts failed. The caller holds the lock.
func (r *run) noneWorked() error {
	if r.KeepGoing || r.agents.worked || r.agents.failed == 0 {
		return nil
	}
	return r.agents.stop(true)
}

// stop returns the error, once.
func (a *agents) stop(all bool) error {
	a.worked = true
	err := a.last
	err.Failed, err.All = a.failed, all
	return &err
}

// seen counts an attempt, also one that an earlier part of the run recorded, and
// reports whether its agent failed and none has worked. Attempts that stay pending
// do not count.
func (a *agents) seen(f Final, message string) bool {
	if a.worked || f.Status == verdict.StatusPending {
		return false
	}
	if a.worked = f.Reason != verdict.AgentFailed; a.worked {
		return false
	}
	a.failed++
	a.last = BrokenAgentError{TaskID: f.TaskID, Message: message}
	return true
}
