package progress

import (
	"strings"

	"securebench/internal/verdict"
)

// The names of the events. The first group is the reference's.
const (
	NameRunStart             = "run_start"
	NameResume               = "resume"
	NameTaskStart            = "task_start"
	NameProducerStart        = "producer_start"
	NameProducerDone         = "producer_done"
	NameVerifierStart        = "verifier_start"
	NameVerifierDone         = "verifier_done"
	NameTaskDone             = "task_done"
	NameSandboxCreate        = "sandbox_create"
	NameSandboxStart         = "sandbox_start"
	NameSandboxCommand       = "sandbox_command"
	NameSandboxResult        = "sandbox_result"
	NameAgentOutput          = "agent_output"
	NameVerifierPolicyDenied = "verifier_policy_denied"

	NameWarning        = "warning"
	NameRetry          = "retry"
	NameInfrastructure = "infrastructure"
	NameInterrupted    = "interrupted"
	NameRunDone        = "run_done"
)

// Event is one thing that happened. Use the constructors: they fix the names
// and the fields.
type Event struct {
	Name   string
	Fields []Field
}

// Field is one value of an event: a string, bool, int, float64, []Failure or
// nil.
type Field struct {
	Key   string
	Value any
}

// F makes a field.
func F(key string, value any) Field { return Field{key, value} }

func event(name string, fields ...Field) Event { return Event{name, fields} }

// get returns the value of a field, or T's zero value.
func get[T any](e Event, key string) T {
	for _, f := range e.Fields {
		if f.Key == key {
			v, _ := f.Value.(T)
			return v
		}
	}
	var zero T
	return zero
}

// RunStart begins a run of total attempts, those of an earlier session
// included.
func RunStart(runID, outputDir string, total int) Event {
	return event(NameRunStart, F("run_id", runID), F("output_dir", outputDir), F("total", total))
}

// Resume says how much an earlier session left.
func Resume(completed, remaining int, outputPath string) Event {
	return event(NameResume, F("completed", completed), F("remaining", remaining), F("output_path", outputPath))
}

// TaskStart begins an attempt; index and attempt count from 1.
func TaskStart(index, total int, taskID string, attempt int, family string) Event {
	return event(NameTaskStart, F("index", index), F("total", total), F("task_id", taskID),
		F("attempt", attempt), F("family", family))
}

// ProducerStart says that an agent begins.
func ProducerStart(taskID string) Event { return event(NameProducerStart, F("task_id", taskID)) }

// ProducerDone tells the kind of the candidate that was taken. Without one the
// kind is "none" and status and reason say why; they are "" otherwise.
func ProducerDone(taskID, candidateKind string, status verdict.Status, reason verdict.Reason) Event {
	e := event(NameProducerDone, F("task_id", taskID), F("candidate_kind", candidateKind))
	if status != "" {
		e.Fields = append(e.Fields, F("status", string(status)), F("failure_reason", string(reason)))
	}
	return e
}

// VerifierStart says that a verification begins.
func VerifierStart(taskID string) Event { return event(NameVerifierStart, F("task_id", taskID)) }

// VerifierDone tells a verdict; phase is "" where the family has none.
func VerifierDone(taskID string, status verdict.Status, score float64, phase verdict.Phase) Event {
	var shown any
	if phase != "" {
		shown = string(phase)
	}
	return event(NameVerifierDone, F("task_id", taskID), F("status", string(status)),
		F("score", scoreOf(status, score)), F("phase", shown))
}

// TaskDone ends an attempt. Status is passed, failed or pending; a pending
// attempt has no score. Outcome and reason are the record's.
func TaskDone(taskID string, attempt int, status verdict.Status, score float64, outcome verdict.Outcome, reason verdict.Reason) Event {
	return event(NameTaskDone, F("task_id", taskID), F("attempt", attempt), F("status", string(status)), F("passed", status == verdict.StatusPassed),
		F("score", scoreOf(status, score)), F("outcome", string(outcome)), F("reason", string(reason)))
}

