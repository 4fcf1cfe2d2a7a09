package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// The phases of an attempt, as failure_phase and timings name them.
const (
	phasePrepare = verdict.PhasePrepare
	phaseProduce = verdict.PhaseProduce
	phaseCapture = verdict.PhaseCapture
	phaseVerify  = verdict.PhaseVerify
	// phaseSandboxes is the wait for the verifier's sandboxes, in timings.
	phaseSandboxes verdict.Phase = "verifier_sandboxes"
)

// attempt is one try at one task on its way to a record.
type attempt struct {
	r       *run
	task    task.Task
	family  family.Family
	number  int
	dir     string
	image   sandbox.Image
	retries []record.Retry
	turn    time.Time // when a worker took the attempt up
	raw     []record.RawFile
	partial *record.Line // what is known of a try that an error cut short
	stored  string       // the digest of the try's candidate, once it is stored

	phase      verdict.Phase
	session    family.Session
	production Production
	prepareErr error
	timings    map[verdict.Phase]int64
	total      time.Duration // that is told; 0 is all of it
}

func (r *run) newAttempt(j job) *attempt {
	a := &attempt{r: r, task: j.task, number: j.number, dir: j.dir, family: r.Families[j.task.Family()],
		image: r.Images[j.task.Environment().Image]}
	a.reset()
	return a
}

func (a *attempt) reset() {
	a.phase, a.prepareErr, a.partial, a.stored, a.total = phasePrepare, nil, nil, "", 0
	a.timings = map[verdict.Phase]int64{}
}

// unscored says why the attempt stays pending, or "".
func (a *attempt) unscored() (verdict.Reason, string) {
	return unscored(a.task, a.family, a.verifier())
}

func unscored(t task.Task, fam family.Family, v family.Verifier) (verdict.Reason, string) {
	switch {
	case v == nil:
		return verdict.NoVerifier, fmt.Sprintf("family %s has no verifier", t.Family())
	case fam.Pending != nil:
		return fam.Pending(t.TestSandbox(), t.Evaluator())
	}
	return "", ""
}

// verifier returns the family's verifier, or nil where it has none.
func (a *attempt) verifier() family.Verifier { return a.r.Verifiers[a.task.Family()] }

// prepare makes what the attempt needs before its turn comes. Its error is
// kept for run, which owns the retries.
func (a *attempt) prepare(ctx context.Context) {
	if reason, _ := a.unscored(); reason != "" {
		return // pending: the agent is not run
	}
	v, start := a.verifier(), time.Now()
	c := verifyCase(a.task, a.family, a.number, a.image, a.r.Verify, a.r.VerifyTimeout)
	// A candidate that is there already may ask the verifier for help first;
	// an agent's sandbox and the verifier's are made side by side.
	if a.r.Agent.Sandboxed() {
		a.session = v.Open(ctx, c)
	}
	a.production, a.prepareErr = a.r.Agent.Prepare(ctx, Attempt{
		Task: a.task, Number: a.number, Dir: a.dir, Image: a.image, Observe: a.observe(),
		Reference: func(ctx context.Context) (family.Candidate, bool, error) { return reference(ctx, v, a.family, c) },
	})
	if a.session == nil {
		c.Lazy = isBlank(a.production)
		a.session = v.Open(ctx, c)
	}
	a.took(phasePrepare, start)
}

// observe returns what gets the agent's output while it runs.
func (a *attempt) observe() func(string) io.WriteCloser {
	if a.r.Observe == nil {
		return nil
	}
	return a.r.Observe(a.task.ID())
}

// verifyCase is what a verifier gets of an attempt. The family's own time
// limit holds unless the run sets one.
func verifyCase(t task.Task, fam family.Family, n int, img sandbox.Image, limits sandbox.Limits, timeout time.Duration) family.Case {
	limits.Timeout = timeout
	if timeout <= 0 {
		limits.Timeout = time.Duration(fam.VerifySeconds) * time.Second
	}
	return family.Case{Attempt: n, Sandbox: t.TestSandbox(), Evaluator: t.Evaluator(), Image: img, Limits: limits}
}

// take hands the sandboxes over for release.
func (a *attempt) take() (family.Session, Production) {
	s, p := a.session, a.production
	a.session, a.production = nil, nil
	return s, p
}

