// Package run implements the life cycle of a run: it loads the pack, locks the
// output directory, begins or resumes the run, binds it to its inputs, drives
// the pipeline, and seals the records.
package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"securebench/internal/agent/setup"
	"securebench/internal/agent/shown"
	"securebench/internal/attest"
	"securebench/internal/candidate"
	"securebench/internal/capacity"
	"securebench/internal/config"
	"securebench/internal/evidence"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/agent"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/redact"
	"securebench/internal/scoring"
	"securebench/internal/selection"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/workload"
	"securebench/internal/workspace"
)

// The time limits for closing a run.
const (
	closeTime = 30 * time.Second
	// deadTime applies if the engine does not answer: the next run removes
	// what is left.
	deadTime = 2 * time.Second
)

// Mode says what happens to an existing run in the output directory.
type Mode string

// The modes.
const (
	Fresh         Mode = ""              // refuse to begin
	Replace       Mode = "replace"       // move it to history/ and begin
	Resume        Mode = "strict"        // resume it, refuse if inputs changed
	ResumeChanged Mode = "rerun-changed" // resume it, run again what changed inputs affect
)

// Options configure a run.
type Options struct {
	setup.Outside
	Config   *config.Tester
	Pack     pack.Location
	Families family.Registry
	Choice   selection.Choice
	// Accept may refuse the loaded pack; nil accepts it.
	Accept func(*workload.Workload) error
	// Given may refuse what the attempts are given, before the run begins: the
	// manifest has the pack, the build, the limits and the images, as far as they
	// are public. nil accepts it.
	Given      func(record.Manifest) error
	Limit      int  // the number of rows to use of those; [workload.All] uses every row
	Strict     bool // refuse a pack that has warnings
	Mode       Mode
	Agent      setup.Opener
	KeepGoing  bool   // although the first agents all fail
	ShowAgent  bool   // report the agent's output and keep it in agent-trace.log
	Version    string // of this build
	Keyring    *attest.Keyring
	OpenEngine scoring.EngineOpener
	Progress   progress.Reporter
	// Notice receives lines for the operator that no progress mode suppresses.
	Notice func(string)
}

// resumes reports whether an existing run is resumed.
func (o *Options) resumes() bool { return o.Mode == Resume || o.Mode == ResumeChanged }

// Run is an open run.
type Run struct {
	Options
	work    *workload.Workload
	scorer  *scoring.Scorer
	plan    *capacity.Plan // how many tasks run at the same time
	agent   setup.Agent
	secrets redact.Registry // which must not appear in anything that the run writes
	// produced is the former run if none of its attempts needs an agent any more:
	// then the agent is not prepared.
	produced *record.Manifest
	rows     *selection.Rows // nil unless some were chosen
	names    workspace.Folders
	verifier func() (string, error) // the digest of this build

	dir      *record.Dir
	store    *candidate.Store
	key      attest.PrivateKey
	binding  commit.Binding
	config   []byte // as canonical JSON
	manifest record.Manifest

	kept       []pipeline.Final // from an earlier part of the run
	unverified map[record.AttemptKey]*record.Line
	finished   bool // nothing is left to do
	dead       bool // the engine stopped answering

	output *shown.Output // nil if it is not shown
}

// Open loads the pack, locks the output directory and begins or resumes the
// run. The caller closes it.
func Open(ctx context.Context, o Options) (_ *Run, err error) {
	r := newRun(o)
	go func() { _, _ = r.verifier() }() // it takes as long as to load the pack
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	box := o.Config.Sandbox
	box.Former = r.formerEngine()
	if r.scorer, err = scoring.Open(ctx, r.work, o.OpenEngine, box, r.agent.Facts().Users, r.warn); err != nil {
		return nil, err
	}
	if f := r.agent.Facts(); f.Image != "" { // or else it is its rows' fault
		if err := r.scorer.ImageFault(f.Image); err != nil {
			return nil, fault.Errorf(fault.Config, "%s: %w", f.ImageAt, err)
		}
	}
	if err := r.schedule(ctx); err != nil {
		return nil, err
	}
	if err := r.acceptGiven(); err != nil {
		return nil, err
	}
	if err := r.lock(); err != nil {
		return nil, err
	}
	if err := r.openOutput(ctx); err != nil {
		return nil, classify(err)
	}
	return r, nil
}

