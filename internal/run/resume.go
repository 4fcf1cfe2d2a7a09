package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"securebench/internal/agent/setup"
	"securebench/internal/candidate"
	"securebench/internal/evidence"
	"securebench/internal/fault"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// openOutput begins a new run, or resumes the existing one.
func (r *Run) openOutput(ctx context.Context) error {
	switch {
	case r.Shard != nil:
		return r.openShard(ctx)
	case r.Mode == Fresh:
		return r.begin(ctx, false)
	case r.Mode == Replace:
		return r.begin(ctx, true)
	}
	former, err := r.dir.Former()
	if err != nil {
		return &FormerError{err}
	}
	if former == nil {
		r.warn(fmt.Sprintf("nothing to resume in %s: starting a new run", redact.Quote(r.Config.OutputDir)))
		return r.begin(ctx, true)
	}
	if err := r.undivided(former); err != nil {
		return err
	}
	if r.store, err = candidate.OpenStore(r.dir.StorePath()); err != nil {
		return err
	}
	return r.resume(ctx, former)
}

// formerEngine returns the engine of the run that is resumed, or "": for a new
// run, for one that needed none, and for one that cannot be read, which is
// reported later, when the output directory is locked.
func (r *Run) formerEngine() string {
	if !r.resumes() {
		return ""
	}
	root, err := os.OpenRoot(r.Config.OutputDir)
	if err != nil {
		return ""
	}
	defer root.Close()
	m, _, err := record.ReadManifest(source.FS(root))
	if err != nil {
		return ""
	}
	name, _ := m.EngineName()
	return name
}

// FormerError reports that the existing run in the output directory cannot be
// read.
type FormerError struct{ Err error }

// Error returns the reason.
func (e *FormerError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *FormerError) Unwrap() error { return e.Err }

// ExistsError says that an output directory holds a run, which a fresh one must not
// replace, and what can be done.
func ExistsError(dir string) error {
	return fault.Errorf(fault.Refused, "%s already holds a run: give --resume to continue it, --force to move it to history/, or another --output-dir", redact.Quote(dir))
}

// begin starts a new run.
func (r *Run) begin(ctx context.Context, force bool) error {
	if err := r.agent.Prepare(ctx, r.ground()); err != nil {
		return err
	}
	err := r.dir.Begin(force)
	if errors.Is(err, record.ErrExists) {
		return ExistsError(r.Config.OutputDir)
	}
	if err != nil {
		return err
	}
	if r.store, err = candidate.OpenStore(r.dir.StorePath()); err != nil {
		return err
	}
	if r.manifest, err = r.newManifest(); err != nil {
		return err
	}
	r.divide(nil)
	if err := r.writeInputs(); err != nil {
		return err
	}
	return r.dir.WriteManifest(&r.manifest)
}

// keep takes over a record of the earlier part.
func (r *Run) keep(e record.Entry) {
	r.kept = append(r.kept, pipeline.FinalOf(e.Line))
	if err := r.judged.Next(e.Line); err != nil && r.mixed == nil {
		r.mixed = fault.Errorf(fault.Integrity, "%s: the record of %s cannot be kept: %w (start anew with --force)", record.LinesName, redact.Quote(e.TaskID), err)
	}
}

