// Package record reads and writes the output directory of a run: one
// hash-chained JSON line per attempt, the run manifest, the salt, and the
// restricted raw output.
package record

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/redact"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Bounds on what is published inline.
const (
	InlineLimit  = 64 << 10 // of a candidate
	ExcerptLimit = 8 << 10  // of an agent's output
)

// Genesis is the "prev" of the first line.
const Genesis = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// Line is one attempt's record. Its fields are those of the reference's
// records, and additional ones that bind a score to its inputs.
type Line struct {
	RunID, TaskID, BenchmarkID, TaskType string

	Status    verdict.Status // pending, passed or failed
	Candidate Candidate

	ProducerStdout, ProducerStderr string // redacted, escaped excerpts
	ProducerMetadata               verdict.Metadata
	Summary                        []task.ResourceSummary

	// Verified is set if there is a verdict: the line then has passed, score
	// and the verifier's fields.
	Verified         bool
	Passed           bool
	VerifierStdout   string
	VerifierStderr   string
	VerifierMetadata verdict.Metadata

	Index, Attempt int // attempt counts from 1
	Retries        []Retry
	Agent          string
	Outcome        verdict.Outcome
	FailureReason  verdict.Reason
	FailurePhase   verdict.Phase
	FailureMessage string
	Containment    verdict.Containment
	Basis          verdict.Basis
	Judge          *verdict.Judgement // nil where no judge was asked
	NoBasis        bool               // the record does not say its basis, as those of former builds: it is computed
	Measure        *verdict.Measure   // of a pass; nil where nothing measures it
	Labels         []string           // sorted
	Digests        Digests
	Timings        map[verdict.Phase]int64 // milliseconds by phase
	Usage          map[string]int64
	Restricted     []RawFile
	Workers        By // on other machines

	// Produced is what a resume reads of an attempt whose candidate waits to be
	// verified. It is in [CapturedName], and in no record.
	Produced jsontext.Value
}

// Candidate is what a record shows of a candidate: of a text or patch, all or a part
// of it, of a tree its digest. One of another kind has no more than its digest among
// [Digests]. The zero value shows nothing.
type Candidate struct {
	Kind  task.CandidateKind // code is a text
	Shown string
}

// place returns where a record shows a candidate of a kind; nil is nowhere.
func (w *wire) place(kind task.CandidateKind) **string {
	switch kind {
	case task.Text, task.Code:
		return &w.CandidateText
	case task.Patch:
		return &w.CandidatePatch
	case task.Workspace:
		return &w.CandidateWorkspace
	}
	return nil
}

// The metadata keys that readers of records use.
const (
	OriginKey     = "candidate_extraction" // of the producer: where the candidate came from
	ExtractionKey = "extraction"           // of the verifier: how the candidate was extracted from the output
)

// Origin returns where the candidate came from, as recorded by capture.
func (l *Line) Origin() candidate.Origin { return candidate.Origin(l.ProducerMetadata.Text(OriginKey)) }

// CutOff reports whether the candidate is a model's answer that had reached its most
// tokens. What an agent wrote to a file was written before.
func (l *Line) CutOff() bool {
	return l.Origin() != candidate.File && verdict.CutOff(l.ProducerMetadata.Text(verdict.StopKey))
}

// Extraction returns how the verifier extracted the candidate from the agent's
// output.
func (l *Line) Extraction() string { return l.VerifierMetadata.Text(ExtractionKey) }

// Answers says what came of the attempt's requests to a model.
func (l *Line) Answers() verdict.Answers { return verdict.AnswersOf(l.Usage) }

// Biases returns, by name, whether the verdict went as something that should not decide
// it; nil where nothing is said of that.
func (l *Line) Biases() map[string]bool { return verdict.BiasesOf(l.VerifierMetadata) }

// AgentExit returns the exit code of an agent that ended by itself; 0 if nothing
// ran, and if a limit or the provider ended it.
func (l *Line) AgentExit() int {
	limited := l.Outcome == verdict.Limit && l.FailurePhase == verdict.PhaseProduce
	if limited || l.FailureReason == verdict.ProviderRefused || string(l.ProducerMetadata["timed_out"]) == "true" {
		return 0
	}
	return int(l.ProducerMetadata.Int("exit_code"))
}

// AgentFailed reports whether the agent failed, or asked a model that did not answer: a
// run that stopped because all did repeats the attempt.
func (l *Line) AgentFailed() bool {
	return l.FailureReason == verdict.AgentFailed || l.Answers().Unanswered > 0
}

// Inline returns what a record shows of a candidate's bytes: all of them if
// they are short text, else an excerpt with their digest.
func Inline(data []byte) string {
	if len(data) <= InlineLimit && utf8.Valid(data) {
		return string(data)
	}
	text, _ := redact.Excerpt(data, ExcerptLimit)
	return text
}

