// Package capture turns an agent's output or files into a candidate: a typed,
// bounded value named by its digest. It runs after every process of the
// agent's sandbox is dead, and from then on only the stored content counts.
package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"securebench/internal/candidate"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Request describes what an agent did and what to capture. It can be encoded.
type Request struct {
	Extraction task.Extraction  `json:"extraction"`
	Outcome    sandbox.Outcome  `json:"outcome"`
	Limit      int64            `json:"limit"` // of a text, code or patch in bytes; 0 is the default
	Tree       candidate.Bounds `json:"tree"`
	// Workdir is where the workspace was in the sandbox, and Captured says which
	// of the sandbox's files make up a tree.
	Workdir  string        `json:"workdir,omitzero"`
	Captured task.Captured `json:"captured,omitzero"`
	// ScoreTimeouts takes a tree also from an agent that ran out of time.
	ScoreTimeouts bool `json:"score_timeouts,omitzero"`
	// Public holds the digests of the public files that were placed in the
	// workspace, by path.
	Public map[string]string `json:"public,omitzero"`
	Stdout []byte            `json:"stdout,omitzero"`
	// Structured says that Stdout is not what the agent printed, but Answer is.
	Structured bool   `json:"structured,omitzero"`
	Answer     []byte `json:"answer,omitzero"`
	Stderr     []byte `json:"stderr,omitzero"`
}

// Result is what was captured. At most one of Candidate, Rejection and Limit is
// set. It can be encoded; the content of the candidate is in the sink.
type Result struct {
	Candidate *candidate.Candidate `json:"candidate,omitzero"`
	Rejection *candidate.Rejection `json:"rejection,omitzero"`
	// Limit is the sandbox limit that ended the agent, or that explains why it
	// left nothing.
	Limit sandbox.End `json:"limit,omitzero"`
	// Stdout and Stderr are the agent's streams without secrets.
	Stdout []byte `json:"stdout,omitzero"`
	Stderr []byte `json:"stderr,omitzero"`
	// Metadata adds to the record's producer_metadata.
	Metadata verdict.Metadata `json:"metadata,omitzero"`
}

// Stage captures candidates. It is safe for concurrent use.
type Stage struct {
	// Secrets are redacted in everything that leaves the stage; nil means
	// none.
	Secrets *redact.Registry
	// Sink stores the content of candidates.
	Sink candidate.Sink
	// Checkout is the agent's repository; nil for a task without one.
	Checkout *Checkout
	// Base is what the workspace held before the agent came; a tree
	// holds the changes; nil is an empty folder.
	Base *candidate.Base
	// Root reads the agent's sandbox, which has ended; nil if nothing of it is
	// captured but the workspace.
	Root sandbox.RootReader
}

// Capture takes the candidate out of the streams, the workspace and the
// repository of a finished agent. An error is the engine's or the sink's.
func (s Stage) Capture(ctx context.Context, req Request, space sandbox.Workspace) (Result, error) {
	if req.Limit <= 0 {
		req.Limit = candidate.DefaultLimit
	}
	if s.Secrets == nil {
		s.Secrets = new(redact.Registry)
	}
	clean := s.Secrets.Split(req.Stdout, req.Stderr)
	res := Result{Stdout: clean[0], Stderr: clean[1]}
	if !req.counts() {
		res.Limit = req.Outcome.End // partial work is never scored
		return res, nil
	}
	j := job{s, req, space}
	var c candidate.Candidate
	var err error
	if req.Extraction.Mode == task.FromWorkspace {
		c, err = j.tree(ctx, &res)
	} else {
		c, err = j.bytes(ctx, &res)
	}
	if !errors.As(err, &res.Rejection) && err != nil {
		return Result{}, fmt.Errorf("capturing the candidate: %w", err)
	}
	if r := res.Rejection; r != nil { // it may quote a name from the workspace
		res.Rejection = &candidate.Rejection{Reason: r.Reason, Message: string(s.Secrets.Bytes([]byte(r.Message)))}
	}
	if seen := req.Outcome.Seen; res.missing() && len(seen) > 0 {
		// A limit explains a missing candidate, but does not invalidate an
		// existing one.
		res.Limit, res.Rejection = seen[0], nil
		return res, nil
	}
	if res.missing() && req.failed() { // so does an error of the agent's own
		res.Rejection = candidate.Reject(verdict.AgentFailed, "the agent ended with exit code %d and left no candidate", req.Outcome.ExitCode)
	}
	if err == nil {
		res.Candidate = &c
	}
	return res, nil
}