func (a *attempt) took(phase verdict.Phase, start time.Time) {
	a.timings[phase] += time.Since(start).Milliseconds()
}

// run takes a prepared attempt to its line. An error is ours.
func (a *attempt) run(ctx context.Context) (*record.Line, error) {
	if reason, message := a.unscored(); reason != "" {
		return a.pending(reason, message), nil
	}
	if a.prepareErr != nil {
		return nil, a.prepareErr
	}
	out, err := a.produce(ctx)
	if err != nil {
		return nil, err
	}
	line := a.line(out)
	a.partial = line
	if err := a.restrict(line, agentSide, map[string][]byte{"stdout": out.Stdout, "stderr": out.Stderr}); err != nil {
		return nil, err
	}
	switch {
	case out.Limit != nil:
		a.limited(line, out)
	case out.Rejection != nil:
		a.rejected(line, out)
	case out.Candidate != nil:
		err = a.verify(ctx, line, out)
	default:
		err = errNoProduction
	}
	line.Timings["total"] = cmp.Or(a.total, time.Since(a.turn)).Milliseconds()
	return line, err
}

func (a *attempt) produce(ctx context.Context) (Produced, error) {
	a.phase = phaseProduce
	a.r.Progress.Event(progress.ProducerStart{TaskID: a.task.ID()})
	a.tellSandbox()
	start := time.Now()
	out, err := a.production.Run(ctx)
	if err != nil {
		return out, err
	}
	a.timings[phaseProduce] = (time.Since(start) - out.Capture).Milliseconds()
	a.timings[phaseCapture] = out.Capture.Milliseconds()
	a.tell(out)
	return out, nil
}

// tellSandbox reports what an agent is about to run in.
func (a *attempt) tellSandbox() {
	argv, workdir := a.production.Command()
	if argv == nil {
		return
	}
	id, image := a.task.ID(), a.image.Ref
	a.r.Progress.Event(progress.SandboxCreate{TaskID: id, Kind: "agent", Image: image, Network: "none", ReadOnly: true})
	a.r.Progress.Event(progress.SandboxCommand{TaskID: id, Kind: "agent", Image: image, Workdir: workdir, Argv: argv})
}

// tell reports what came of a production.
func (a *attempt) tell(out Produced) {
	id := a.task.ID()
	if out.Argv != nil {
		a.r.Progress.Event(progress.SandboxResult{TaskID: id, Kind: "agent", ExitCode: out.ExitCode, Argv: out.Argv,
			Stdout: string(out.Stdout), Stderr: string(out.Stderr)})
	}
	switch {
	case out.Limit != nil:
		a.r.Progress.Event(progress.ProducerDone{TaskID: id, CandidateKind: "none", Status: verdict.StatusFailed, Reason: limitReason(out.Limit.End)})
	case out.Rejection != nil:
		a.r.Progress.Event(progress.ProducerDone{TaskID: id, CandidateKind: "none", Status: verdict.StatusFailed, Reason: out.Rejection.Reason})
	case out.Candidate != nil:
		a.r.Progress.Event(progress.ProducerDone{TaskID: id, CandidateKind: string(out.Candidate.Kind)})
	}
}

// verify stores the candidate and scores exactly the stored bytes.
func (a *attempt) verify(ctx context.Context, line *record.Line, out Produced) error {
	a.phase = phaseVerify
	if err := a.r.Store.Put(*out.Candidate); err != nil {
		return outputError(err)
	}
	a.stored = out.Candidate.Digest
	data, err := a.r.Store.Get(a.stored)
	if err != nil {
		return outputError(err)
	}
	a.candidate(line, out)
	a.r.Progress.Event(progress.VerifierStart{TaskID: a.task.ID()})
	start := time.Now()
	v, err := a.session.Verify(ctx, family.Candidate{Kind: out.Candidate.Kind, Data: data, Said: capture.Said(out.Candidate.From)})
	if err != nil {
		return fmt.Errorf("verifying: %w", err)
	}
	a.timings[phaseSandboxes] = v.Waited.Milliseconds()
	a.timings[phaseVerify] = (time.Since(start) - v.Waited).Milliseconds()
	a.judge(line, out, v)
	if v.Outcome != verdict.Passed {
		if err := a.hold(&v, start); err != nil {
			return err
		}
	}
	if err := a.restrict(line, verifierSide, v.Restricted); err != nil {
		return err
	}
	if err := a.extracted(line, out, v); err != nil {
		return err
	}
	a.r.Progress.Event(progress.VerifierDone{TaskID: a.task.ID(), Status: line.Status, Score: v.Score(), Phase: v.Phase})
	return nil
}