// Retry describes an earlier try of the attempt, which ended in an
// infrastructure error.
type Retry struct {
	Candidate string        `json:"candidate,omitzero"` // its digest, if one was stored
	Error     string        `json:"error"`
	Phase     verdict.Phase `json:"phase"`
}

// Digests bind a line to its inputs. Those of hidden data are keyed with the
// run's salt.
type Digests struct {
	Assets    string `json:"assets"`
	Candidate string `json:"candidate,omitzero"`
	Config    string `json:"config"`
	Extracted string `json:"extracted,omitzero"` // the part extracted from the candidate
	Image     string `json:"image,omitzero"`
	Pack      string `json:"pack"`
	Row       string `json:"row"`
	Verifier  string `json:"verifier"`
}

// RawFile refers to raw output in the restricted folder.
type RawFile struct {
	Bytes  int64  `json:"bytes,omitzero"` // 0 for a verifier's output, whose size is not published
	Digest string `json:"digest"`
	Path   string `json:"path"`
}

// Score returns 1 for a pass and 0 otherwise.
func (l *Line) Score() float64 {
	if l.Passed {
		return 1
	}
	return 0
}

// Check compares the raw output in the output directory with the record.
func (f RawFile) Check(fsys fs.FS, salt digest.Salt, taskID string) error {
	if !strings.HasPrefix(f.Path, RestrictedName+"/") || !fs.ValidPath(f.Path) {
		return fmt.Errorf("%q is not a path below %s", f.Path, RestrictedName)
	}
	data, err := ReadFile(fsys, f.Path, maxRaw)
	if err != nil {
		return fmt.Errorf("reading raw output: %w", err)
	}
	if f.Bytes != 0 && int64(len(data)) != f.Bytes || salt.Keyed("restricted", taskID, data) != f.Digest {
		return fmt.Errorf("%s does not match its digest in the record", f.Path)
	}
	return nil
}

// wire is the JSON form of a line: keys in alphabetical order, as in the
// reference. Fields that may be absent are pointers.
type wire struct {
	Agent              string                  `json:"agent"`
	Attempt            int                     `json:"attempt"`
	Basis              *verdict.Basis          `json:"basis,omitzero"`
	BenchmarkID        string                  `json:"benchmark_id"`
	CandidatePatch     *string                 `json:"candidate_patch"`
	CandidateText      *string                 `json:"candidate_text"`
	CandidateWorkspace *string                 `json:"candidate_workspace"`
	Containment        verdict.Containment     `json:"containment"`
	Digests            Digests                 `json:"digests"`
	FailureMessage     *string                 `json:"failure_message,omitzero"`
	FailurePhase       *verdict.Phase          `json:"failure_phase,omitzero"`
	FailureReason      *verdict.Reason         `json:"failure_reason,omitzero"`
	HiddenValues       string                  `json:"hidden_values"`
	Index              int                     `json:"index"`
	Judge              *verdict.Judgement      `json:"judge,omitzero"`
	Labels             []string                `json:"labels"`
	MAC                string                  `json:"mac"`
	Measure            *verdict.Measure        `json:"measure,omitzero"`
	Outcome            verdict.Outcome         `json:"outcome"`
	Passed             *bool                   `json:"passed,omitzero"`
	Prev               string                  `json:"prev"`
	ProducerMetadata   verdict.Metadata        `json:"producer_metadata"`
	ProducerStderr     string                  `json:"producer_stderr"`
	ProducerStdout     string                  `json:"producer_stdout"`
	Summary            []task.ResourceSummary  `json:"resource_summary"`
	Restricted         []RawFile               `json:"restricted"`
	Retries            []Retry                 `json:"retries"`
	RunID              string                  `json:"run_id"`
	Score              jsontext.Value          `json:"score,omitzero"`
	Seq                int64                   `json:"seq"`
	TaskID             string                  `json:"task_id"`
	TaskType           string                  `json:"task_type"`
	Timings            map[verdict.Phase]int64 `json:"timings_ms"`
	Usage              map[string]int64        `json:"usage"`
	Status             verdict.Status          `json:"verification_status"`
	VerifierMetadata   *verdict.Metadata       `json:"verifier_metadata,omitzero"`
	VerifierStderr     *string                 `json:"verifier_stderr,omitzero"`
	VerifierStdout     *string                 `json:"verifier_stdout,omitzero"`
	Workers            By                      `json:"workers,omitzero"`
}

// capturedWire is the JSON form of a line of [CapturedName].
type capturedWire struct {
	wire
	Produced jsontext.Value `json:"produced,omitzero"`
}