func scoreOf(status verdict.Status, score float64) any {
	if status == verdict.StatusPending {
		return nil
	}
	return score
}

// SandboxCreate says that a sandbox was made.
func SandboxCreate(taskID, kind, image, network string, readOnly bool) Event {
	return event(NameSandboxCreate, F("task_id", taskID), F("kind", kind), F("image", image),
		F("network", network), F("read_only", readOnly))
}

// SandboxStart says that a sandbox runs.
func SandboxStart(taskID, kind, image, container string) Event {
	return event(NameSandboxStart, F("task_id", taskID), F("kind", kind), F("image", image), F("container", container))
}

// SandboxCommand names the command of a sandbox.
func SandboxCommand(taskID, kind, image, workdir string, argv []string) Event {
	return event(NameSandboxCommand, F("task_id", taskID), F("kind", kind), F("image", image),
		F("workdir", workdir), F("command", strings.Join(argv, " ")))
}

// SandboxResult tells how a command on the agent's side ended and what it
// printed. Renderers show the output only if they are asked to.
func SandboxResult(taskID, kind string, exitCode int, argv []string, stdout, stderr string) Event {
	return event(NameSandboxResult, F("task_id", taskID), F("kind", kind), F("exit_code", exitCode),
		F("command", strings.Join(argv, " ")), F("stdout", stdout), F("stderr", stderr))
}

// AgentOutput is one line that an agent printed to "stdout" or "stderr".
// Renderers show it only if they are asked to.
func AgentOutput(taskID, stream, line string) Event {
	return event(NameAgentOutput, F("task_id", taskID), F("stream", stream), F("line", line))
}

// VerifierPolicyDenied says that the operator's policy forbids what a checker
// needs.
func VerifierPolicyDenied(taskID, command, reason string) Event {
	return event(NameVerifierPolicyDenied, F("task_id", taskID), F("denied_command", command), F("reason", reason))
}

// Warning is something that the operator should know and that stops nothing.
func Warning(message string) Event { return event(NameWarning, F("message", message)) }

// Retry says that an attempt runs again after an infrastructure error; n
// counts from 1.
func Retry(taskID string, n, limit int, message string) Event {
	return event(NameRetry, F("task_id", taskID), F("retry", n), F("limit", limit), F("message", message))
}

// Infrastructure says that an attempt was given up because of an
// infrastructure error.
func Infrastructure(taskID, message string) Event {
	return event(NameInfrastructure, F("task_id", taskID), F("message", message))
}

// Interrupted says that the operator stopped the run and how to go on.
func Interrupted(resumeCommand string) Event {
	return event(NameInterrupted, F("resume_command", resumeCommand))
}

// Failure is an attempt that did not pass.
type Failure struct {
	TaskID  string          `json:"task_id"`
	Attempt int             `json:"attempt"`
	Outcome verdict.Outcome `json:"outcome"`
	Reason  verdict.Reason  `json:"reason"`
}

// MaxFailures is how many failures the end of a run lists.
const MaxFailures = 10

// Summary is the result of a run. Counts are of attempts.
type Summary struct {
	RunID, Status           string
	Total, Verified, Passed int
	Failed, Pending         int
	Infrastructure          int
	Output                  string    // the file of the records
	Failures                []Failure // the first [MaxFailures]
}

// RunDone ends a run. It lists the first ten failures and counts the others.
func RunDone(s Summary) Event {
	listed := s.Failures[:min(len(s.Failures), MaxFailures)]
	return event(NameRunDone, F("run_id", s.RunID), F("status", s.Status), F("total", s.Total),
		F("verified", s.Verified), F("passed", s.Passed), F("failed", s.Failed), F("pending", s.Pending),
		F("infrastructure", s.Infrastructure), F("output", s.Output),
		F("failures", listed), F("failures_left_out", max(0, s.Total-s.Passed-len(listed))))
}