// extracted stores what was taken from the candidate. Nothing of the attempt
// can fail behind it, so that no try leaves one without its record.
func (a *attempt) extracted(line *record.Line, out Produced, v family.Verdict) error {
	if v.Extracted == nil {
		return nil
	}
	c := capture.New(out.Candidate.Kind, out.Candidate.From, v.Extracted)
	if err := a.r.Store.Put(c); err != nil {
		return outputError(err)
	}
	line.Digests.Extracted = c.Digest
	return nil
}

// hold moves to the restricted output what could lead to a hidden value if the
// failures of many candidates were published: how near they came, and how long
// their verification took, which a candidate can stretch by what it is asked.
func (a *attempt) hold(v *family.Verdict, start time.Time) error {
	_, held := a.published(*v)
	times := map[verdict.Phase]int64{phaseSandboxes: a.timings[phaseSandboxes], phaseVerify: a.timings[phaseVerify]}
	delete(a.timings, phaseSandboxes)
	delete(a.timings, phaseVerify)
	a.total = max(start.Sub(a.turn), time.Millisecond)
	if len(held) == 0 {
		return nil
	}
	b, err := digest.Canonical(map[string]any{"verifier_metadata": held, "timings_ms": times})
	if err != nil {
		return fmt.Errorf("encoding what is held back of a verdict: %w", err)
	}
	files := map[string][]byte{"verdict.json": append(b, '\n')}
	maps.Copy(files, v.Restricted)
	v.Restricted = files
	return nil
}

// The sides that raw output comes from.
const (
	agentSide    = "agent"
	verifierSide = "verifier"
)

// restrict stores raw output and notes it in the line. The length of a
// verifier's is no part of the note: it depends on hidden values.
func (a *attempt) restrict(line *record.Line, side string, files map[string][]byte) error {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if len(files[name]) == 0 {
			continue
		}
		path := fmt.Sprintf("%s/%d/%s-%s", a.dir, a.number, side, name)
		if n := len(a.retries); n > 0 { // the evidence of former tries stays
			path = fmt.Sprintf("%s/%d/retry%d-%s-%s", a.dir, a.number, n, side, name)
		}
		raw, err := a.r.Dir.Restrict(a.task.ID(), path, files[name])
		if err != nil {
			return outputError(err)
		}
		if side == verifierSide {
			raw.Bytes = 0
		}
		a.raw = append(a.raw, raw)
	}
	line.Restricted = a.raw
	return nil
}

// firstLine is what a record says of an error: bounded, since an engine's
// message can be as long as it likes.
func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	s, _ = redact.EscapedExcerpt([]byte(s), 1<<10)
	return s
}

// packFault is the line of an attempt that the pack's own files kept from
// being made: pending and final, since no other try would do better.
func (a *attempt) packFault(err error) *record.Line {
	line := a.pending(verdict.PackFault, firstLine(err))
	line.FailurePhase, line.Retries, line.Restricted = a.phase, a.retries, a.raw
	return line
}

// infrastructure is the line of an attempt that we could not bring to an end:
// pending, counted, shown, and run again by a later resume.
func (a *attempt) infrastructure(err error) *record.Line {
	line := a.partial
	if line == nil {
		line = a.line(Produced{Metadata: map[string]any{}})
	}
	line.Retries, line.Restricted = a.retries, a.raw
	line.Verified, line.Passed, line.VerifierMetadata = false, false, nil // no verdict counts that could not be kept
	line.Status = verdict.StatusPending
	line.Outcome = verdict.Infrastructure
	line.FailureReason = verdict.InfrastructureError
	line.FailurePhase = a.phase
	line.FailureMessage = firstLine(err)
	return line
}