// resume checks the existing part of the run and continues with the records
// that pass.
func (r *Run) resume(ctx context.Context, former *record.Former) (err error) {
	if err := r.prepareRest(ctx, former); err != nil {
		return err
	}
	if r.manifest, err = r.newManifest(); err != nil {
		return err
	}
	if err := r.sameInputs(former); err != nil {
		return err
	}
	review, err := r.review(former)
	if err != nil {
		return err
	}
	// A killed process may have left empty folders beside a complete run.
	if err := r.dir.Tidy(); err != nil {
		return err
	}
	if err := r.checkSeal(ctx, former, review); err != nil {
		return err
	}
	r.reportDropped(review)
	if err := errors.Join(review.EachKept(r.keep), r.mixed); err != nil {
		return err
	}
	if review.Lost != nil {
		r.warn(fmt.Sprintf("%v: its attempts are run again", review.Lost))
	}
	r.unverified, r.used = review.Unverified, review.Used
	m := &r.manifest
	m.Started, m.ResumedFrom = former.Manifest.Started, former.Manifest.ResumedFrom
	if former.Manifest.Digests.Config == m.Digests.Config {
		m.Judge = former.Manifest.Judge
		r.used = record.SumUsage(r.used, m.Judge.Used())
	}
	m.Steered = former.Manifest.Steered
	m.FormerRuns, m.Workers = max(m.FormerRuns, former.Manifest.FormerRuns), former.Manifest.Workers
	r.divide(former.Manifest.Shards)
	if former.Sealed && len(r.kept) == r.planned().All && len(review.Rerun) == 0 {
		r.warn(fmt.Sprintf("nothing to resume: the run is complete and signed (%d records)", r.planned().All))
		r.finished = true
		return nil
	}
	m.ResumedFrom = append(m.ResumedFrom, review.Resumption(now()))
	if err := r.dir.Continue(review, m); err != nil {
		return err
	}
	return r.writeInputs()
}

// ground is what the run has for its agent.
func (r *Run) ground() setup.Ground {
	g := setup.Ground{Scorer: r.scorer, Work: r.work, Workers: r.plan.Workers, Dir: r.dir, Answers: &r.answers, Used: r.used}
	if r.resumes() { // which goes on with the versions that it has
		if m, _, err := record.ReadManifest(r.dir.FS()); err == nil {
			g.Former = m.Programs
		}
	}
	return g
}

// prepareRest prepares the agent for the attempts that still need it. If there are
// none, the rest of the run needs neither the provider nor its key.
func (r *Run) prepareRest(ctx context.Context, former *record.Former) (err error) {
	if !r.agent.Facts().Spared {
		return r.agent.Prepare(ctx, r.ground())
	}
	r.produced = &former.Manifest
	if r.manifest, err = r.newManifest(); err != nil {
		return err
	}
	review, err := r.review(former)
	if err != nil {
		return err
	}
	if review.Kept+len(review.Unverified) == r.planned().All {
		return nil
	}
	r.produced = nil
	return r.agent.Prepare(ctx, r.ground())
}

// sameInputs refuses to resume a run whose inputs changed, and names each
// change.
func (r *Run) sameInputs(former *record.Former) error {
	changes := r.differences(former.Manifest)
	was, is := former.Manifest, r.manifest
	if was.RunID != is.RunID || was.Pack.ID != is.Pack.ID || was.Agent != is.Agent {
		return fault.As(fault.Refused, &OtherRunError{was, is})
	}
	if len(changes) > 0 && r.Mode != ResumeChanged {
		return fault.As(fault.Refused, &ChangedError{changes})
	}
	for _, change := range changes {
		r.warn(change + ": the attempts that it affects are run again")
	}
	return nil
}

// BrokenSealError reports that a complete run does not verify.
type BrokenSealError struct{ Problem evidence.Problem }

// Error names the first problem.
func (e *BrokenSealError) Error() string {
	return "every attempt has a record, but the run does not verify: " + e.Problem.String()
}

// checkSeal checks the statement of the existing run against its records.
func (r *Run) checkSeal(ctx context.Context, former *record.Former, review *record.Review) error {
	if !former.Sealed {
		return nil
	}
	res, err := evidence.Verify(ctx, r.dir.FS(), evidence.Options{})
	if err != nil {
		return err
	}
	if res.OK() {
		return nil
	}
	foreign := slices.ContainsFunc(res.Problems, func(p evidence.Problem) bool { return p.File != record.StatementName })
	if review.Kept == r.planned().All && len(review.Rerun) == 0 && foreign {
		return fault.As(fault.Integrity, &BrokenSealError{res.Problems[0]})
	}
	review.SealBroken()
	r.warn("the run was signed and has changed since: " + res.Problems[0].String())
	return nil
}
