package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"securebench/internal/attest"
	"securebench/internal/family"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/docker"
	"securebench/internal/workspace"
)

// checkHarness refuses what cannot run, before anything is read or made.
func (r *runner) checkHarness() error {
	name, _, _ := strings.Cut(r.flags.agent, ":")
	switch name {
	case pipeline.OracleName, pipeline.NullName:
		if name != r.flags.agent {
			return coded(exitUsage, fmt.Errorf("--agent %s takes no file", name))
		}
		return nil
	case pipeline.ReplayName:
		if r.flags.agent == name || r.flags.agent == name+":" {
			return coded(exitUsage, errors.New("--agent replay needs a file: --agent replay:FILE"))
		}
		return nil
	case "":
	default:
		return coded(exitUsage, fmt.Errorf("--agent is %q, want oracle, null or replay:FILE", r.flags.agent))
	}
	if r.harn == nil {
		return coded(exitUsage, errors.New("a pack alone has no agent: give --agent oracle|null|replay:FILE, or a tester YAML that names a harness"))
	}
	return coded(exitConfig, r.harn.Ready())
}

// givenAgent returns the agent of --agent, or nil for the harness.
func (r *runner) givenAgent() (pipeline.Agent, error) {
	limit := r.tester.Limits.Candidate
	name, file, _ := strings.Cut(r.flags.agent, ":")
	switch name {
	case pipeline.OracleName:
		return pipeline.Oracle{Limit: limit}, nil
	case pipeline.NullName:
		return pipeline.Null{}, nil
	case pipeline.ReplayName:
		a, err := pipeline.OpenReplay(file, limit)
		return a, coded(exitConfig, err)
	}
	return nil, nil
}

// run loads the pack, makes the output directory and drives the pipeline.
func (r *runner) run(ctx context.Context) (err error) {
	r.openProgress()
	defer func() { _ = r.report.Close(); err = interrupted(ctx, err) }() // the stream knows what it could not write
	r.secrets()
	given, err := r.givenAgent()
	if err != nil {
		return err
	}
	d := demands{strict: r.flags.strict, image: func(f family.Family) bool { return given == nil || f.NeedsImage }}
	replay, _ := given.(*pipeline.Replay)
	switch {
	case given == nil:
		if err := r.checkPolicy(); err != nil {
			return err
		}
		d.task = r.fits
	case replay != nil:
		d.seen = replay.Seen
	}
	in, err := loadPack(ctx, r.loc, r.flags.limit, d)
	if err != nil {
		return err
	}
	for _, w := range in.Warnings {
		r.warn("%v", w)
	}
	if replay != nil {
		if n, id := replay.Unmatched(r.tester.Attempts); n > 0 {
			r.warn("%s of the replay file match no attempt of the pack; the first is of task %q", plural(n, "line"), id)
		}
	}
	x := &execution{runner: r, in: in, agent: given, names: workspace.Namer{Reserved: record.ReservedNames()}}
	return x.run(ctx)
}

// interrupted tells Ctrl-C from a call that it cut short before the pipeline,
// which has its own word for it.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	return &codedError{exitInterrupted, errors.New("interrupted before the first task")}
}

// say prints one line for the operator.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.stderr, "securebench: %s\n", redact.Escape(fmt.Sprintf(format, args...)))
}

// execution is a run with everything loaded.
type execution struct {
	*runner
	in        *inputs
	agent     pipeline.Agent
	engine    sandbox.Engine // nil where nothing needs one
	docker    *docker.Engine
	dead      bool // the engine stopped answering
	images    map[string]sandbox.Image
	users     map[imageUser]sandbox.User
	dir       *record.Dir
	store     *capture.Store
	assets    *os.Root
	verifiers map[string]family.Verifier
	names     workspace.Namer
	binding   pipeline.Binding
	config    []byte // as canonical JSON
	manifest  record.Manifest
	kept      []pipeline.Final // from an earlier part of the run
	finished  bool             // all of it: nothing is left to do
	key       attest.PrivateKey
	trace     *progress.Trace
	traceFile io.Closer
}

