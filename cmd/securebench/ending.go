package main

import (
	"securebench/internal/console"
	"securebench/internal/pipeline"
	"securebench/internal/progress"
	"securebench/internal/report"
	"securebench/internal/verdict"
)

// ending says what came of the run in a directory, with so many attempts at each task, and
// what to type next. The rates are those of its report. A shard has none: of a task, it may
// have some attempts and not the others, and rates and intervals are over whole tasks.
func (a *app) ending(dir string, attempts int, sum pipeline.Summary) progress.Ending {
	e := progress.Ending{Rates: []progress.Rate{}, Reasons: sum.Reasons(), Next: a.next(dir, sum)}
	if a.sharded() {
		return e
	}
	for _, b := range verdict.Bases() {
		planned := sum.Planned.Of(b)
		if planned == 0 {
			continue
		}
		passed, tasks := sum.Of(b).Passed, planned/attempts
		rate := float64(passed) / float64(planned)
		e.Rates = append(e.Rates, progress.Rate{Basis: b, Tasks: tasks, Attempts: planned, Passed: passed,
			Rate: report.Rounded(rate), Interval: report.Wilson(rate, tasks).Rounded()})
	}
	return e
}

// next is the command that usually follows the run in a directory.
func (a *app) next(dir string, sum pipeline.Summary) string {
	command := func(words ...string) string {
		out := a.called()
		for _, w := range words {
			out += " " + console.ShellQuote(w)
		}
		return out
	}
	switch {
	case sum.Infrastructure > 0:
		return a.resumeCommand()
	case a.sharded():
		return command("merge", dir)
	case len(sum.Reasons()) > 0:
		return command("show", dir, "--failed")
	}
	return command("report", dir)
}
