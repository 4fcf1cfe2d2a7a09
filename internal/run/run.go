// Package run implements the life cycle of a run: it loads the pack, locks the
// output directory, begins or resumes the run, binds it to its inputs, drives
// the pipeline, and seals the records.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"securebench/internal/attest"
	"securebench/internal/candidate"
	"securebench/internal/capacity"
	"securebench/internal/config"
	"securebench/internal/evidence"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/gateway/egress"
	"securebench/internal/gateway/relay"
	"securebench/internal/harness"
	"securebench/internal/model"
	"securebench/internal/ownagent"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/agent"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/pipeline/record/runlock"
	"securebench/internal/programs"
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
	Config   *config.Tester
	Pack     pack.Location
	Families family.Registry
	Choice   selection.Choice
	// Accept may refuse the loaded pack; nil accepts it.
	Accept func(*workload.Workload) error
	// Given may refuse what the attempts are given, before the run begins: the
	// manifest has the pack, the build, the limits and the images, as far as they
	// are public. nil accepts it.
	Given  func(record.Manifest) error
	Limit  int  // the number of rows to use of those; [workload.All] uses every row
	Strict bool // refuse a pack that has warnings
	Mode   Mode
	// Agent is the built-in agent and Replay its file; if empty, the Harness
	// runs.
	Agent, Replay string
	Harness       harness.Harness
	KeepGoing     bool   // although the first agents all fail
	ShowAgent     bool   // report the agent's output and keep it in agent-trace.log
	Version       string // of this build
	Keyring       *attest.Keyring
	OpenEngine    scoring.EngineOpener
	// Transport makes the requests to the agents' provider; nil is the default.
	Transport http.RoundTripper
	// Proxy resolves and connects for the agents' proxy; its zero value asks the
	// system. The domains are the harness's.
	Proxy     egress.Config
	LookupEnv func(string) (string, bool)
	Progress  progress.Reporter
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
	agent   agent.Agent
	secrets redact.Registry
	keys    redact.Registry // of providers, which no agent gets
	// providerKey is the key of the agents' provider, programs are what they run
	// and relay is their way to the provider, as far as the harness needs them.
	providerKey string
	programs    *programs.Set
	relay       *relay.Relay
	// client asks the model, where one is asked from this process.
	client  *model.Client
	answers *model.Journal // that are kept for a resume
	// produced is the former run if none of its attempts needs an agent any more:
	// then nothing of the above is prepared.
	produced *record.Manifest
	rows     *selection.Rows // nil unless some were chosen
	names    workspace.Folders
	verifier func() (string, error) // the digest of this build
	own      ownagent.Agent

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

	trace     *progress.Trace
	traceFile io.Closer
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
	if r.scorer, err = scoring.Open(ctx, r.work, o.OpenEngine, box, r.needsUsers(), r.warn); err != nil {
		return nil, err
	}
	if err := r.agentImageFault(); err != nil {
		return nil, err
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

// load reads the agent's file and the pack.
func (r *Run) load(ctx context.Context) error {
	r.registerSecrets()
	if err := r.refuseKeys(); err != nil {
		return err
	}
	if err := r.openOwn(); err != nil {
		return err
	}
	err := r.readKey()
	if err != nil && !r.resumes() {
		return err
	}
	if r.agent, err = builtinAgent(r.Agent, r.Replay, scoring.Bounds(r.Config.Limits)); err != nil {
		return err
	}
	d := workload.Demands{Seen: r.names.Note, Strict: r.Strict, Leaks: r.Strict, Agent: r.footprint, AgentImage: r.needs().Image}
	if d.AgentImage != "" {
		d.AgentImageAt = r.at("image")
	}
	d.Image = func(f family.Family) bool { return r.agent == nil && !r.asks() && d.AgentImage == "" || f.NeedsImage }
	replay, _ := r.agent.(*agent.Replay)
	if _, isOracle := r.agent.(*agent.Oracle); isOracle {
		d.Task = func(_ pack.Row, t task.Task) error {
			return scoring.CheckProgram(r.Config.Sandbox, r.Families[t.Family()], t)
		}
	}
	switch {
	case r.asks():
		ask := agent.Answerable(r.Harness)
		d.Task = func(_ pack.Row, t task.Task) error { return ask(t.Agent()) }
	case r.agent == nil:
		if err := r.checkPolicy(); err != nil {
			return err
		}
		d.Task = r.fits
	case replay != nil:
		d.Seen = func(id string) { r.names.Note(id); replay.Seen(id) }
	}
	if err := r.loadRows(ctx, d); err != nil {
		return err
	}
	err = r.own.Read(ctx, filepath.Dir(r.Config.Path), map[string]string{r.Pack.Tasks: "the pack's file of rows, which has the answers",
		r.work.EvalRoot(): "the pack's folder of evaluation files", r.Config.OutputDir: "the run's output directory"}, &r.secrets)
	if err != nil {
		return err
	}
	for _, w := range r.work.Warnings {
		r.warn(w.Error())
	}
	if replay != nil {
		if n, id := replay.Unmatched(r.Config.Attempts); n > 0 {
			r.warn(fmt.Sprintf("replay file: lines without a matching attempt: %d; the first is for task %.200q", n, id))
		}
	}
	return nil
}

// needsUsers reports whether the users that rows name have to be known: agents
// run as them in sandboxes, as do the solution programs of the oracle, and
// replayed trees belong to them.
func (r *Run) needsUsers() bool {
	_, isNull := r.agent.(agent.Null)
	return !isNull && !r.asks()
}

// lock locks the output directory and loads the signing key.
func (r *Run) lock() (err error) {
	r.dir, err = record.Open(r.Config.OutputDir)
	if errors.Is(err, runlock.ErrHeld) {
		return fault.As(fault.Refused, err)
	}
	if err == nil {
		err = commit.Foreign(r.dir)
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
	if err := r.openAgent(); err != nil {
		return pipeline.Summary{}, err
	}
	observe, err := r.observe()
	if err != nil {
		return pipeline.Summary{}, classify(err)
	}
	r.reportStart(disk)
	sum, err := pipeline.Run(ctx, r.pipeline(ctx, observe))
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
func (r *Run) pipeline(ctx context.Context, observe func(string, int) func(string) io.WriteCloser) pipeline.Config {
	done := r.recorded()
	left := func(row workload.Row) bool {
		return done[row.ID] < r.Config.Attempts
	}
	return pipeline.Config{
		RunID: r.Config.RunID, Families: r.work.Families, Tasks: r.work.Tasks(ctx, left), Total: r.Planned(),
		Kept: r.kept, Unverified: r.unverified, Labels: r.labels(),
		Agent: r.agent, Verifiers: r.scorer.Verifiers, Images: r.scorer.Images, Fault: r.fault,
		Dir: r.dir, Store: r.store, Digests: r.binding, TaskDir: r.names.Of,
		Verify: scoring.Limits(r.Config.Limits), VerifyTimeout: r.Config.Limits.Verify,
		Workers: r.plan.Workers, Plan: r.plan, Load: r.work.Load, Room: r.room, Attempts: r.Config.Attempts, Retries: r.Config.Retries,
		KeepGoing: r.KeepGoing || r.Agent != "",
		Progress:  r.Progress, Observe: observe, Probe: r.probe(),
	}
}

// fault says what the row of a task wants of its images and cannot have.
func (r *Run) fault(ctx context.Context, t task.Task) error {
	return r.scorer.Fault(ctx, r.work, t, scoring.Place{Agent: r.needs().Image, Sandboxed: r.agent.Sandboxed()})
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
	if err := errors.Join(r.closeTrace(), r.answers.Close(), r.dir.Settled()); err != nil {
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
	errs = append(errs, r.closeTrace(), r.answers.Close(), r.own.Close())
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