func (x *execution) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, x.close()) }()
	if err := x.openEngine(ctx); err != nil {
		return err
	}
	if err := x.lockOutput(); err != nil {
		return err
	}
	if err := x.openOutput(ctx); err != nil {
		return x.outputError(err)
	}
	if x.finished {
		return x.conclude(pipeline.Summarise(x.tester.RunID, x.planned(), x.kept), nil)
	}
	x.verifiers = newVerifiers(x.in.families, family.Resources{
		Engine: x.engine, RunID: x.tester.RunID, Seed: x.dir.Salt().Derive, Workers: x.tester.MaxWorkers,
	})
	if x.agent == nil {
		if x.agent, err = x.harnessAgent(); err != nil {
			return err
		}
	}
	return x.drive(ctx)
}

func (x *execution) openEngine(ctx context.Context) (err error) {
	if len(x.in.images) == 0 {
		return nil
	}
	if x.docker, err = openEngine(ctx, x.tester.Sandbox, x.app.logFile, x.warn); err != nil {
		return err
	}
	x.engine = x.docker
	if x.images, err = resolveImages(ctx, x.engine, x.in.images); err != nil || x.agent != nil {
		return err
	}
	x.users, err = resolveUsers(ctx, x.docker, x.images, x.in.users)
	return err
}

// harnessAgent runs the configured harness in sandboxes.
func (x *execution) harnessAgent() (pipeline.Agent, error) {
	assets, err := os.OpenRoot(x.in.PublicRoot())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, coded(exitPack, fmt.Errorf("opening the pack's public assets: %w", err))
	}
	x.assets = assets
	limits := sandboxLimits(x.tester.Limits)
	limits.Timeout = x.tester.Limits.Produce
	audited := sandbox.WithPolicy(x.engine, x.policy())
	return &pipeline.HarnessAgent{
		Producer: &produce.Producer{
			Engine: audited, Harness: x.harn, Assets: assets, Expect: x.in.PublicFiles, Env: os.LookupEnv,
			Users:  func(image, name string) (sandbox.User, bool) { u, ok := x.users[imageUser{image, name}]; return u, ok },
			Limits: limits,
		},
		Audit: func(taskID string, attempt int) (allowed, denied int) {
			a := audited.Take(taskID, attempt)
			return a.Allowed, a.Denied
		},
		RunID: x.tester.RunID, Redact: x.redact.Split, Limit: x.tester.Limits.Candidate,
	}, nil
}

// drive runs the pipeline and reports its end.
func (x *execution) drive(ctx context.Context) error {
	observe, err := x.observe()
	if err != nil {
		return x.outputError(err)
	}
	x.report.Event(progress.RunStart(x.tester.RunID, x.dir.Path(), x.planned()))
	if len(x.kept) > 0 {
		x.report.Event(progress.Resume(len(x.kept), x.planned()-len(x.kept), x.dir.LinesPath()))
	}
	sum, err := pipeline.Run(ctx, pipeline.Config{
		RunID: x.tester.RunID, Families: x.in.families, Tasks: x.in.tasks(ctx), Total: x.planned(), Kept: x.kept, Labels: x.labels(),
		Agent: x.agent, Verifiers: x.verifiers, Images: x.images,
		Dir: x.dir, Store: x.store, Digests: x.binding, TaskDir: x.names.Name,
		Verify: sandboxLimits(x.tester.Limits), VerifyTimeout: x.tester.Limits.Verify,
		Workers: x.tester.MaxWorkers, Attempts: x.tester.Attempts, Retries: x.tester.Retries,
		Progress: x.report, Observe: observe, Probe: x.probe(),
	})
	x.dead = errors.Is(err, pipeline.ErrEngineDead)
	if err == nil {
		err = x.seal()
	}
	x.report.Event(progress.RunDone(progress.Summary{
		RunID: sum.RunID, Status: sum.Status(), Total: sum.Total, Verified: sum.Verified, Passed: sum.Passed,
		Failed: sum.Failed, Pending: sum.Pending, Infrastructure: sum.Infrastructure,
		Output: x.dir.LinesPath(), Failures: sum.Failures,
	}))
	if errors.Is(err, pipeline.ErrInterrupted) {
		x.report.Event(progress.Interrupted(x.app.resumeCommand()))
	}
	// The status line goes before the summary comes.
	_ = x.report.Close()
	return x.conclude(sum, err)
}

// planned is how many attempts the run sets out to make.
func (x *execution) planned() int { return x.in.count() * x.tester.Attempts }

