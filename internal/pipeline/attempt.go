package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/verdict"
)

// ongoing is an attempt on its way through the two calls to a record. The
// results are in the draft.
type ongoing struct {
	r      *run
	draft  *commit.Draft
	family family.Family

	phase   verdict.Phase // in progress, for the record of an error
	request agent.Request
	err     error          // of preparing the request
	stands  bool           // the agent has ended, and its candidate can be taken again
	ahead   bool           // the verification is prepared
	held    bool           // the worker has something of the attempt
	stay    *capacity.Stay // on the machine; nil has no bound
}

func (r *run) begin(a commit.Attempt) *ongoing {
	return &ongoing{r: r, family: r.Families[a.Task.Family()], phase: verdict.PhasePrepare, draft: r.committer.Draft(a)}
}

func (a *ongoing) id() string { return a.draft.Task.ID() }

func (a *ongoing) key() record.AttemptKey {
	return record.AttemptKey{Task: a.id(), Attempt: a.draft.Number}
}

// unscored returns why the attempt stays pending, or "".
func (a *ongoing) unscored() (verdict.Reason, string) {
	return a.family.Unscored(a.draft.Task, a.r.Verifiers[a.draft.Task.Family()])
}

// verification returns the request for the verification, without the
// candidate.
func (a *ongoing) verification() family.Case {
	cases := family.Cases{Limits: a.r.Verify, Timeout: a.r.VerifyTimeout, Derive: a.r.Dir.Salt().Derive}
	return cases.Case(a.draft.Task, a.family, a.draft.Number, a.draft.Image)
}

// prepare lets the worker prepare the next calls ahead of their turn. It keeps its
// error for run, which handles the retries.
func (a *ongoing) prepare(ctx context.Context) {
	a.phase, a.err, a.ahead = verdict.PhasePrepare, nil, false
	former := a.r.Unverified[a.key()]
	if reason, _ := a.unscored(); reason != "" && (reason != verdict.Budget || former == nil) {
		return // pending: the agent is not run
	}
	if a.r.Fault != nil {
		if a.err = a.r.Fault(ctx, a.draft.Task); a.err != nil {
			return
		}
	}
	if former != nil && a.draft.Retries() == 0 {
		if err := a.draft.Resume(former); err != nil {
			a.r.Progress.Event(progress.Warning{Message: fmt.Sprintf("task %s is run again: %s", a.id(), commit.Line(err))})
		}
	}
	defer a.draft.Took(verdict.PhasePrepare, time.Now())
	c := a.verification()
	if a.draft.Candidate() != nil { // the verification alone is repeated
		a.open(ctx, c)
		return
	}
	if a.request, a.err = a.newRequest(ctx, c); a.err != nil {
		return
	}
	a.held, a.ahead = true, a.stay.Ahead()
	if a.ahead {
		a.r.Worker.Ahead(ctx, &a.request, &c)
	} else {
		a.r.Worker.Ahead(ctx, &a.request, nil)
	}
}

// open lets the worker prepare only the verification.
func (a *ongoing) open(ctx context.Context, c family.Case) {
	a.held, a.ahead = true, true
	a.r.Worker.Ahead(ctx, nil, &c)
}

// enter waits until the machine has room for the attempt. It returns false if the
// run ends.
func (a *ongoing) enter(ctx context.Context) bool {
	if reason, _ := a.unscored(); reason != "" || a.r.Plan == nil {
		return true // nothing runs, or there is no bound
	}
	var err error
	if a.stay, err = a.r.Plan.Enter(ctx, a.r.Load(a.draft.Task)); err != nil {
		a.r.cancel(err)
	}
	return err == nil
}

// newRequest returns what the agent is given.
func (a *ongoing) newRequest(ctx context.Context, c family.Case) (agent.Request, error) {
	t := a.draft.Task
	req := agent.Request{View: t.Agent(), Attempt: a.draft.Number, Dir: a.draft.Dir, Image: a.draft.Image, Captured: t.Captured()}
	if show := a.family.Presentations; show != nil {
		req.Shown = show(req.View, c)
	}
	if !agent.Submits(a.r.Agent) {
		return req, nil
	}
	sol, ok, err := a.family.Solution(ctx, a.r.Verifiers[t.Family()], c)
	if err != nil {
		return req, fmt.Errorf("completing the reference solution: %w", err)
	}
	if ok {
		req.Solution, err = attempt.Solution(sol)
	}
	return req, err
}

