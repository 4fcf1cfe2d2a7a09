// Package attempt carries out the two calls that an attempt consists of:
// [Worker.Produce] runs an agent and takes its candidate, and [Worker.Verify]
// scores it. They take and return values ([Encode]), so that a call can be made
// in another process or on another machine. What is kept warm between calls
// stays inside of the worker.
package attempt

import (
	"context"
	"time"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// Worker makes the calls of attempts. It is safe for concurrent use, but the
// calls of one attempt are made one after the other.
type Worker interface {
	// Ahead makes what the next calls of an attempt need while others run; either
	// is nil. What goes wrong is the error of that call.
	Ahead(ctx context.Context, produce *agent.Request, verify *family.Case)
	// Produce runs an agent and stores the candidate that it left. An error is an
	// [*Error]; if its Stands is set, the next call takes the candidate of the
	// agent that has run, as long as nothing was released.
	Produce(ctx context.Context, req agent.Request) (Produced, error)
	// Verify scores a stored candidate. An error is an [*Error]: the engine's or the
	// store's.
	Verify(ctx context.Context, req Verification) (family.Verdict, error)
	// Release lets go of what an attempt has. It is idempotent.
	Release(ctx context.Context, key record.AttemptKey) error
}

// Fleet is a worker that stands for others on other machines.
type Fleet interface {
	Worker
	// By says which of them made the calls of an attempt.
	By(key record.AttemptKey) record.By
}

// Verification is a request to score a candidate. It can be encoded; the content of
// the candidate is in the store.
type Verification struct {
	Case      family.Case         `json:"case"`
	Candidate candidate.Candidate `json:"candidate"`
}

// Produced is all that comes of an agent. At most one of Candidate, Rejection
// and Limit is set. It can be encoded; the candidate's content is in the store.
type Produced struct {
	Candidate *candidate.Candidate `json:"candidate,omitzero"`
	// Path is where the candidate was, if it was a file.
	Path string `json:"path,omitzero"`
	// Rejection says why the agent left no candidate, and Limit which limit ended
	// it or explains that.
	Rejection *candidate.Rejection `json:"rejection,omitzero"`
	Limit     sandbox.End          `json:"limit,omitzero"`

	// Argv is what ran, until End, within Timeout; nil if no command did.
	Argv     []string      `json:"argv,omitzero"`
	End      sandbox.End   `json:"end,omitzero"`
	ExitCode int           `json:"exit_code,omitzero"`
	Timeout  time.Duration `json:"timeout_ns,omitzero"`
	// Capabilities are those granted to the sandbox; DiskSampled is set if the
	// size of its root was not bounded but sampled; Labels say what the agent
	// could reach beyond it.
	Capabilities []sandbox.Capability `json:"capabilities,omitzero"`
	DiskSampled  bool                 `json:"disk_sampled,omitzero"`
	Labels       []string             `json:"labels,omitzero"`
	// Refusal says why the provider refused, "" if it is not known.
	Refusal string `json:"refusal,omitzero"`

	Metadata verdict.Metadata `json:"metadata,omitzero"` // of the record's producer_metadata
	Usage    map[string]int64 `json:"usage,omitzero"`
	// Stdout and Stderr are what a record shows of the agent's streams. Raw holds
	// them whole, and other files for the operator, by name.
	Stdout string            `json:"stdout,omitzero"`
	Stderr string            `json:"stderr,omitzero"`
	Raw    map[string][]byte `json:"raw,omitzero"`
	Took   Timings           `json:"took_ms,omitzero"`
}

// Timings are milliseconds by phase.
type Timings map[verdict.Phase]int64

// Add adds the time since start.
func (t Timings) Add(p verdict.Phase, start time.Time) { t[p] += time.Since(start).Milliseconds() }