// conclude prints the summary line and chooses the exit code.
func (x *execution) conclude(sum pipeline.Summary, err error) error {
	if err == nil || sum.Total > 0 {
		x.summaryLine(sum)
	}
	lines, goOn := redact.Quote(x.dir.LinesPath()), "; to go on: "+x.app.resumeCommand()
	switch {
	case errors.Is(err, pipeline.ErrInterrupted):
		mute := ""
		if x.dead {
			mute = " while the engine did not answer: the next start cleans up"
		}
		return coded(exitInterrupted, fmt.Errorf("interrupted after %d of %d%s; the records stay in %s%s", sum.Total, sum.Planned, mute, lines, goOn))
	case errors.Is(err, record.ErrIntegrity):
		return coded(exitIntegrity, fmt.Errorf("%s; what was recorded stays in %s (undo that and go on with --resume, or start anew with --force)", cause(err), lines))
	case errors.Is(err, pipeline.ErrOutput):
		return coded(exitInfra, fmt.Errorf("%s; what was recorded stays%s", cause(err), goOn))
	case errors.Is(err, pipeline.ErrEngineDead):
		return coded(exitEngine, fmt.Errorf("%s; the records stay in %s%s", cause(err), lines, goOn))
	case err != nil:
		return err
	case sum.PackFaults > 0:
		return coded(exitPack, fmt.Errorf("%s could not be made because the pack is at fault: see failure_message in %s", plural(sum.PackFaults, "attempt"), lines))
	case x.failOn(sum):
		return coded(exitFailOn, fmt.Errorf("--fail-on %s: %d failed, %d pending", x.flags.failOn, sum.Failed, sum.Pending+sum.Infrastructure))
	case sum.Infrastructure > 0:
		return coded(exitInfra, fmt.Errorf("%s ended in infrastructure errors; to run them again: %s", plural(sum.Infrastructure, "attempt"), x.app.resumeCommand()))
	}
	return nil
}

// summaryLine prints the one line on standard output. Whatever the run's id
// and directory hold, it is one line with these fields.
func (x *execution) summaryLine(sum pipeline.Summary) {
	left := ""
	if n := x.in.leftOut(); n > 0 {
		left = fmt.Sprintf(" left_out=%d", n)
	}
	fmt.Fprintf(x.app.stdout, "securebench: run_id=%s total=%d verification=%s verified=%d passed=%d output=%s%s\n",
		redact.Quote(sum.RunID), sum.Total, sum.Status(), sum.Verified, sum.Passed, redact.Quote(x.dir.LinesPath()), left)
}

func (x *execution) failOn(s pipeline.Summary) bool {
	failed, pending := s.Failed > 0, s.Pending+s.Infrastructure > 0
	switch x.flags.failOn {
	case "failed":
		return failed
	case "pending":
		return pending
	case "any":
		return failed || pending
	}
	return false
}

// policy is the operator's command policy for agents.
func (r *runner) policy() sandbox.Policy {
	return sandbox.Policy{Allow: r.tester.Sandbox.Allow, Deny: r.tester.Sandbox.Deny}
}

// probe asks the engine for an image that the run uses.
func (x *execution) probe() func(context.Context) error {
	if x.engine == nil {
		return nil
	}
	return func(ctx context.Context) error {
		for ref := range x.images {
			_, err := x.engine.Image(ctx, ref)
			return err
		}
		return nil
	}
}

// close releases everything that was opened, in reverse order.
func (x *execution) close() error {
	bound := 30 * time.Second
	if x.dead {
		bound = 2 * time.Second // the next run's clean-up does the rest
	}
	ctx, stop := context.WithTimeout(context.Background(), bound)
	defer stop()
	var errs []error
	if err := x.closeVerifiers(ctx); !x.dead {
		errs = append(errs, err)
	}
	errs = append(errs, x.closeTrace())
	if x.assets != nil {
		errs = append(errs, x.assets.Close())
	}
	if x.store != nil {
		errs = append(errs, x.store.Close())
	}
	if x.dir != nil {
		errs = append(errs, x.dir.Close())
	}
	if x.docker != nil {
		errs = append(errs, x.docker.Close())
	}
	return errors.Join(errs...)
}

// closeVerifiers does not outlast ctx, which an engine that hangs would.
func (x *execution) closeVerifiers(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- closeVerifiers(ctx, x.verifiers) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("closing the verifiers: %w", ctx.Err())
	}
}

// closeTrace ends agent-trace.log, if there is one.
func (x *execution) closeTrace() error {
	if x.trace == nil {
		return nil
	}
	err := errors.Join(x.trace.Err(), x.traceFile.Close())
	x.trace = nil
	return err
}
