package attempt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/verdict"
)

// Local makes calls in this process. It must not be copied.
type Local struct {
	Agent     agent.Agent
	Verifiers map[string]family.Verifier // by family
	Store     Store
	// Observe is called for each try of an attempt, and returns the function that
	// provides a writer for each of its agent's streams; nil discards them.
	Observe func(taskID string, attempt int) func(stream string) io.WriteCloser
	// Starts is called before an agent begins, with what will run in its sandbox;
	// nil is not.
	Starts func(req agent.Request, c agent.Command)

	held sync.Map // by attempt
}

// Store keeps candidates.
type Store interface {
	candidate.Sink
	// Find returns a stored candidate, ready to be opened.
	Find(c candidate.Candidate) (candidate.Candidate, error)
}

var _ Worker = (*Local)(nil)

// held is what an attempt has between calls.
type held struct {
	production agent.Production
	err        error           // of preparing it
	ran        *produce.Result // once the agent has ended
	session    family.Session
	spent      []family.Session // in which something was scored
}

// of returns what an attempt has.
func (l *Local) of(key record.AttemptKey) *held {
	got, _ := l.held.LoadOrStore(key, &held{})
	h, _ := got.(*held)
	return h
}

// Ahead makes the agent's sandbox, and meanwhile the verifier's. An agent that needs
// no sandbox comes first: one that leaves nothing to verify needs none for that.
func (l *Local) Ahead(ctx context.Context, req *agent.Request, c *family.Case) {
	if c != nil && (req == nil || l.Agent.Sandboxed()) {
		l.open(ctx, *c)
	}
	if req == nil {
		return
	}
	h := l.of(keyOf(*req))
	h.err = l.prepare(ctx, h, *req)
	if c != nil {
		later := *c
		later.Lazy = h.production == nil || agent.Blank(h.production)
		l.open(ctx, later)
	}
}

func keyOf(req agent.Request) record.AttemptKey {
	return record.AttemptKey{Task: req.View.ID(), Attempt: req.Attempt}
}

// open opens the attempt's session, unless it has one in which nothing was scored or its
// family has no verifier.
func (l *Local) open(ctx context.Context, c family.Case) *held {
	h := l.of(record.AttemptKey{Task: c.Sandbox.ID(), Attempt: c.Attempt})
	if v := l.Verifiers[c.Sandbox.Family()]; v != nil && h.session == nil {
		h.session = v.Open(ctx, c)
	}
	return h
}

// prepare makes the production of an attempt.
func (l *Local) prepare(ctx context.Context, h *held, req agent.Request) (err error) {
	out := agent.Output{Sink: l.Store}
	if l.Observe != nil {
		out.Observe = l.Observe(req.View.ID(), req.Attempt)
	}
	h.production, err = agent.Prepare(ctx, l.Agent, req, out)
	return err
}

// Produce runs the agent, unless it has run, and stores what it left.
func (l *Local) Produce(ctx context.Context, req agent.Request) (p Produced, err error) {
	h := l.of(keyOf(req))
	took := Timings{}
	if h.production == nil && h.err == nil {
		start := time.Now()
		h.err = l.prepare(ctx, h, req)
		took.Add(verdict.PhasePrepare, start)
	}
	if err, h.err = h.err, nil; err != nil {
		failed := Failed(err, verdict.PhasePrepare)
		failed.Took = took
		return p, failed
	}
	if h.ran == nil {
		if l.Starts != nil {
			l.Starts(req, h.production.Command())
		}
		start := time.Now()
		ran, err := h.production.Run(ctx)
		took.Add(verdict.PhaseProduce, start)
		if err != nil {
			failed := Failed(err, verdict.PhaseProduce)
			failed.Usage, failed.Raw, failed.Took = ran.Usage, ran.Raw, took
			return p, failed
		}
		h.ran = &ran
	}
	start := time.Now()
	left, err := captured(ctx, h)
	if err == nil && left.Candidate == nil && left.Rejection == nil && left.Limit == "" {
		err = errors.New("the production has neither a candidate nor a reason for its absence")
	}
	if err != nil {
		s, ok := h.production.(agent.Standing)
		failed := Failed(err, verdict.PhaseCapture)
		failed.Stands, failed.Took = ok && s.Standing(ctx), took
		failed.Usage, failed.Raw = h.ran.Usage, h.ran.Raw
		return p, failed
	}
	took.Add(verdict.PhaseCapture, start)
	p = produced(*h.ran, left)
	p.Took = took
	return p, nil
}

