package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"securebench/internal/family"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Agent makes the candidates of a run. It is safe for concurrent use.
type Agent interface {
	// Name is the record's agent field.
	Name() string
	// Sandboxed reports whether the agent runs in the row's image.
	Sandboxed() bool
	// Prepare begins an attempt. The caller closes the production.
	Prepare(ctx context.Context, a Attempt) (Production, error)
}

// Attempt names one attempt of one task for an [Agent].
type Attempt struct {
	Task   task.Task
	Number int    // from 1
	Dir    string // the task's folder name in records
	Image  sandbox.Image
	// Reference returns the row's own solution; false where it has none.
	Reference func(context.Context) (family.Candidate, bool, error)
	// Observe returns what gets the agent's output while it runs; nil is
	// nobody.
	Observe func(stream string) io.WriteCloser
}

// Production is one attempt at a candidate.
type Production interface {
	// Run makes the candidate; it may be called once. An error means that
	// the engine or this process failed.
	Run(ctx context.Context) (Produced, error)
	// Command is what Run will run in a sandbox, and where; nil is nothing.
	Command() (argv []string, workdir string)
	// Close releases what the attempt held. It is idempotent.
	Close(ctx context.Context) error
}

// Produced is what came out of a production. Exactly one of Candidate,
// Rejection and Limit says what to do next.
type Produced struct {
	Candidate *capture.Candidate
	Rejection *capture.Rejection
	// Limit is set when the agent ran into a limit of its sandbox.
	Limit    *sandbox.Outcome
	Timeout  time.Duration // that was in force
	Argv     []string      // of the agent's command; nil where none ran
	ExitCode int
	Stdout   []byte
	Stderr   []byte
	Metadata map[string]any
	Usage    map[string]int64
	Capture  time.Duration // time spent on capture
}

// HarnessAgent runs a harness in sandboxes.
type HarnessAgent struct {
	Producer *produce.Producer
	RunID    string
	// Audit tells how many commands of an attempt the command policy let
	// through and blocked; nil counts nothing.
	Audit func(taskID string, attempt int) (allowed, denied int)
	// Redact takes secrets out of what the agent left: texts that are read
	// side by side, since a secret may begin in one and go on in another.
	Redact func(texts ...[]byte) [][]byte
	Limit  int64 // largest candidate in bytes
}

var _ Agent = (*HarnessAgent)(nil)

// Name returns the harness's name.
func (h *HarnessAgent) Name() string { return h.Producer.Harness.Name() }

// Sandboxed is true.
func (h *HarnessAgent) Sandboxed() bool { return true }

// Prepare makes the attempt's workspace and sandbox.
func (h *HarnessAgent) Prepare(ctx context.Context, a Attempt) (Production, error) {
	s, err := h.Producer.Prepare(ctx, produce.Request{
		View: a.Task.Agent(), Image: a.Image, Observe: a.Observe,
		Labels: sandbox.Labels{Run: h.RunID, Task: a.Task.ID(), Attempt: a.Number},
	})
	if err != nil {
		return nil, err
	}
	return &harnessProduction{agent: h, attempt: a, session: s}, nil
}

type harnessProduction struct {
	agent   *HarnessAgent
	attempt Attempt
	session *produce.Session
}

func (p *harnessProduction) Close(ctx context.Context) error { return p.session.Close(ctx) }

func (p *harnessProduction) Command() (argv []string, workdir string) { return p.session.Command() }

func (p *harnessProduction) Run(ctx context.Context) (Produced, error) {
	res, err := p.session.Run(ctx)
	if err != nil {
		return Produced{}, err
	}
	streams := p.agent.Redact(res.Stdout, res.Stderr)
	out := Produced{
		Stdout: streams[0], Stderr: streams[1],
		Timeout: res.Timeout, Argv: res.Plan.Argv, ExitCode: res.Outcome.ExitCode,
		Metadata: p.metadata(res), Usage: p.usage(),
	}
	if res.Outcome.End != sandbox.Exited {
		out.Limit = &res.Outcome
		return out, nil
	}
	start := time.Now()
	cand, err := capture.Capture(ctx, capture.Source{
		Extraction: res.Plan.Extract, Stdout: res.Stdout, Workspace: res.Workspace,
		Public: res.Public, Limit: p.agent.Limit,
		Redact: func(text []byte) []byte {
			all := p.agent.Redact(res.Stdout, res.Stderr, text)
			out.Stdout, out.Stderr = all[0], all[1]
			return all[2]
		},
	})
	out.Capture = time.Since(start)
	absent := errors.As(err, &out.Rejection) && out.Rejection.Reason == verdict.CandidateMissing
	if err != nil && out.Rejection == nil {
		return Produced{}, fmt.Errorf("capturing the candidate: %w", err)
	}
	nothing := absent || err == nil && len(bytes.TrimSpace(cand.Data)) == 0
	switch seen := res.Outcome.Seen; {
	case nothing && len(seen) > 0:
		// A limit explains that there is nothing; it voids nothing.
		res.Outcome.End, out.Rejection = seen[0], nil
		out.Limit = &res.Outcome
		return out, nil
	case out.Rejection != nil:
		return out, nil
	}
	out.Candidate = &cand
	out.Metadata[record.OriginKey] = cand.From
	if cand.From == string(task.FromFile) {
		out.Metadata["candidate_path"] = res.Plan.Extract.Path
	}
	return out, nil
}

func (p *harnessProduction) usage() map[string]int64 {
	if p.agent.Audit == nil {
		return nil
	}
	allowed, denied := p.agent.Audit(p.attempt.Task.ID(), p.attempt.Number)
	return map[string]int64{"commands_allowed": int64(allowed), "commands_denied": int64(denied)}
}

func (p *harnessProduction) metadata(res produce.Result) map[string]any {
	m := map[string]any{
		"harness": p.agent.Name(), "exit_code": res.Outcome.ExitCode,
		"workspace_root": "workspaces/" + p.attempt.Dir,
		"candidate_kind": string(res.Plan.Extract.Kind), record.OriginKey: string(res.Plan.Extract.Mode),
	}
	if len(res.Outcome.Seen) > 0 {
		m["limits_seen"] = res.Outcome.Seen
	}
	for k, v := range res.Plan.Metadata {
		m[k] = v
	}
	return m
}
