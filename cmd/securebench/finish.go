package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"securebench/internal/capacity"
	"securebench/internal/console"
	"securebench/internal/earlier"
	"securebench/internal/evidence"
	"securebench/internal/fault"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/redact"
	"securebench/internal/run"
	"securebench/internal/source"
	"securebench/internal/verdict"
)

// executeRun executes the run that the flags and arguments describe.
func (a *app) executeRun(ctx context.Context, f *runFlags, o run.Options) (err error) {
	report := f.renderer(a.stderr)
	a.display.Store(report)
	defer func() { _ = report.Close() }() // the stream remembers write errors
	o.Progress, o.Notice = report, a.notice
	if o.Hub != nil {
		o.Hub.Serving = func(addr, metrics string) {
			a.say("serving workers at %s", addr)
			if metrics != "" {
				a.say("serving metrics at http://%s/metrics", metrics)
			}
		}
	}
	r, err := run.Open(ctx, o)
	if err != nil {
		return a.openError(ctx, err, o.Config.OutputDir)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if f.prepare > 0 {
		return a.prepared(r)
	}
	sum, err := r.Drive(ctx)
	if fault.KindOf(err) == fault.Interrupted {
		report.Event(progress.Interrupted{ResumeCommand: a.resumeCommand()})
	}
	if err == nil {
		report.Event(a.ending(r.Config.OutputDir, r.Config.Attempts, sum))
	}
	_ = report.Close() // remove the display before the summary is printed
	if err == nil || sum.Total > 0 {
		a.summaryLine(sum, r.Records(), r.LeftOut())
	}
	if err != nil {
		return a.driveError(err, r, sum)
	}
	return a.outcome(ctx, f, r, sum)
}

// openError adds advice for the operator to an error of [run.Open].
func (a *app) openError(ctx context.Context, err error, dir string) error {
	var changed *run.ChangedError
	var other *run.OtherRunError
	var former *run.FormerError
	var broken *run.BrokenSealError
	kind, quoted := fault.KindOf(err), redact.Quote(dir)
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return fault.Errorf(fault.Interrupted, "interrupted before the first task")
	case errors.As(err, &changed):
		errs := []error{errors.New("the run cannot be " + map[bool]string{false: "resumed", true: "continued"}[a.sharded()] + " because inputs changed")}
		for _, c := range changed.Changes {
			errs = append(errs, errors.New("  "+c))
		}
		if a.sharded() {
			return fault.As(kind, errors.Join(append(errs, fmt.Errorf("give what the run was prepared with, or prepare it again with --resume=%s", run.ResumeChanged))...))
		}
		errs = append(errs, fmt.Errorf("give --resume=%s to run again what that affects, or --force to start over", run.ResumeChanged))
		return fault.As(kind, errors.Join(errs...))
	case errors.As(err, &other):
		return fault.Errorf(kind, "%s: %w: choose another --output-dir, or give --force", quoted, err)
	case errors.As(err, &broken):
		return fault.Errorf(kind, "%w (see securebench verify; restore what was changed, or give --force to start over)", err)
	case errors.As(err, &former):
		return fault.Errorf(kind, "%w (give --force to move it to history/ and start over)", err)
	case errors.Is(err, record.ErrHeld):
		return fault.Errorf(kind, "%w: %s (wait for it, or choose another --output-dir)", err, quoted)
	}
	return a.outputError(err, dir)
}

