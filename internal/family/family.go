// Package family holds the contract between a benchmark family and the rest:
// its row schema, its lanes, what an agent hands in, and the verifier that
// scores it. Each family is one package below this one and one line in the
// registry that the command builds; nothing else switches on a family's name.
package family

import (
	"context"
	"sort"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Family describes one benchmark family.
type Family struct {
	Name string
	// InputSchema and EvalSchema are JSON Schemas (draft 2020-12) of a
	// row's input and eval objects; nil accepts anything, as for families
	// that have no validator.
	InputSchema, EvalSchema []byte
	// Check applies the rules that a schema cannot say; nil is none.
	Check func(Row) []Problem
	// Lanes maps eval keys to lanes; a key that is missing here is hidden.
	Lanes map[string]task.Lane
	// EvalFiles lead to strings inside eval that name files below the pack's
	// evaluation root, such as {"checker", "path"}.
	EvalFiles [][]string
	// Extraction is how a candidate is taken by default.
	Extraction task.Extraction
	// Instruction tells an agent what to hand in.
	Instruction string
	// TimeLimit returns the row's own time limit of a verification; 0 is
	// none. The smaller of it and the operator's holds. Nil is no such row.
	TimeLimit func(task.SandboxView) time.Duration
	// NeedsImage is set when verification runs in the row's image.
	NeedsImage bool
	// VerifySeconds is the default time limit of a verification.
	VerifySeconds int
	// Reference returns the row's own solution for the oracle agent and for
	// validation; nil or false if there is none.
	Reference func(task.EvaluatorView) (Solution, bool)
	// Starter returns what the row gives the agent to begin with, which must
	// not pass; nil or false where there is none.
	Starter func(task.AgentView) (candidate.Candidate, bool)
	// Baselines are blind answers that validation tries on every row. A family
	// has them only if a verification needs no sandbox.
	Baselines []Baseline
	// Chance is the chance that a guess passes a row; nil or false where
	// nobody knows how many answers the question has.
	Chance func(task.EvaluatorView) (float64, bool)
	// Pending says why a row has no verdict although its family has a
	// verifier: a reason and one line; "" is a row that is scored. The agent
	// is not run for a pending row. Nil is no such row.
	Pending func(task.SandboxView, task.EvaluatorView) (verdict.Reason, string)
	// PublicMetadata lists the keys of a verdict's metadata that a record shows
	// whatever the outcome. The others may tell how near a candidate came to a
	// hidden value, and with enough failures lead to it: they are published for
	// a pass alone.
	PublicMetadata []string
	// NewVerifier makes the family's verifier; nil means that tasks stay
	// pending with reason no_verifier.
	NewVerifier func(Resources) Verifier
}

// Row is the part of a row that a family checks.
type Row struct {
	ID          string
	Input, Eval map[string]jsontext.Value
	Environment map[string]jsontext.Value // with the manifest's defaults
}

// Problem is a rule that a row breaks. Path leads to the value inside the
// row: {"eval", "answer"}.
type Problem struct {
	Path    []string
	Message string
	Fix     string
}

// Registry holds the families by name.
type Registry map[string]Family

// NewRegistry makes a registry of fs.
func NewRegistry(fs ...Family) Registry {
	r := make(Registry, len(fs))
	for _, f := range fs {
		r[f.Name] = f
	}
	return r
}

// Names lists the families in alphabetical order.
func (r Registry) Names() []string {
	out := make([]string, 0, len(r))
	for n := range r {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// Solution is a row's own solution: a candidate, or a program that makes one
// in the agent's sandbox.
type Solution struct {
	Candidate candidate.Candidate
	// Command is the argv of the program; nil means that the candidate is the
	// solution. A family whose solutions are programs needs an image.
	Command []string
}

// Solve returns a solution that is a candidate.
func Solve(kind task.CandidateKind, text string) Solution {
	return Solution{Candidate: candidate.New(kind, candidate.Given, []byte(text))}
}

// Verdict is what a verifier decided. The zero value is a failure. It can be
// encoded.
type Verdict struct {
	Outcome verdict.Outcome `json:"outcome"`         // Passed, Failed, Limit, VerifierTimeout, Tampering or Pending
	Reason  verdict.Reason  `json:"reason,omitzero"` // "" when passed
	// Message is one line in the framework's own words. No byte of the
	// candidate and no hidden value stands in it.
	Message     string              `json:"message,omitzero"`
	Phase       verdict.Phase       `json:"phase,omitzero"` // for the record's failure_phase and metadata
	Containment verdict.Containment `json:"containment"`
	Labels      []string            `json:"labels,omitzero"` // for the record, e.g. "heuristic"
	// Metadata becomes verifier_metadata, in part where the candidate did not
	// pass (see [Family.PublicMetadata]); "verifier" is set by the caller.
	Metadata verdict.Metadata `json:"metadata,omitzero"`
	// Extraction names how the candidate was taken from what an agent said;
	// "" is a family that takes all of it.
	Extraction string `json:"extraction,omitzero"`
	// Extracted is what was taken, where it is not the candidate as it came.
	// It is published.
	Extracted []byte `json:"extracted,omitzero"`
	// Waited is how long Verify waited for sandboxes.
	Waited time.Duration `json:"waited_ns,omitzero"`
	// Restricted holds raw output by file name; it is never published.
	Restricted map[string][]byte `json:"restricted,omitzero"`
}

// Score is 1 for a pass and 0 for everything else.
func (v Verdict) Score() float64 {
	if v.Outcome == verdict.Passed {
		return 1
	}
	return 0
}

// Resources is what a verifier may use.
type Resources struct {
	Engine sandbox.Engine
	RunID  string
	// Workers is how many verifications run at once; what a verifier keeps
	// warm is bounded by it. 0 is 1.
	Workers int
	// Files are the pack's files, for test sandboxes.
	Files Files
}

// Case is one attempt to verify, but for its candidate. It can be encoded.
type Case struct {
	Attempt   int                `json:"attempt"`
	Sandbox   task.SandboxView   `json:"sandbox"`
	Evaluator task.EvaluatorView `json:"evaluator"`
	Image     sandbox.Image      `json:"image"`  // the row's, resolved; zero when NeedsImage is false
	Limits    sandbox.Limits     `json:"limits"` // Timeout is the limit of the verification
	// Seed is a secret of this attempt. The parent derives it from the run's
	// salt, which it keeps.
	Seed [32]byte `json:"seed"`
	// Lazy makes sandboxes only when Verify needs them: the candidate is
	// likely to need none.
	Lazy bool `json:"lazy,omitzero"`
}

// Verifier scores the candidates of one family. It is safe for concurrent
// use and owns what it keeps warm between cases.
type Verifier interface {
	// Open begins a verification before its candidate exists, so that
	// sandboxes can be made while the agent works. It returns at once.
	Open(ctx context.Context, c Case) Session
	// Close releases what is kept warm. No session is open any more.
	Close(ctx context.Context) error
}

// Completer is a [Verifier] that can tell whether a row's reference is a
// candidate as it stands or only the rest of one, such as a function's body
// that continues the prompt.
type Completer interface {
	// Complete returns the reference as a whole candidate, false for a row
	// without one.
	Complete(ctx context.Context, c Case) (candidate.Candidate, bool, error)
}

// Twin is a variant of a row's reference that is wrong, but that weak tests
// take for right.
type Twin struct {
	What      string // is wrong with it, in one phrase
	Candidate candidate.Candidate
}

// Twinner is a [Verifier] that knows how tests of its family are weak.
type Twinner interface {
	// Twins returns the twins of a row's reference; most rows have none.
	Twins(ctx context.Context, c Case) ([]Twin, error)
}

// Session is one verification.
type Session interface {
	// Verify scores the candidate; it may be called once. An error means
	// that the engine or this process failed and the attempt can be retried.
	Verify(ctx context.Context, c candidate.Candidate) (Verdict, error)
	// Close releases the session's sandboxes. It is idempotent.
	Close(ctx context.Context) error
}

// VerifyLimit is the time limit of a verification: the smaller of the row's and
// the operator's where both are given, the family's default if neither is. A
// limit of 0 means that the operator set none.
func (f Family) VerifyLimit(v task.SandboxView, operator time.Duration) time.Duration {
	row := time.Duration(0)
	if f.TimeLimit != nil {
		row = f.TimeLimit(v)
	}
	switch {
	case row > 0 && operator > 0:
		return min(row, operator)
	case row > 0 || operator > 0:
		return max(row, operator)
	}
	return time.Duration(f.VerifySeconds) * time.Second
}

// Seconds reads a number of seconds from a resource's object: the value at
// key, 0 where there is none. Schemas check the range.
func Seconds(r task.Resource, key string) time.Duration {
	var fields map[string]jsontext.Value
	var seconds float64
	if json.Unmarshal(r.Value, &fields) != nil || json.Unmarshal(fields[key], &seconds) != nil {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}