// captured reads what the agent of an attempt left.
func captured(ctx context.Context, h *held) (left capture.Result, err error) {
	defer fault.Recover(&err)
	return h.production.Capture(ctx, *h.ran)
}

// produced joins what an agent did and what it left.
func produced(ran produce.Result, left capture.Result) Produced {
	p := Produced{
		Candidate: left.Candidate, Rejection: left.Rejection, Limit: left.Limit,
		Argv: ran.Argv, End: ran.Outcome.End, ExitCode: ran.Outcome.ExitCode, Timeout: ran.Timeout,
		Capabilities: ran.Capabilities, DiskSampled: ran.DiskSampled, Labels: ran.Labels, Refusal: ran.Refusal,
		Metadata: verdict.Metadata{}, Usage: ran.Usage,
	}
	if c := left.Candidate; c != nil && c.Origin == candidate.File && !c.IsTree() {
		p.Path = ran.Extract.Path
	}
	maps.Copy(p.Metadata, ran.Metadata)
	maps.Copy(p.Metadata, left.Metadata)
	p.noteCut()
	delete(p.Metadata, capture.MissingRoots) // which the row names in a lane that is not published
	p.Stdout, _ = redact.EscapedExcerpt(left.Stdout, record.ExcerptLimit)
	p.Stderr, _ = redact.EscapedExcerpt(left.Stderr, record.ExcerptLimit)
	p.Raw = map[string][]byte{"stdout": left.Stdout, "stderr": left.Stderr, capture.MissingRoots + ".json": left.Metadata[capture.MissingRoots]}
	maps.Copy(p.Raw, ran.Raw)
	return p
}

// noteCut notes on the candidate that the model's last answer had reached its most tokens.
// What an agent wrote to a file was written before.
func (p *Produced) noteCut() {
	if p.Candidate != nil && p.Candidate.Origin != candidate.File && verdict.CutOff(p.Metadata.Text(verdict.StopKey)) {
		c := *p.Candidate
		c.CutOff = true
		p.Candidate = &c
	}
}

// Verify scores a stored candidate, in the session that was made ahead if there is one.
func (l *Local) Verify(ctx context.Context, req Verification) (family.Verdict, error) {
	c, err := l.Store.Find(req.Candidate)
	if err != nil {
		return family.Verdict{}, Failed(err, verdict.PhaseVerify)
	}
	h := l.open(ctx, req.Case)
	session := h.session
	if session == nil {
		return family.Verdict{}, Failed(fmt.Errorf("family %s has no verifier", req.Case.Sandbox.Family()), verdict.PhaseVerify)
	}
	h.session, h.spent = nil, append(h.spent, session)
	v, err := family.Verify(ctx, session, c)
	if err != nil {
		return family.Verdict{}, Failed(err, verdict.PhaseVerify)
	}
	return v, nil
}

// Release removes the sandboxes of an attempt.
func (l *Local) Release(ctx context.Context, key record.AttemptKey) error {
	got, _ := l.held.LoadAndDelete(key)
	h, ok := got.(*held)
	if !ok {
		return nil
	}
	if h.session != nil {
		h.spent = append(h.spent, h.session)
	}
	var errs []error
	for _, s := range h.spent {
		errs = append(errs, s.Close(ctx))
	}
	if h.production != nil {
		errs = append(errs, h.production.Close(ctx))
	}
	return errors.Join(errs...)
}
