package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/pipeline/agent"
	calls "securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/pipeline/verify"
	"securebench/internal/progress"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// attempt takes one attempt at a task through the stages to a record. It holds
// the resources that have to be released; the results are in the draft.
type attempt struct {
	r      *run
	draft  *commit.Draft
	family family.Family

	phase      verdict.Phase // the stage in progress, for the record of an error
	session    family.Session
	production agent.Production
	produced   *produce.Result // of the production, which then waits to be captured
	prepareErr error
	stay       *capacity.Stay // on the machine; nil has no bound
}

func (r *run) newAttempt(j job) *attempt {
	return &attempt{r: r, family: r.Families[j.task.Family()], phase: verdict.PhasePrepare,
		draft: r.committer.Draft(commit.Attempt{Task: j.task, Number: j.number, Dir: j.dir, Image: r.Images[j.task.Environment().Image]})}
}

func (a *attempt) id() string { return a.draft.Task.ID() }

// unscored returns why the attempt stays pending, or "".
func (a *attempt) unscored() (verdict.Reason, string) {
	return verify.Unscored(a.draft.Task, a.family, a.verifier())
}

// verifier returns the family's verifier, or nil if it has none.
func (a *attempt) verifier() family.Verifier { return a.r.Verifiers[a.draft.Task.Family()] }

// verification returns the request for the verification, without the
// candidate.
func (a *attempt) verification() family.Case {
	cases := verify.Cases{Limits: a.r.Verify, Timeout: a.r.VerifyTimeout, Derive: a.r.Dir.Salt().Derive}
	return cases.Case(a.draft.Task, a.family, a.draft.Number, a.draft.Image)
}

// prepare creates the attempt's sandboxes ahead of its turn. It keeps its
// error for run, which handles the retries.
func (a *attempt) prepare(ctx context.Context) {
	a.phase, a.prepareErr, a.produced = verdict.PhasePrepare, nil, nil
	if reason, _ := a.unscored(); reason != "" {
		return // pending: the agent is not run
	}
	if a.r.Fault != nil {
		if a.prepareErr = a.r.Fault(ctx, a.draft.Task); a.prepareErr != nil {
			return
		}
	}
	if former := a.r.Unverified[record.AttemptKey{Task: a.id(), Attempt: a.draft.Number}]; former != nil && a.draft.Retries() == 0 {
		if err := a.draft.Resume(former); err != nil {
			a.r.Progress.Event(progress.Warning{Message: fmt.Sprintf("task %s is run again: %s", a.id(), commit.Line(err))})
		}
	}
	start := time.Now()
	c, v := a.verification(), a.verifier()
	if a.draft.Candidate() != nil { // the verification alone is repeated
		a.session = v.Open(ctx, c)
		a.draft.Took(verdict.PhasePrepare, start)
		return
	}
	// An agent that needs no sandbox may use the verifier first; otherwise the
	// agent's sandbox and the verifier's are created in parallel.
	ahead := a.stay.Ahead()
	if ahead && a.r.Agent.Sandboxed() {
		a.session = v.Open(ctx, c)
	}
	req := agent.Request{View: a.draft.Task.Agent(), Attempt: a.draft.Number, Dir: a.draft.Dir, Image: a.image(), Captured: a.draft.Task.Captured()}
	if req.Solution, a.prepareErr = a.solution(ctx, c); a.prepareErr == nil {
		a.production, a.prepareErr = a.r.Agent.Prepare(ctx, req, agent.Output{Sink: a.r.committer, Observe: a.observe()})
	}
	if ahead && a.session == nil {
		c.Lazy = a.production == nil || agent.Blank(a.production)
		a.session = v.Open(ctx, c)
	}
	a.draft.Took(verdict.PhasePrepare, start)
}

// solution returns the row's own solution if the agent submits it.
func (a *attempt) solution(ctx context.Context, c family.Case) (*agent.Solution, error) {
	if !agent.Submits(a.r.Agent) {
		return nil, nil
	}
	sol, ok, err := verify.Reference(ctx, a.verifier(), a.family, c)
	if err != nil {
		return nil, fmt.Errorf("completing the reference solution: %w", err)
	}
	if !ok {
		return nil, nil
	}
	return calls.Solution(sol)
}

// image returns the image that the agent runs in.
func (a *attempt) image() sandbox.Image {
	if e, ok := a.r.Agent.(agent.Elsewhere); ok {
		return e.RunsIn(a.draft.Image)
	}
	return a.draft.Image
}

// observe returns the function that receives the agent's output while it runs.
func (a *attempt) observe() func(string) io.WriteCloser {
	if a.r.Observe == nil {
		return nil
	}
	return a.r.Observe(a.id(), a.draft.Number)
}

// take returns the sandboxes for release and forgets them.
func (a *attempt) take() (family.Session, agent.Production) {
	s, p := a.session, a.production
	a.session, a.production = nil, nil
	return s, p
}

// run takes a prepared attempt through the stages and returns its record. An
// error is an infrastructure error.
func (a *attempt) run(ctx context.Context) (*record.Line, error) {
	if reason, message := a.unscored(); reason != "" {
		return a.draft.Pending(reason, message), nil
	}
	if a.prepareErr != nil {
		return nil, a.prepareErr
	}
	if a.draft.Candidate() == nil {
		if err := a.produce(ctx); err != nil {
			return nil, err
		}
		if err := a.capture(ctx, *a.produced); err != nil {
			return nil, err
		}
	}
	if c := a.draft.Candidate(); c != nil {
		if err := a.verify(ctx, *c); err != nil {
			return nil, err
		}
	}
	return a.draft.Line(), nil
}

