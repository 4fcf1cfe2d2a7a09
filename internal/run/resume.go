package run

import (
	"cmp"
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
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/verdict"
	"securebench/internal/workload"
)

// openOutput begins a new run, or resumes the existing one.
func (r *Run) openOutput(ctx context.Context) error {
	switch r.Mode {
	case Fresh:
		return r.begin(ctx, false)
	case Replace:
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
	if err := r.writeInputs(); err != nil {
		return err
	}
	return r.dir.WriteManifest(&r.manifest)
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
	if err := review.EachKept(func(e record.Entry) { r.kept = append(r.kept, pipeline.FinalOf(e.Line)) }); err != nil {
		return err
	}
	if review.Lost != nil {
		r.warn(fmt.Sprintf("%v: its attempts are run again", review.Lost))
	}
	r.unverified = review.Unverified
	m := &r.manifest
	m.Started, m.ResumedFrom = former.Manifest.Started, former.Manifest.ResumedFrom
	m.FormerRuns = max(m.FormerRuns, former.Manifest.FormerRuns)
	if former.Sealed && len(r.kept) == r.Planned() && len(review.Rerun) == 0 {
		r.warn(fmt.Sprintf("nothing to resume: the run is complete and signed (%d records)", r.Planned()))
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
	g := setup.Ground{Scorer: r.scorer, Work: r.work, Workers: r.plan.Workers, Dir: r.dir}
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
	if review.Kept+len(review.Unverified) == r.Planned() {
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

// review decides which records of the earlier part are kept: none of an agent that
// failed if the run stopped for that, unless they are to be scored.
func (r *Run) review(former *record.Former) (*record.Review, error) {
	if r.KeepGoing || former.Sealed || !former.Manifest.AgentsFailed {
		return r.reviewOnce(former, nil)
	}
	return r.reviewOnce(former, func(e record.Entry) string {
		if e.FailureReason == verdict.AgentFailed || e.Answers().Unanswered > 0 {
			return record.AgentsFailed
		}
		return ""
	})
}

// reviewOnce decides with one more reason to drop a record, unless it is nil.
func (r *Run) reviewOnce(former *record.Former, besides func(record.Entry) string) (*record.Review, error) {
	rows, err := r.work.Open()
	if err != nil {
		return nil, fault.As(fault.Pack, err)
	}
	defer rows.Close()
	j := inputs{run: r, former: former, rows: rows, images: r.imageNames(), byID: make(map[string]workload.Row, len(r.work.Rows))}
	for _, row := range r.work.Rows {
		j.byID[row.ID] = row
	}
	if besides == nil {
		besides = func(record.Entry) string { return "" }
	}
	review, err := former.Review(r.stored, func(e record.Entry) string { return cmp.Or(j.reason(e), besides(e)) })
	if err != nil {
		return nil, fmt.Errorf("%w: %w", record.ErrIntegrity, err)
	}
	return review, j.err
}

// inputs compares records with the inputs of the resumed run.
type inputs struct {
	run    *Run
	former *record.Former
	rows   *pack.Reader
	byID   map[string]workload.Row
	images map[string]string // names in run.json, by reference
	err    error             // of reading the pack
}

// reason returns why a record cannot be kept, or "".
func (j *inputs) reason(e record.Entry) string {
	row, planned := j.byID[e.TaskID]
	switch {
	case !planned || e.Attempt < 1 || e.Attempt > j.run.Config.Attempts || e.RunID != j.run.Config.RunID:
		return record.NotPlanned
	case e.Index != row.Index, !j.bound(e, row):
		return record.InputsChanged
	}
	return ""
}

// stored checks a candidate in the store.
func (r *Run) stored(sum string) error {
	return r.store.Check(sum)
}

// bound reports whether a record is bound to the run's current row, images,
// configuration and build.
func (j *inputs) bound(e record.Entry, row workload.Row) bool {
	raw, err := j.rows.Raw(row.Ref)
	if err != nil {
		j.err = fault.As(fault.Refused, err)
		return false
	}
	for _, ref := range row.CheckedIn {
		if j.former.Manifest.Images[j.images[ref]] != j.run.scorer.Images[ref].ID {
			return false
		}
	}
	b, d := j.run.binding, e.Digests
	return d.Row == b.Salt.Keyed("row", row.ID, raw) && d.Image == j.run.scorer.Images[row.Image].ID &&
		d.Config == b.Config && d.Verifier == b.Verifier && d.Assets == b.Assets &&
		j.former.Manifest.Bound(d.Pack, j.run.manifest.Digests.Manifest)
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
	if review.Kept == r.Planned() && len(review.Rerun) == 0 && foreign {
		return fault.As(fault.Integrity, &BrokenSealError{res.Problems[0]})
	}
	review.SealBroken()
	r.warn("the run was signed and has changed since: " + res.Problems[0].String())
	return nil
}

// maxReported is how many dropped records are reported one by one.
const maxReported = 10

// reportDropped reports which records are not kept, and why.
func (r *Run) reportDropped(review *record.Review) {
	for _, d := range review.Dropped[:min(len(review.Dropped), maxReported)] {
		what := "a record of an unknown task"
		if d.TaskID != "" {
			what = "the record of " + redact.Quote(d.TaskID)
		}
		r.warn(fmt.Sprintf("line %d is not kept: %s: %s", d.Line, what, dropReason(d.Reason)))
	}
	if n := len(review.Dropped) - maxReported; n > 0 {
		r.warn(fmt.Sprintf("more lines that are not kept: %d", n))
	}
	if n := review.Rerun[record.Missing]; n > 0 {
		r.warn(fmt.Sprintf("missing lines (gaps in the numbering): %d", n))
	}
}

// dropReason explains a reason.
func dropReason(reason string) string {
	switch reason {
	case record.Torn:
		return "its write was cut short"
	case record.Damaged:
		return "it is damaged, or another run wrote it"
	case record.OutOfChain:
		return "the hash chain is broken before it"
	case record.Duplicate:
		return "its attempt has two records"
	case record.Unfinished:
		return "it ended in an infrastructure error"
	case record.LostCandidate:
		return "its candidate is missing or damaged"
	case record.LostOutput:
		return "its raw output is missing or damaged"
	case record.InputsChanged:
		return "its inputs changed"
	case record.AgentsFailed:
		return "its agent failed like all others, so the run stopped"
	}
	return "its attempt is not planned"
}