// newRun makes a run of which nothing is loaded.
func newRun(o Options) *Run {
	return &Run{Options: o, names: workspace.Folders{Namer: workspace.Namer{Reserved: record.ReservedNames()}},
		verifier: record.ThisBuild}
}

// load opens the agent, and loads the pack with what that asks of rows.
func (r *Run) load(ctx context.Context) (err error) {
	r.agent, err = r.Agent(setup.Around{Outside: r.Outside, Config: r.Config, Families: r.Families, Resumes: r.resumes(),
		Secrets: &r.secrets, Warn: r.warn, Notice: r.Notice})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.agent.Close())
		}
	}()
	d, f := r.agent.Demands(), r.agent.Facts()
	d.Strict, d.Leaks, d.AgentImage, d.AgentImageAt = r.Strict, r.Strict, f.Image, f.ImageAt
	seen := d.Seen
	d.Seen = func(id string) {
		r.names.Note(id)
		if seen != nil {
			seen(id)
		}
	}
	if err := r.loadRows(ctx, d); err != nil {
		return err
	}
	for _, w := range r.work.Warnings {
		r.warn(w.Error())
	}
	return r.agent.Loaded(ctx, r.work)
}

// lock locks the output directory and loads the signing key.
func (r *Run) lock() (err error) {
	r.dir, err = record.Open(r.Config.OutputDir)
	if errors.Is(err, record.ErrHeld) {
		return fault.As(fault.Refused, err)
	}
	if err == nil {
		err = r.dir.Foreign()
	}
	if err != nil {
		return fault.As(fault.Refused, classify(err))
	}
	key, created, err := r.Keyring.Signing()
	if err != nil {
		return evidence.KeyringError(err)
	}
	r.key = key
	if created {
		r.Notice("generated a key to sign runs with: " + key.Public().ID + " (see securebench key)")
	}
	return nil
}