// produce runs the agent, unless it has run.
func (a *attempt) produce(ctx context.Context) error {
	if a.produced != nil {
		return nil
	}
	a.phase = verdict.PhaseProduce
	a.r.Progress.Event(progress.ProducerStart{TaskID: a.id(), Attempt: a.draft.Number})
	a.reportSandbox()
	defer a.draft.Took(verdict.PhaseProduce, time.Now())
	out, err := a.production.Run(ctx)
	if err != nil {
		if ctx.Err() == nil {
			err = cmp.Or(a.draft.Tried(err), err)
		}
		return err
	}
	a.produced = &out
	return nil
}

// standing reports whether the agent has ended and what it left can still be
// captured: then it is not run again.
func (a *attempt) standing(ctx context.Context) bool {
	if a.produced == nil || a.draft.Candidate() != nil {
		return false
	}
	s, ok := a.production.(agent.Standing)
	return ok && s.Standing(ctx)
}

// capture takes and stores the candidate.
func (a *attempt) capture(ctx context.Context, out produce.Result) error {
	a.phase = verdict.PhaseCapture
	start := time.Now()
	left, err := a.production.Capture(ctx)
	if err != nil {
		return err
	}
	a.draft.Took(verdict.PhaseCapture, start)
	a.reportProduced(out, left)
	if err := a.draft.Produced(out, left); err != nil || agent.Repeatable(a.r.Agent) {
		return err
	}
	return a.draft.Captured()
}

// verify scores the stored candidate.
func (a *attempt) verify(ctx context.Context, c candidate.Candidate) error {
	a.phase = verdict.PhaseVerify
	if err := a.openLate(ctx); err != nil {
		return err
	}
	cores, err := a.stay.Cores(ctx)
	if err != nil {
		return err
	}
	defer cores.Release()
	a.r.Progress.Event(progress.VerifierStart{TaskID: a.id(), Attempt: a.draft.Number})
	start := time.Now()
	v, err := a.session.Verify(ctx, c)
	if errors.Is(err, candidate.ErrDamaged) {
		return fmt.Errorf("%w: %w", ErrOutput, err)
	}
	if err != nil {
		return fmt.Errorf("verifying: %w", err)
	}
	if err := a.draft.Verdict(v, start); err != nil {
		return err
	}
	a.r.Progress.Event(progress.VerifierDone{TaskID: a.id(), Attempt: a.draft.Number, Status: commit.Judge(v).Status, Score: v.Score(), Phase: v.Phase})
	return nil
}

// openLate opens the session if there was no room for it beside the agent's
// sandbox, which is removed first.
func (a *attempt) openLate(ctx context.Context) error {
	if a.session != nil {
		return nil
	}
	select {
	case <-a.r.remove(a, nil):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	a.session = a.verifier().Open(ctx, a.verification())
	return nil
}

// keepUnverified writes the former records of attempts that have no new one,
// because the run was cut short: the next part must not make another candidate
// for what waits to be verified.
func (r *run) keepUnverified() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range slices.SortedFunc(maps.Values(r.unverified), record.InOrder) {
		if err := r.committer.Append(commit.Entry{Line: line}); err != nil {
			r.cancel(err)
			return
		}
		r.summary.count(FinalOf(line))
	}
}

// reportSandbox reports what an agent is about to run in.
func (a *attempt) reportSandbox() {
	argv, workdir := a.production.Command()
	if argv == nil {
		return
	}
	id, image := a.id(), a.image().Ref
	a.r.Progress.Event(progress.SandboxCreate{TaskID: id, Attempt: a.draft.Number, Kind: "agent", Image: image, Network: "none", ReadOnly: !a.draft.Task.Environment().WritableRoot})
	a.r.Progress.Event(progress.SandboxCommand{TaskID: id, Attempt: a.draft.Number, Kind: "agent", Image: image, Workdir: workdir, Argv: argv})
}

// reportProduced reports the result of a production.
func (a *attempt) reportProduced(out produce.Result, left capture.Result) {
	id := a.id()
	if out.Argv != nil {
		a.r.Progress.Event(progress.SandboxResult{TaskID: id, Attempt: a.draft.Number, Kind: "agent", ExitCode: out.Outcome.ExitCode, Argv: out.Argv, Stdout: string(left.Stdout), Stderr: string(left.Stderr)})
	}
	switch {
	case left.Limit != "":
		a.r.Progress.Event(progress.ProducerDone{TaskID: id, Attempt: a.draft.Number, CandidateKind: "none", Status: "failed", Reason: commit.LimitReason(left.Limit)})
	case left.Rejection != nil:
		a.r.Progress.Event(progress.ProducerDone{TaskID: id, Attempt: a.draft.Number, CandidateKind: "none", Status: "failed", Reason: left.Rejection.Reason})
	case left.Candidate != nil:
		a.r.Progress.Event(progress.ProducerDone{TaskID: id, Attempt: a.draft.Number, CandidateKind: string(left.Candidate.Kind)})
	}
}