// outputError adds advice for the operator to an error of the output
// directory.
func (a *app) outputError(err error, dir string) error {
	kind := fault.KindOf(err)
	switch {
	case kind != fault.Refused && kind != fault.Infrastructure:
	case errors.Is(err, syscall.EROFS), errors.Is(err, os.ErrPermission):
		return fault.Errorf(kind, "%w (choose an --output-dir that can be written)", err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.Errorf(kind, "%s; free some space, then: %s", firstLine(err), a.resumeCommand())
	case errors.Is(err, capacity.ErrFull):
		return fault.Errorf(kind, "%s; then: %s", firstLine(err), a.resumeCommand())
	case errors.Is(err, record.ErrForeign), errors.Is(err, source.ErrNotRegular):
		return fault.Errorf(kind, "%s: %w (move it away, or choose another --output-dir)", redact.Quote(dir), err)
	}
	return err
}

// driveError adds to the error that ended a run what was kept and how to
// continue.
func (a *app) driveError(err error, r *run.Run, sum pipeline.Summary) error {
	kind, lines, resume := fault.KindOf(err), redact.Quote(r.Records()), "; to continue: "+a.resumeCommand()
	switch {
	case errors.Is(err, pipeline.ErrInterrupted):
		note := ""
		if r.EngineDead() {
			note = " while the engine did not answer: the next start cleans up"
		}
		return fault.Errorf(kind, "interrupted after %d of %d%s; the records are kept in %s%s", sum.Total, sum.Planned.All, note, lines, resume)
	case errors.Is(err, pipeline.ErrDrained):
		return fault.Errorf(kind, "drained after %d of %d; the records are kept in %s%s", sum.Total, sum.Planned.All, lines, resume)
	case errors.As(err, new(*pipeline.SpentError)):
		return fault.Errorf(kind, "stopped after %d of %d: %s; the records are kept in %s; raise the budget, then: %s", sum.Total, sum.Planned.All, firstLine(err), lines, a.resumeCommand())
	case kind == fault.Interrupted: // by the run itself
		how := "stopped"
		if sum.Total == sum.Planned.All {
			how = "not signed"
		}
		return fault.Errorf(kind, "%s after %d of %d: %s; the records are kept in %s; correct the agent or its settings, then: %s (or give --keep-going to score it as it is)",
			how, sum.Total, sum.Planned.All, firstLine(err), lines, a.resumeCommand())
	case errors.Is(err, record.ErrIntegrity):
		return fault.Errorf(kind, "%s; what was recorded is kept in %s (undo the change and continue with --resume, or start over with --force)", firstLine(err), lines)
	case errors.Is(err, commit.ErrOutput):
		return fault.Errorf(kind, "%s; what was recorded is kept%s", firstLine(err), resume)
	case errors.Is(err, pipeline.ErrEngineDead):
		return fault.Errorf(kind, "%s; the records are kept in %s%s", firstLine(err), lines, resume)
	}
	return a.outputError(err, r.Config.OutputDir)
}

// firstLine returns the first error. Clean-up errors that follow it would
// separate it from the advice.
func firstLine(err error) string { return console.ErrorLines(err)[0] }

// outcome returns the error of a run that ended normally.
func (a *app) outcome(ctx context.Context, f *runFlags, r *run.Run, sum pipeline.Summary) error {
	met := f.conditions.Check(finished{Planned: sum.Planned, Counts: sum.Counts, Answers: sum.Answers,
		Read: func() (*earlier.Run, error) {
			return earlier.Open(ctx, r.Config.OutputDir, evidence.Trust{Getenv: os.Getenv})
		}})
	if sum.PackFaults == 0 && met != nil {
		return met
	}
	return unsettled(sum, r.Records(), a.resumeCommand())
}

// unsettled returns the error of a complete run with attempts that say nothing of the
// agent.
func unsettled(sum pipeline.Summary, records, again string) error {
	switch {
	case sum.PackFaults > 0:
		return fault.Errorf(fault.Pack, "%s could not be made because of a fault in the pack: see failure_message in %s", console.Plural(sum.PackFaults, "attempt"), redact.Quote(records))
	case sum.Infrastructure > 0:
		return fault.Errorf(fault.Infrastructure, "%s ended in infrastructure errors; to repeat: %s", console.Plural(sum.Infrastructure, "attempt"), again)
	}
	return nil
}

// summaryLine prints the summary on standard output: one line with these
// fields, whatever the run's id and directory contain. total are all records; verified and
// passed are of what was computed; what was judged, and what a judge read where the rule
// finds no answer, have fields of their own.
func (a *app) summaryLine(sum pipeline.Summary, records string, leftOut int) {
	left := ""
	if n := sum.AgentErrors; n > 0 {
		left = fmt.Sprintf(" agent_errors=%d", n)
	}
	if leftOut > 0 {
		left += fmt.Sprintf(" left_out=%d", leftOut)
	}
	computed := sum.Counts.Of(verdict.Computed)
	if n := sum.Planned.Judged; n > 0 {
		judged := sum.Counts.Of(verdict.Judged)
		left += fmt.Sprintf(" judged=%d judged_verified=%d judged_passed=%d", judged.Total, judged.Verified, judged.Passed)
	}
	if n := sum.Read; n.Total > 0 {
		left += fmt.Sprintf(" judge_read=%d judge_read_passed=%d", n.Total, n.Passed)
	}
	fmt.Fprintf(a.stdout, "securebench: run_id=%s total=%d verification=%s verified=%d passed=%d output=%s%s\n",
		redact.Quote(sum.RunID), sum.Total, sum.Status(), computed.Verified, computed.Passed, redact.Quote(records), left)
}

// sharded reports whether --shard was given, in either spelling.
func (a *app) sharded() bool {
	return slices.ContainsFunc(a.args, func(arg string) bool { return arg == "--shard" || strings.HasPrefix(arg, "--shard=") })
}

// resumeCommand returns the command that continues this run; a shard is continued by
// the same.
func (a *app) resumeCommand() string {
	if a.sharded() {
		return a.command("")
	}
	return a.command("--resume", "--force", "--resume")
}

// command returns the command as it was given, with another flag and without those named.
func (a *app) command(with string, without ...string) string {
	words := []string{a.called()}
	for i, arg := range a.args {
		if slices.ContainsFunc(without, func(flag string) bool { return arg == flag || strings.HasPrefix(arg, flag+"=") }) {
			continue
		}
		words = append(words, console.ShellQuote(arg))
		if i == 0 && with != "" { // after "run", because flags are not recognised after --
			words = append(words, with)
		}
	}
	return strings.Join(words, " ")
}

// prepared says how to go on with a run that was prepared for shards.
func (a *app) prepared(r *run.Run) error {
	s := r.Shards()
	if s == nil {
		return nil // it is complete, which was said
	}
	a.say("prepared %s in %s: give each of 0 to %d as --shard instead of --prepare, on any machine that has the directory; then: %s merge %s",
		console.Plural(s.Count, "shard"), redact.Quote(r.Config.OutputDir), s.Count-1, a.called(), console.ShellQuote(r.Config.OutputDir))
	return nil
}