// classify assigns a fault kind to an error of the output directory.
func classify(err error) error {
	switch {
	case errors.Is(err, syscall.EROFS), errors.Is(err, os.ErrPermission):
		return fault.As(fault.Refused, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.As(fault.Infrastructure, err)
	case errors.Is(err, record.ErrForeign), errors.Is(err, source.ErrNotRegular):
		return fault.As(fault.Refused, err)
	case errors.Is(err, record.ErrIntegrity):
		return fault.As(fault.Integrity, err)
	}
	return err
}

// Planned returns the number of planned attempts.
func (r *Run) Planned() int { return len(r.work.Rows) * r.Config.Attempts }

// LeftOut returns the number of rows that were not chosen.
func (r *Run) LeftOut() int { return r.work.LeftOut() }

// Records returns the absolute path of the records.
func (r *Run) Records() string { return r.dir.LinesPath() }

// EngineDead reports whether the engine stopped answering.
func (r *Run) EngineDead() bool { return r.dead }

// Drive runs the remaining attempts, and seals the run when all attempts are
// recorded. The counts are valid even with an error.
func (r *Run) Drive(ctx context.Context) (pipeline.Summary, error) {
	if r.finished {
		return pipeline.Summarise(r.Config.RunID, r.Planned(), r.kept), nil
	}
	disk, err := r.preflight()
	if err != nil {
		return pipeline.Summarise(r.Config.RunID, r.Planned(), r.kept), err
	}
	r.scorer.MakeVerifiers(r.work.Families, r.Config.RunID, r.Config, r.plan.Verifications)
	a, err := r.agent.Agent(r.ground())
	if err != nil {
		return pipeline.Summary{}, classify(err)
	}
	if err := r.show(); err != nil {
		return pipeline.Summary{}, classify(err)
	}
	r.reportStart(disk)
	sum, err := pipeline.Run(ctx, r.pipeline(ctx, a))
	r.dead = errors.Is(err, pipeline.ErrEngineDead)
	if _, broken := errors.AsType[*pipeline.BrokenAgentError](err); broken {
		r.manifest.AgentsFailed = true
		err = errors.Join(err, r.dir.WriteManifest(&r.manifest))
	}
	if err == nil {
		err = r.seal()
	}
	r.reportEnd(sum)
	return sum, runError(err)
}

// pipeline returns the configuration of the pipeline.
func (r *Run) pipeline(ctx context.Context, a agent.Agent) pipeline.Config {
	done := r.recorded()
	left := func(row workload.Row) bool {
		return done[row.ID] < r.Config.Attempts
	}
	return pipeline.Config{
		RunID: r.Config.RunID, Families: r.work.Families, Tasks: r.work.Tasks(ctx, left), Total: r.Planned(),
		Kept: r.kept, Unverified: r.unverified, Labels: r.labels(),
		Agent: a, Verifiers: r.scorer.Verifiers, Images: r.scorer.Images, Fault: r.fault,
		Dir: r.dir, Store: r.store, Digests: r.binding, TaskDir: r.names.Of,
		Verify: scoring.Limits(r.Config.Limits), VerifyTimeout: r.Config.Limits.Verify,
		Workers: r.plan.Workers, Plan: r.plan, Load: r.work.Load, Room: r.room, Attempts: r.Config.Attempts, Retries: r.Config.Retries,
		KeepGoing: r.KeepGoing || r.agent.Facts().BuiltIn,
		Progress:  r.Progress, Observe: r.output.Observe(), Probe: r.probe(),
	}
}

// fault says what the row of a task wants of its images and cannot have.
func (r *Run) fault(ctx context.Context, t task.Task) error {
	f := r.agent.Facts()
	return r.scorer.Fault(ctx, r.work, t, scoring.Place{Agent: f.Image, Sandboxed: f.Sandboxed})
}

// recorded counts the kept attempts of each task.
func (r *Run) recorded() map[string]int {
	out := map[string]int{}
	for _, f := range r.kept {
		out[f.TaskID]++
	}
	return out
}

// runError assigns a fault kind to an error of the pipeline or the seal.
func runError(err error) error {
	switch {
	case errors.Is(err, pipeline.ErrInterrupted), isBroken(err):
		return fault.Errorf(fault.Interrupted, "%w", err)
	case errors.Is(err, record.ErrIntegrity):
		return fault.Errorf(fault.Integrity, "%w", err)
	case errors.Is(err, commit.ErrOutput):
		return fault.Errorf(fault.Infrastructure, "%w", err)
	case errors.Is(err, pipeline.ErrEngineDead):
		return fault.Errorf(fault.Engine, "%w", err)
	case errors.Is(err, produce.ErrRejected):
		return fault.Errorf(fault.Config, "%w", err)
	}
	return err
}

// isBroken reports whether the run stopped because its agents fail.
func isBroken(err error) bool {
	_, ok := errors.AsType[*pipeline.BrokenAgentError](err)
	return ok
}

// probe checks the engine by looking up an image that the run uses.
func (r *Run) probe() func(context.Context) error {
	if r.scorer.Engine == nil {
		return nil
	}
	return r.scorer.Answers
}

// seal signs the complete run.
func (r *Run) seal() error {
	if err := errors.Join(r.output.Close(), r.agent.Close(), r.dir.Settled()); err != nil {
		return fmt.Errorf("%w: %w", commit.ErrOutput, err)
	}
	// A complete run is signed even if it is interrupted now.
	err := evidence.Seal(context.Background(), r.dir, r.manifest, r.key)
	if err != nil && !errors.Is(err, record.ErrIntegrity) {
		err = fmt.Errorf("%w: signing the run: %w", commit.ErrOutput, err)
	}
	return err
}

// Close releases everything that is open, in reverse order.
func (r *Run) Close() error {
	bound := closeTime
	if r.dead {
		bound = deadTime
	}
	ctx, stop := context.WithTimeout(context.Background(), bound)
	defer stop()
	var errs []error
	if r.scorer != nil {
		if err := r.scorer.CloseVerifiers(ctx); !r.dead {
			errs = append(errs, err)
		}
	}
	errs = append(errs, r.output.Close(), r.agent.Close())
	if r.store != nil {
		errs = append(errs, r.store.Close())
	}
	if r.dir != nil {
		errs = append(errs, r.dir.Close())
	}
	if r.scorer != nil {
		if err := r.scorer.CloseEngine(); !r.dead { // the next run removes what is left
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
