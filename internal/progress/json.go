package progress

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/redact"
	"securebench/internal/verdict"
)

// maxJSONText bounds a string in bytes.
const maxJSONText = 64 << 10

// jsonLine returns an event as one line of ASCII: its name as "event", the
// time, then its fields in order. It is "" for an event that is not shown.
func jsonLine(e Event, opts Options, now time.Time) string {
	if _, ok := e.(AgentOutput); ok && !opts.ShowAgentOutput {
		return ""
	}
	b := append([]byte(`{"event":`), strconv.QuoteToASCII(e.Name())...)
	b = append(b, `,"time":"`+now.UTC().Format(time.RFC3339Nano)+`"`...)
	// An event that cannot be encoded must not stop a run: its name remains.
	if fields, err := json.Marshal(jsonForm(e, opts), encoders(), jsontext.AllowInvalidUTF8(true)); err == nil {
		b = append(append(b, ','), redact.ASCII(fields[1:len(fields)-1])...)
	}
	return string(append(b, "}\n"...))
}

// jsonForm returns the struct to encode: the event itself, unless JSON has
// derived fields.
func jsonForm(e Event, opts Options) any {
	switch e := e.(type) {
	case VerifierDone:
		return verifierDoneJSON{e.TaskID, e.Attempt, e.Status, scoreOf(e.Status, e.Score), e.Phase, e.Worker}
	case TaskDone:
		return taskDoneJSON{e.TaskID, e.Attempt, e.Status, e.Status == verdict.StatusPassed, scoreOf(e.Status, e.Score), e.Outcome, e.Reason, e.Basis, e.Worker}
	case SandboxResult:
		out := sandboxResultJSON{e.TaskID, e.Attempt, e.Kind, e.ExitCode, e.Argv, nil}
		if opts.ShowCommandOutput {
			out.commandOutputJSON = &commandOutputJSON{e.Stdout, e.Stderr}
		}
		return out
	case Resume:
		c := e.Counts.Of(verdict.Computed)
		return resumeJSON{e.Completed, c.Passed, c.Failed, c.Pending, *e.Counts.Of(verdict.Judged), e.Remaining, e.OutputPath}
	case RunDone:
		failures, others := e.listed()
		c := e.Counts.Of(verdict.Computed)
		return runDoneJSON{e.RunID, e.Status, e.Total, c.Verified, c.Passed, c.Failed, c.Pending, c.Infrastructure, *e.Counts.Of(verdict.Judged),
			e.AgentErrors, e.Answers, e.Output, failures, others}
	}
	return e
}

type verifierDoneJSON struct {
	TaskID  string         `json:"task_id"`
	Attempt int            `json:"attempt"`
	Status  verdict.Status `json:"status"`
	Score   *float64       `json:"score"`
	Phase   verdict.Phase  `json:"phase"`
	Worker  string         `json:"worker,omitzero"`
}

type taskDoneJSON struct {
	TaskID  string          `json:"task_id"`
	Attempt int             `json:"attempt"`
	Status  verdict.Status  `json:"status"`
	Passed  bool            `json:"passed"`
	Score   *float64        `json:"score"`
	Outcome verdict.Outcome `json:"outcome"`
	Reason  verdict.Reason  `json:"reason"`
	Basis   verdict.Basis   `json:"basis,omitzero"`
	Worker  string          `json:"worker,omitzero"`
}

type sandboxResultJSON struct {
	TaskID   string   `json:"task_id"`
	Attempt  int      `json:"attempt"`
	Kind     string   `json:"kind"`
	ExitCode int      `json:"exit_code"`
	Command  []string `json:"command"`
	*commandOutputJSON
}

type commandOutputJSON struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// The counts of these two are of what was computed. Judged is absent where nothing was
// judged.
type (
	resumeJSON struct {
		Completed  int            `json:"completed"`
		Passed     int            `json:"passed"`
		Failed     int            `json:"failed"`
		Pending    int            `json:"pending"`
		Judged     verdict.Counts `json:"judged,omitzero"`
		Remaining  int            `json:"remaining"`
		OutputPath string         `json:"output_path"`
	}
	runDoneJSON struct {
		RunID           string          `json:"run_id"`
		Status          string          `json:"status"`
		Total           int             `json:"total"`
		Verified        int             `json:"verified"`
		Passed          int             `json:"passed"`
		Failed          int             `json:"failed"`
		Pending         int             `json:"pending"`
		Infrastructure  int             `json:"infrastructure"`
		Judged          verdict.Counts  `json:"judged,omitzero"`
		AgentErrors     int             `json:"agent_errors"`
		Answers         verdict.Answers `json:"answers,omitzero"`
		Output          string          `json:"output"`
		Failures        []Failure       `json:"failures"`
		FailuresLeftOut int             `json:"failures_left_out"`
	}
)

// scoreOf returns nil where JSON has no score: for a pending attempt, and for
// what JSON cannot hold.
func scoreOf(status verdict.Status, score float64) *float64 {
	if status == verdict.StatusPending || math.IsNaN(score) || math.IsInf(score, 0) {
		return nil
	}
	return &score
}

// encoders bound the strings of an event. What JSON escapes is all that is escaped:
// a reader that decodes an event has the text as it was.
func encoders() json.Options {
	return json.WithMarshalers(json.JoinMarshalers(
		json.MarshalToFunc(writeText[string]),
		json.MarshalToFunc(func(enc *jsontext.Encoder, argv []string) error { return writeText(enc, strings.Join(argv, " ")) }),
		json.MarshalToFunc(writeText[verdict.Status]),
		json.MarshalToFunc(writeText[verdict.Outcome]),
		json.MarshalToFunc(writeText[verdict.Reason]),
		json.MarshalToFunc(func(enc *jsontext.Encoder, s verdict.Phase) error {
			if s == "" {
				return enc.WriteToken(jsontext.Null)
			}
			return writeText(enc, s)
		}),
	))
}

func writeText[T ~string](enc *jsontext.Encoder, s T) error {
	return enc.WriteToken(jsontext.String(string(s[:min(len(s), maxJSONText)])))
}
