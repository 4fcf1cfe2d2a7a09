// Package record writes what a run leaves behind: one chained JSON line per
// attempt, the run manifest, the salt, and the restricted raw output.
package record

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/digest"
	"securebench/internal/task"
)

// Bounds on what is published inline.
const (
	InlineLimit  = 64 << 10 // of a candidate
	ExcerptLimit = 8 << 10  // of an agent's output
)

// Genesis is the prev of the first line.
const Genesis = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// Line is one attempt's record. Its fields are those of the reference's
// records and the additions that bind a score to its inputs.
type Line struct {
	RunID, TaskID, BenchmarkID, TaskType string

	Status    string // pending, passed or failed
	Candidate Candidate

	ProducerStdout, ProducerStderr string // redacted, escaped excerpts
	ProducerMetadata               map[string]any
	Summary                        []task.Summary

	// Verified is set when a verdict exists: passed, score and the
	// verifier's fields are then part of the line.
	Verified         bool
	Passed           bool
	VerifierStdout   string
	VerifierStderr   string
	VerifierMetadata map[string]any

	Index, Attempt int // attempt counts from 1
	Retries        []Retry
	Agent          string
	Outcome        string
	FailureReason  string
	FailurePhase   string
	FailureMessage string
	Containment    string
	Labels         []string // sorted
	Digests        Digests
	Timings        map[string]int64 // milliseconds by phase
	Usage          map[string]int64
	Restricted     []RawFile
}

// Candidate is the published part of a candidate; nil fields are null.
type Candidate struct {
	Text, Patch, Workspace *string
}

// Retry is a former try of the attempt that an infrastructure error ended.
type Retry struct {
	Error string `json:"error"`
	Phase string `json:"phase"`
}

// Digests bind a line to its inputs. Those of hidden data are keyed by the
// run's salt.
type Digests struct {
	Assets    string `json:"assets"`
	Candidate string `json:"candidate,omitzero"`
	Config    string `json:"config"`
	Image     string `json:"image,omitzero"`
	Pack      string `json:"pack"`
	Row       string `json:"row"`
	Verifier  string `json:"verifier"`
}

// RawFile names raw output in the restricted folder.
type RawFile struct {
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest"`
	Path   string `json:"path"`
}

// Score is 1 for a pass and 0 for everything else.
func (l *Line) Score() float64 {
	if l.Passed {
		return 1
	}
	return 0
}

// marshal renders the line with its place in the chain, in the reference's
// form: keys sorted, ASCII only, ", " and ": " between. There is no newline.
func (l *Line) marshal(seq int64, prev string) ([]byte, error) {
	m := map[string]any{
		"run_id": l.RunID, "task_id": l.TaskID, "benchmark_id": l.BenchmarkID, "task_type": l.TaskType,
		"verification_status": l.Status,
		"candidate_text":      l.Candidate.Text, "candidate_patch": l.Candidate.Patch, "candidate_workspace": l.Candidate.Workspace,
		"producer_stdout": l.ProducerStdout, "producer_stderr": l.ProducerStderr,
		"producer_metadata": l.ProducerMetadata, "resource_summary": l.Summary, "hidden_values": task.Redacted,
		"seq": seq, "prev": prev, "index": l.Index, "attempt": l.Attempt, "retries": l.Retries,
		"agent": l.Agent, "outcome": l.Outcome, "containment": l.Containment, "labels": l.Labels,
		"digests": l.Digests, "timings_ms": l.Timings, "usage": l.Usage, "restricted": l.Restricted,
	}
	if l.FailureReason != "" {
		m["failure_reason"], m["failure_phase"], m["failure_message"] = l.FailureReason, l.FailurePhase, l.FailureMessage
	}
	if l.Status != "pending" {
		m["passed"], m["score"] = l.Passed, json.Number(fmt.Sprintf("%.1f", l.Score()))
	}
	if l.Verified {
		m["verifier_stdout"], m["verifier_stderr"] = l.VerifierStdout, l.VerifierStderr
		m["verifier_metadata"] = l.VerifierMetadata
	}
	return encode(m)
}

// encode renders v as json.dumps(v, sort_keys=True) would.
func encode(v any) ([]byte, error) {
	b, err := jsonv2.Marshal(v, jsonv2.Deterministic(true), jsonv2.FormatNilMapAsNull(false),
		jsonv2.WithMarshalers(jsonv2.MarshalToFunc(numberTo)),
		jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true))
	if err != nil {
		return nil, fmt.Errorf("encoding a record: %w", err)
	}
	return escapeASCII(b), nil
}

// numberTo writes a json.Number as it stands: a score is "1.0" there.
func numberTo(enc *jsontext.Encoder, n json.Number) error {
	return enc.WriteValue(jsontext.Value(n))
}

// escapeASCII replaces every character outside printable ASCII by \u escapes.
// Such characters occur only inside strings, where that is always allowed.
func escapeASCII(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		switch {
		case r < 0x7f:
			out = append(out, b[0])
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
		b = b[size:]
	}
	return out
}

// lineDigest is the prev of the line after b.
func lineDigest(b []byte) string { return digest.Bytes(b) }
