// Package run implements the life cycle of a run: it loads the pack, locks the
// output directory, begins or resumes the run, binds it to its inputs, drives
// the pipeline, and seals the records.
package run

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"securebench/internal/agent/setup"
	"securebench/internal/attest"
	"securebench/internal/candidate"
	"securebench/internal/capacity"
	"securebench/internal/config"
	"securebench/internal/evidence"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/redact"
	"securebench/internal/remote/service"
	"securebench/internal/scoring"
	"securebench/internal/selection"
	"securebench/internal/source"
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
	Given     func(record.Manifest) error
	Limit     int  // the number of rows to use of those; [workload.All] uses every row
	Strict    bool // refuse a pack that has warnings
	Mode      Mode
	Agent     setup.Opener
	Judge     *setup.JudgeSettings // nil leaves rubrics in words pending
	Prepare   int                  // plan the run in so many shards, and run nothing; 0 is off
	Shard     *int                 // run this shard of a run that was prepared
	KeepGoing bool                 // although the first agents all fail
	Hub       *service.Hub         // serves workers, which run the sandboxes; nil runs them here
	// Steer lets obey be called for the run in a directory while it goes on, until what it
	// returns is; nil lets nobody change the run.
	Steer      func(dir string, obey func(act string, workers int) (pipeline.ControlState, error)) (end func() error, err error)
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
	answers setup.Answers
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
	writing  sync.Mutex // of the manifest, while workers come

	share *share // of a shard; nil is the whole run

	kept       []pipeline.Final // from an earlier part of the run
	judged     record.OneJudge  // that of those records
	mixed      error            // that they name several
	unverified map[record.AttemptKey]*record.Line
	used       map[string]int64 // of the provider, by an earlier part's records
	finished   bool             // nothing is left to do
	dead       bool             // the engine stopped answering

	output *progress.Shown // nil if it is not shown
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
	if r.scorer, err = scoring.Open(ctx, r.work, r.OpenEngine, box, r.agent.Facts().Users, r.warn); err != nil {
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
	if o.Hub == nil {
		if err := r.scorer.Equip(ctx, r.work, o.Config, o.Notice); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(r.elsewhere(), r.judgedHere()); err != nil {
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

// newRun makes a run that has loaded nothing.
func newRun(o Options) *Run {
	if o.Shard != nil || o.Prepare > 0 && o.Mode == Fresh && divided(o.Config.OutputDir) != nil {
		o.Mode = Resume
	}
	o.OpenEngine = o.opener()
	return &Run{Options: o, names: workspace.Folders{Namer: workspace.Namer{Reserved: record.ReservedNames()}},
		verifier: record.ThisBuild}
}

// load opens the agent, and loads the pack with what that asks of rows.
func (r *Run) load(ctx context.Context) (err error) {
	r.Pace(r.Progress)
	r.agent, err = r.Agent(setup.Around{Outside: r.Outside, Config: r.Config, Families: r.Families, Resumes: r.resumes(), Shards: r.sharers(),
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

// lock locks the output directory and loads the key of a run that is signed.
func (r *Run) lock() (err error) {
	if r.Shard != nil {
		return r.lockShared()
	}
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
	if r.Prepare > 0 {
		return nil
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

// planned returns how many attempts are planned, of a shard its own.
func (r *Run) planned() pipeline.Planned {
	if r.share != nil {
		return r.share.planned
	}
	return pipeline.Planned{All: len(r.work.Rows) * r.Config.Attempts, Judged: r.work.Judged() * r.Config.Attempts}
}

// LeftOut returns the number of rows that were not chosen.
func (r *Run) LeftOut() int { return r.work.LeftOut() }

// Records returns the absolute path of the records.
func (r *Run) Records() string { return r.dir.LinesPath() }

// EngineDead reports whether the engine stopped answering.
func (r *Run) EngineDead() bool { return r.dead }

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
	errs = append(errs, r.output.Close(), r.agent.Close(), r.answers.Close())
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
