package run

import (
	"context"
	"errors"
	"fmt"
	"securebench/internal/evidence"
	"securebench/internal/fault"
	"securebench/internal/gateway/allowance"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/record"
	"securebench/internal/scoring"
	"securebench/internal/task"
	"securebench/internal/workload"
)

// Drive runs the remaining attempts, and seals the run when all attempts are
// recorded. The counts are valid even with an error.
func (r *Run) Drive(ctx context.Context) (pipeline.Summary, error) {
	if r.finished {
		return pipeline.Summarise(r.Config.RunID, r.planned(), r.kept), nil
	}
	disk, err := r.preflight()
	if err != nil {
		return pipeline.Summarise(r.Config.RunID, r.planned(), r.kept), err
	}
	if err := r.openJudge(ctx); err != nil {
		return pipeline.Summarise(r.Config.RunID, r.planned(), r.kept), err
	}
	if r.Hub == nil {
		r.scorer.MakeVerifiers(r.work.Families, r.Config.RunID, r.Config, r.plan.Verifications)
	}
	config := r.pipeline(ctx)
	if config.Agent, err = r.agent.Agent(r.ground()); err != nil {
		return pipeline.Summary{}, classify(err)
	}
	if config.Observe, err = r.show(); err != nil {
		return pipeline.Summary{}, classify(err)
	}
	if r.Hub != nil {
		return r.driveHub(ctx, disk, config)
	}
	r.reportStart(disk)
	end := r.steered(&config)
	sum, err := pipeline.Run(ctx, config)
	end()
	return r.driven(sum, err)
}

// driven signs a run whose attempts all have a record, and reports how it ended.
func (r *Run) driven(sum pipeline.Summary, err error) (pipeline.Summary, error) {
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

// pipeline returns the configuration of the pipeline, without its agent and what
// shows that.
func (r *Run) pipeline(ctx context.Context) pipeline.Config {
	done := r.recorded()
	left := func(row workload.Row) bool { return done[row.ID] < r.attempts(row) }
	return pipeline.Config{
		RunID: r.Config.RunID, Families: r.work.Families, Tasks: r.work.Tasks(ctx, left), Total: r.planned().All, Judged: r.planned().Judged,
		Kept: r.kept, Unverified: r.unverified, Labels: r.labels(),
		Verifiers: r.scorer.Verifiers, Images: r.scorer.Images, Fault: r.fault,
		Dir: r.dir, Store: r.store, Digests: r.binding, TaskDir: r.names.Of,
		Verify: scoring.Limits(r.Config.Limits), VerifyTimeout: r.Config.Limits.Verify,
		Workers: r.plan.Workers, Plan: r.plan, Load: r.work.Load, Room: r.room, Attempts: r.Config.Attempts, Retries: r.Config.Retries,
		Mine: r.share.mine(), Part: r.share != nil,
		KeepGoing: r.KeepGoing || r.agent.Facts().BuiltIn,
		Progress:  r.Progress, Probe: r.probe(),
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
	if spent, ok := errors.AsType[*pipeline.SpentError](err); ok {
		if what, ok := errors.AsType[*allowance.SpentError](err); ok {
			spent = &pipeline.SpentError{Err: what} // without what the attempt was doing
		}
		return fault.As(fault.Interrupted, spent)
	}
	switch {
	case errors.Is(err, pipeline.ErrInterrupted), errors.Is(err, pipeline.ErrDrained), isBroken(err):
		return fault.Errorf(fault.Interrupted, "%w", err)
	case errors.Is(err, record.ErrIntegrity):
		return fault.Errorf(fault.Integrity, "%w", err)
	case errors.Is(err, commit.ErrOutput):
		return fault.Errorf(fault.Infrastructure, "%w", err)
	case errors.Is(err, pipeline.ErrEngineDead):
		return fault.Errorf(fault.Engine, "%w", err)
	case pipeline.Rejected(err):
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

// seal signs the complete run. A shard signs nothing.
func (r *Run) seal() error {
	if err := errors.Join(r.output.Close(), r.agent.Close(), r.answers.Close(), r.dir.Settled(r.manifest.Judge != nil)); err != nil {
		return fmt.Errorf("%w: %w", commit.ErrOutput, err)
	}
	if r.share != nil {
		return r.endShard()
	}
	// A complete run is signed even if it is interrupted now.
	err := evidence.Seal(context.Background(), r.dir, r.manifest, r.key)
	if err != nil && !errors.Is(err, record.ErrIntegrity) {
		err = fmt.Errorf("%w: signing the run: %w", commit.ErrOutput, err)
	}
	return err
}