// run takes a prepared attempt through its calls and returns its record. An
// error is an infrastructure error.
func (a *ongoing) run(ctx context.Context) (*record.Line, error) {
	if reason, message := a.unscored(); reason != "" && a.draft.Candidate() == nil {
		return a.draft.Pending(reason, message), nil
	}
	if a.err != nil {
		return nil, a.err
	}
	if a.draft.Candidate() == nil {
		if err := a.produce(ctx); err != nil {
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

// produce runs the agent, unless it has run, and keeps what came of it.
func (a *ongoing) produce(ctx context.Context) error {
	a.phase = verdict.PhaseProduce
	p, err := a.r.Worker.Produce(ctx, a.request)
	a.stands = false
	if e, ok := errors.AsType[*attempt.Error](err); ok {
		a.phase, a.stands = e.Phase, e.Stands
		if ctx.Err() == nil && e.Class != attempt.Spent {
			err = cmp.Or(a.draft.Failed(e), err)
		}
	}
	if err != nil {
		return err
	}
	a.phase = verdict.PhaseCapture
	a.madeBy()
	a.reportProduced(p)
	if err := a.draft.Produced(p); err != nil || agent.Repeatable(a.r.Agent) {
		return err
	}
	return a.draft.Captured()
}

// madeBy records who has made the calls until now, if that is not this process.
func (a *ongoing) madeBy() {
	if f, ok := a.r.Worker.(attempt.Fleet); ok {
		a.draft.MadeBy(f.By(a.key()))
	}
}

// verify scores the stored candidate.
func (a *ongoing) verify(ctx context.Context, c candidate.Candidate) error {
	a.phase = verdict.PhaseVerify
	req := attempt.Verification{Case: a.verification(), Candidate: c}
	if !a.ahead { // there was no room beside the agent's sandbox, which is removed first
		select {
		case <-a.r.remove(a, nil):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		a.open(ctx, req.Case)
	}
	cores, err := a.stay.Cores(ctx)
	if err != nil {
		return err
	}
	defer cores.Release()
	a.r.Progress.Event(progress.VerifierStart{TaskID: a.id(), Attempt: a.draft.Number})
	start := time.Now()
	v, err := a.r.Worker.Verify(ctx, req)
	if errors.Is(err, candidate.ErrDamaged) {
		return fmt.Errorf("%w: %w", ErrOutput, err)
	}
	if err != nil {
		return fmt.Errorf("verifying: %w", err)
	}
	a.madeBy()
	if err := a.draft.Verdict(v, start); err != nil {
		return err
	}
	a.r.Progress.Event(progress.VerifierDone{TaskID: a.id(), Attempt: a.draft.Number, Status: commit.Judge(v).Status, Score: v.Score(), Phase: v.Phase})
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
		r.summary.Add(FinalOf(line))
	}
}

// reportStart reports that an agent begins, and what it is about to run in.
func (r *run) reportStart(req agent.Request, c agent.Command) {
	id := req.View.ID()
	r.Progress.Event(progress.ProducerStart{TaskID: id, Attempt: req.Attempt})
	if c.Argv == nil {
		return
	}
	r.Progress.Event(progress.SandboxCreate{TaskID: id, Attempt: req.Attempt, Kind: "agent", Image: c.Image, Network: "none", ReadOnly: !req.View.Environment().WritableRoot})
	r.Progress.Event(progress.SandboxCommand{TaskID: id, Attempt: req.Attempt, Kind: "agent", Image: c.Image, Workdir: c.Workdir, Argv: c.Argv})
}

// reportProduced reports what came of an agent.
func (a *ongoing) reportProduced(p attempt.Produced) {
	id := a.id()
	if p.Argv != nil {
		a.r.Progress.Event(progress.SandboxResult{TaskID: id, Attempt: a.draft.Number, Kind: "agent", ExitCode: p.ExitCode, Argv: p.Argv, Stdout: string(p.Raw["stdout"]), Stderr: string(p.Raw["stderr"])})
	}
	switch {
	case p.Limit != "":
		a.r.Progress.Event(progress.ProducerDone{TaskID: id, Attempt: a.draft.Number, CandidateKind: "none", Status: "failed", Reason: commit.LimitReason(p.Limit)})
	case p.Rejection != nil:
		a.r.Progress.Event(progress.ProducerDone{TaskID: id, Attempt: a.draft.Number, CandidateKind: "none", Status: "failed", Reason: p.Rejection.Reason})
	case p.Candidate != nil:
		a.r.Progress.Event(progress.ProducerDone{TaskID: id, Attempt: a.draft.Number, CandidateKind: string(p.Candidate.Kind)})
	}
}