// counts reports whether what the agent left can be a candidate.
func (r Request) counts() bool {
	return r.Outcome.End == sandbox.Exited ||
		r.Outcome.End == sandbox.TimedOut && r.ScoreTimeouts && r.Extraction.Mode == task.FromWorkspace
}

// explained reports whether something is known that kept the agent from leaving a
// candidate. A blank one is none then.
func (r Request) explained() bool { return len(r.Outcome.Seen) > 0 || r.failed() }

// failed reports whether the agent ended by itself, with an error.
func (r Request) failed() bool { return r.Outcome.End == sandbox.Exited && r.Outcome.ExitCode != 0 }

// errBlank ends the capture of a blank text whose reason is known.
func errBlank() error {
	return candidate.Reject(verdict.CandidateMissing, "the agent left nothing but blanks")
}

func (r Result) missing() bool {
	return r.Rejection != nil && r.Rejection.Reason == verdict.CandidateMissing
}

// job is one capture.
type job struct {
	Stage
	Request
	space sandbox.Workspace
}

// bytes takes a text, code or patch and redacts it beside the streams, since a
// secret may begin in one and continue in another.
func (j job) bytes(ctx context.Context, res *Result) (candidate.Candidate, error) {
	data, origin, err := j.take(ctx, res)
	if err != nil {
		return candidate.Candidate{}, err
	}
	raw, err := candidate.Admit(j.Extraction.Kind, origin, data, j.Limit)
	if err != nil {
		return candidate.Candidate{}, err
	}
	if j.explained() && len(bytes.TrimSpace(data)) == 0 {
		return candidate.Candidate{}, errBlank()
	}
	clean := j.Secrets.Split(j.Stdout, j.Stderr, data)
	res.Stdout, res.Stderr = clean[0], clean[1]
	if raw.Kind == task.Patch && !bytes.Equal(clean[2], data) {
		// A patch that is edited afterwards is another patch, or none.
		return candidate.Candidate{}, errSecret("the patch")
	}
	// What replaces a secret can be longer.
	if _, err := candidate.Admit(raw.Kind, origin, clean[2], j.Limit); err != nil {
		return candidate.Candidate{}, err
	}
	c, err := j.Sink.Put(raw.Kind, origin, bytes.NewReader(clean[2]))
	c.Redacted = c.Digest != raw.Digest
	return c, err
}

func (j job) take(ctx context.Context, res *Result) (data []byte, origin candidate.Origin, err error) {
	switch j.Extraction.Mode {
	case task.FromStdout:
		return j.printed(), candidate.Stdout, nil
	case task.FromFile:
		data, err := j.file(ctx)
		if j.Extraction.OrStdout && useStdout(err) {
			return j.printed(), candidate.Stdout, nil
		}
		return data, candidate.File, err
	case task.FromGitDiff:
		m := verdict.Metadata{}
		data, origin, err := j.patch(ctx, m)
		if len(m) > 0 {
			res.Metadata = m
		}
		return data, origin, err
	}
	return nil, "", fmt.Errorf("capture cannot take a candidate by %q", j.Extraction.Mode)
}

// printed returns what counts as printed by the agent.
func (r Request) printed() []byte {
	if r.Structured {
		return r.Answer
	}
	return r.Stdout
}

// useStdout reports whether a file is absent or untouched, so that standard
// output is the candidate. An existing file that is not acceptable is not a
// reason to look elsewhere.
func useStdout(err error) bool {
	var r *candidate.Rejection
	return errors.As(err, &r) && r.Reason == verdict.CandidateMissing
}