// wire returns the JSON form of the line, without its position in the chain.
func (l *Line) wire() wire {
	w := wire{
		RunID: l.RunID, TaskID: l.TaskID, BenchmarkID: l.BenchmarkID, TaskType: l.TaskType, Status: l.Status,
		ProducerStdout: l.ProducerStdout, ProducerStderr: l.ProducerStderr, ProducerMetadata: l.ProducerMetadata,
		Summary: l.Summary, HiddenValues: task.Redacted,
		Index: l.Index, Attempt: l.Attempt, Retries: l.Retries, Agent: l.Agent,
		Outcome: l.Outcome, Containment: l.Containment, Judge: l.Judge, Measure: l.Measure, Labels: l.Labels,
		Digests: l.Digests, Timings: l.Timings, Usage: l.Usage, Restricted: l.Restricted, Workers: l.Workers,
	}
	if at := w.place(l.Candidate.Kind); at != nil {
		*at = &l.Candidate.Shown
	}
	if !l.NoBasis {
		w.Basis = &l.Basis
	}
	if l.FailureReason != "" {
		w.FailureReason, w.FailurePhase, w.FailureMessage = &l.FailureReason, &l.FailurePhase, &l.FailureMessage
	}
	if l.Status != verdict.StatusPending {
		w.Passed, w.Score = &l.Passed, fmt.Appendf(nil, "%.1f", l.Score())
	}
	if l.Verified {
		w.VerifierStdout, w.VerifierStderr, w.VerifierMetadata = &l.VerifierStdout, &l.VerifierStderr, &l.VerifierMetadata
	}
	return w
}

// line is the inverse of [Line.wire].
func (w *wire) line() *Line {
	l := &Line{
		RunID: w.RunID, TaskID: w.TaskID, BenchmarkID: w.BenchmarkID, TaskType: w.TaskType, Status: w.Status,
		ProducerStdout: w.ProducerStdout, ProducerStderr: w.ProducerStderr, ProducerMetadata: w.ProducerMetadata,
		Summary:  w.Summary,
		Verified: w.VerifierMetadata != nil, Passed: value(w.Passed),
		VerifierStdout: value(w.VerifierStdout), VerifierStderr: value(w.VerifierStderr), VerifierMetadata: value(w.VerifierMetadata),
		Index: w.Index, Attempt: w.Attempt, Retries: w.Retries, Agent: w.Agent,
		Outcome: w.Outcome, FailureReason: value(w.FailureReason), FailurePhase: value(w.FailurePhase), FailureMessage: value(w.FailureMessage),
		Containment: w.Containment, Basis: value(w.Basis), NoBasis: w.Basis == nil, Judge: w.Judge, Measure: w.Measure, Labels: w.Labels,
		Digests: w.Digests, Timings: w.Timings, Usage: w.Usage, Restricted: w.Restricted, Workers: w.Workers,
	}
	for _, kind := range []task.CandidateKind{task.Text, task.Patch, task.Workspace} {
		if shown := *w.place(kind); shown != nil { // of several, With writes one
			l.Candidate = Candidate{kind, *shown}
		}
	}
	return l
}

// value returns what p points to, or the zero value.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// link is a line's position in the chain.
type link struct {
	seq  int64
	prev string // the digest of the previous line
}

// marshal renders the line with its position in the chain and its MAC, in the
// reference's form: keys sorted, ASCII only, ", " and ": " as separators,
// without a newline.
func (l *Line) marshal(at link, salt digest.Salt, field string) ([]byte, error) {
	w := capturedWire{l.wire(), l.Produced}
	w.Seq, w.Prev = at.seq, at.prev
	b, err := w.encode(field)
	if err != nil {
		return nil, err
	}
	return bytes.Replace(b, []byte(noMAC), []byte(`"mac": "`+mac(salt, field, w.TaskID, b)+`"`), 1), nil
}

// encode renders a line of a file.
func (w *capturedWire) encode(field string) ([]byte, error) {
	if field == recordField {
		return encode(&w.wire)
	}
	return encode(w)
}

// noMAC is the empty MAC of a line that has not been authenticated. It occurs
// only once: quotes inside strings are escaped, and the keys before it are
// fixed.
const noMAC = `"mac": ""`

// mac authenticates a line of a file to whoever holds the run's salt: b is the line with
// an empty MAC. Anyone could compute the chain by itself.
func mac(salt digest.Salt, field, taskID string, b []byte) string {
	return salt.Keyed(field, taskID, b)
}

// encode renders v as json.dumps(v, sort_keys=True) would.
func encode(v any) ([]byte, error) {
	b, err := jsonv2.Marshal(v, jsonv2.Deterministic(true), jsonv2.FormatNilMapAsNull(false),
		jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true))
	if err != nil {
		return nil, fmt.Errorf("encoding a record: %w", err)
	}
	return redact.ASCII(b), nil
}
