package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/families"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/pipeline/pack"
	"securebench/internal/progress"
	"securebench/internal/scoring"
	"securebench/internal/task"
	"securebench/internal/validate"
	"securebench/internal/workload"
)

type validateFlags struct {
	progress string
	json     bool
	strict   bool
	limit    int
	repeat   int
	workers  int
	judge    judgeFlags
}

const validateHelp = `Check that a pack accepts correct candidates and rejects empty ones.

For every task, the row's reference solution must pass, and empty, garbage and
starter candidates must fail, with the verifiers and sandboxes of a real run. A
task without a reference solution is a problem, because nothing shows that it
can be solved. Families without a verifier are skipped and counted. Code candidates
that do no work are also tried and, if tests.operators lets the candidate define
equality of its objects, a reference whose objects are all equal; every task that
one of them passes causes a warning.

Baselines, which are answers that ignore the question, are tried if verification
needs no sandbox: every label, the same word for every row, the longest choice,
the question itself. The best one of each family is shown. If it passes
significantly more rows than chance, a warning says so: the pack can be answered
without reading it.

With --repeat N, each reference is tried N times, a solution that is a program from its
beginning, in new sandboxes and with other seeds. One that does not always pass is flaky:
its row fails honest work as often. It is a problem, and how often it passes is said.

With a judge (--judge, or the judge section of a tester YAML as PACK), it is tried with
its canaries on rows that ask for one, as before a run, and then decides about the
references of the rows with a rubric in words. Without one these rows are skipped.

The exit code is 14 if a check failed, or the judge its canaries. With --strict it is also 14 if a baseline
beats chance, and 11 if the pack itself has warnings, for example because it has
no rows.`

// maxRepeat is the most that --repeat takes.
const maxRepeat = 1000

func (a *app) validateCommand() *cobra.Command {
	var f validateFlags
	c := &cobra.Command{
		Use: "validate PACK", Short: "Check that references pass and empty candidates fail",
		Long: validateHelp, Args: subcommand.Need("PACK"),
		Example: "  securebench validate packs/demo\n  securebench validate packs/humaneval-sample --json --limit 5",
		RunE: func(c *cobra.Command, args []string) error {
			if f.repeat < 1 || f.repeat > maxRepeat {
				return usageError(fmt.Errorf("--repeat is %d: give a number from 1 to %d", f.repeat, maxRepeat))
			}
			if c.Flags().Changed("limit") && f.limit < 1 || c.Flags().Changed("workers") && f.workers < 1 {
				return usageError(errors.New("--limit and --workers must be 1 or more"))
			}
			return a.validate(c.Context(), args[0], f)
		},
	}
	fl := c.Flags()
	fl.BoolVar(&f.json, "json", false, "print one JSON object per task instead of a table")
	fl.BoolVar(&f.strict, "strict", false, "exit with 14 if a baseline beats chance, with 11 if the pack has warnings")
	fl.IntVar(&f.limit, "limit", -1, "check only the first `N` rows")
	fl.Lookup("limit").DefValue = "0" // not shown: the help text names the default
	fl.IntVar(&f.repeat, "repeat", 1, "try each reference `N` times, to find those that do not always pass")
	fl.IntVarP(&f.workers, "workers", "w", 0, "check `N` tasks concurrently (default what the machine holds, at most min(cores, 4))")
	f.judge.add(c)
	subcommand.AddProgressFlag(c, &f.progress)
	a.addEngineFlag(c)
	a.addLogFlag(c)
	return c
}

func (a *app) validate(ctx context.Context, arg string, f validateFlags) (err error) {
	shown, hide, err := a.showProgress(f.progress)
	if err != nil {
		return err
	}
	defer hide()
	loc, tester, err := subcommand.LocateForScoring(arg, f.workers)
	if err != nil {
		return err
	}
	tester.Getenv = a.around().Getenv
	reg := families.All()
	w, err := workload.Load(ctx, loc, reg, f.limit, workload.Demands{Image: family.Family.RunsIn, Strict: f.strict, Leaks: true, Agent: scoring.ProgramFootprint,
		Task: func(_ pack.Row, t task.Task) error {
			return scoring.CheckProgram(tester.Sandbox, reg[t.Family()], t)
		}})
	if err != nil {
		return err
	}
	for _, warning := range w.Warnings {
		a.say("warning: %v", warning)
	}
	j, err := a.tryJudge(ctx, f.judge, tester, w)
	if err != nil {
		return err
	}
	report := validate.NewReport(a.stdout, f.json, w.At, w.Families)
	watch := &progress.Count{To: shown, Total: len(w.Rows)}
	begin := func(t task.Task) { watch.Begin(t.ID(), 1, t.Family()) }
	add := func(v validate.Result) {
		shown.Event(v.Event())
		report.Add(v)
	}
	if err := validate.Pack(ctx, w, j, f.repeat, a.engine(), tester, a.notice, begin, add); err != nil {
		return err
	}
	hide() // before the table
	switch failed, beaten := report.Finish(); {
	case !errors.Is(beaten, validate.ErrBeaten):
		return errors.Join(failed, beaten)
	case !f.strict:
		a.say("warning: %v (--strict makes this an error)", beaten)
		return failed
	case failed != nil:
		return fmt.Errorf("%w; and %w", failed, beaten)
	default:
		return fault.As(fault.Problems, beaten)
	}
}
