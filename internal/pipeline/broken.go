package pipeline

import (
	"fmt"

	"securebench/internal/pipeline/record"
	"securebench/internal/verdict"
)

// FirstAttempts is how many agents have to fail at the beginning, and nothing
// else happen, for a run to stop.
const FirstAttempts = 5

// BrokenAgentError is returned by [Run] if the agents of the first attempts all
// ended with an error and left no candidate: what would be scored is not the agent.
// The records are kept.
type BrokenAgentError struct {
	TaskID, Message string // of the last of them
}

// Error says what happened, and how the last of them ended.
func (e *BrokenAgentError) Error() string {
	return fmt.Sprintf("the agents of the first %d attempts all failed without a candidate; task %s: %s", FirstAttempts, e.TaskID, e.Message)
}

// broken counts a record, and returns an error if it is the last of the first and
// the agents of all of them failed. The caller holds the lock.
func (r *run) broken(line *record.Line) error {
	if r.KeepGoing || !r.seen(line.Status, line.FailureReason) || r.failed < FirstAttempts {
		return nil
	}
	r.worked = true // reported once
	return &BrokenAgentError{TaskID: line.TaskID, Message: line.FailureMessage}
}

// seen counts an attempt, also one that an earlier part of the run recorded, and
// reports whether its agent failed and none has worked.
func (r *run) seen(status verdict.Status, reason verdict.Reason) bool {
	if r.worked || status == verdict.StatusPending {
		return false
	}
	if r.worked = reason != verdict.AgentFailed; r.worked {
		return false
	}
	r.failed++
	return true
}
