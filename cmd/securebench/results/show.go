package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/evidence"
	"securebench/internal/fault"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/transcript"
	"securebench/internal/verdict"
)

type showFlags struct {
	trust   subcommand.Trust
	attempt int
	failed  bool
	follow  bool
	noPager bool
	json    bool
	steps   bool
}

const showHelp = `Show the attempts of a run, or one task's attempts in full.

RUN is the output directory of a run, which may still be running, a published
copy, or a bundle. Without TASK, each attempt is one line. With TASK, its attempts
are shown in full: the prompt, the agent's steps, a line each, what it printed, the
candidate, the verdict and its reason in words, times and digests. The operator's directory also has the
raw output, that of tests and checkers included; elsewhere only the records are
shown. All of it is escaped, and lines from outside begin with "|".

The steps are those that the run saw between the agent and its provider: messages,
calls of tools, their results, and what each answer took. With --steps, they are
shown with their texts, and nothing else is.

On a terminal, the output goes through the pager that PAGER names, or through
"less -R"; --no-pager, or an empty PAGER, prints it.

With --follow, each attempt of a run in progress is shown as soon as it has its
record, until the run ends: one line each, or with TASK in full. A run that has not
begun is waited for.

The exit code is 13 if the run does not verify, and 0 if it is only not finished.
With --follow, it is 130 if the run stopped before its end.`

func (g group) showCommand() *cobra.Command {
	var f showFlags
	c := &cobra.Command{
		Use: "show RUN [TASK]", Short: "Show the attempts of a run, or one task's attempts in full",
		Long: showHelp, Args: cobra.RangeArgs(1, 2),
		Example: "  securebench show runs/demo\n  securebench show runs/demo HumanEval/2\n  securebench show runs/demo --failed\n  securebench show runs/demo --follow",
		RunE: func(c *cobra.Command, args []string) error {
			task := ""
			if len(args) == 2 {
				task = args[1]
			}
			switch {
			case c.Flags().Changed("attempt") && (f.attempt < 1 || task == ""):
				return subcommand.UsageError(errors.New("--attempt needs a TASK, and counts from 1"))
			case f.steps && (task == "" || f.follow):
				return subcommand.UsageError(errors.New("--steps needs a TASK, and no --follow"))
			case f.follow && f.json:
				return subcommand.UsageError(errors.New("give --follow or --json, not both"))
			case f.follow:
				return g.follow(c.Context(), args[0], task, f)
			}
			return g.show(c.Context(), args[0], task, f)
		},
	}
	f.trust.Add(c)
	fl := c.Flags()
	fl.IntVar(&f.attempt, "attempt", 0, "show only the attempt with the number `N`")
	fl.BoolVar(&f.failed, "failed", false, "show only attempts that did not pass")
	fl.BoolVarP(&f.follow, "follow", "f", false, "wait for the run to begin, and for further attempts")
	fl.BoolVar(&f.json, "json", false, "print one JSON object per attempt; without TASK, only what the list has")
	fl.BoolVar(&f.steps, "steps", false, "show only the agent's steps, with their texts")
	fl.BoolVar(&f.noPager, "no-pager", false, "print to standard output, even if it is a terminal")
	return c
}

// wants reports whether the flags select a record.
func (f showFlags) wants(task string, l *record.Line) bool {
	return (task == "" || l.TaskID == task) && (f.attempt == 0 || l.Attempt == f.attempt) && (!f.failed || !l.Passed)
}

func (g group) show(ctx context.Context, arg, task string, f showFlags) (err error) {
	var lines []*record.Line
	tasks := map[string]bool{}
	run, res, signer, err := subcommand.OpenVerified(ctx, arg, f.trust, evidence.Options{Each: func(e record.Entry) {
		tasks[e.TaskID] = true
		if !f.wants(task, e.Line) {
			return
		}
		l := *e.Line
		if task == "" { // one line of it is shown
			l = record.Line{TaskID: l.TaskID, Index: l.Index, Attempt: l.Attempt, TaskType: l.TaskType, Outcome: l.Outcome,
				FailureReason: l.FailureReason, Containment: l.Containment, Basis: l.Basis, Passed: l.Passed, Timings: l.Timings}
		}
		lines = append(lines, &l)
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if task != "" && len(lines) == 0 {
		return noRecord(task, tasks, res.Unfinished)
	}
	slices.SortStableFunc(lines, record.InOrder)
	judged := subcommand.Judge(signer, res)
	from := sourceOf(run, res.Manifest)
	from.Steps = f.steps
	if f.json {
		err = g.printAttemptsJSON(from, task, lines)
	} else {
		err = g.paged(ctx, f.noPager, func(out io.Writer) error { return printAttempts(out, from, res, judged, task, lines) })
	}
	if err != nil {
		return err
	}
	if errors.As(judged, new(*evidence.UnfinishedError)) {
		return nil // the first line says so
	}
	return judged
}

// printAttempts prints the state of the run and the chosen attempts.
func printAttempts(out io.Writer, from transcript.Source, res *evidence.Result, judged error, task string, lines []*record.Line) error {
	state := fmt.Sprintf("%s attempts, verified", res.Progress())
	if judged != nil {
		state = console.ErrorLines(judged)[0]
	}
	state += partOfPack(res.Manifest)
	if _, err := fmt.Fprintf(out, "run %s: %s\n\n", redact.Quote(res.Manifest.RunID), state); err != nil {
		return err
	}
	if task == "" {
		return printList(out, lines)
	}
	for i, l := range lines {
		if i > 0 {
			if _, err := fmt.Fprintln(out); err != nil {
				return err
			}
		}
		a := transcript.Read(from, l)
		if err := a.WriteText(out); err != nil {
			return err
		}
	}
	return nil
}

// partOfPack ends a line about a whole run that is not about the whole pack.
func partOfPack(m record.Manifest) string {
	if m.Planned.LeftOut == 0 {
		return ""
	}
	return "; part of the pack: " + console.Plural(m.Planned.LeftOut, "row") + " left out"
}

// printAttemptsJSON prints an object per attempt, a line each.
func (g group) printAttemptsJSON(from transcript.Source, task string, lines []*record.Line) error {
	for _, l := range lines {
		a := transcript.Read(from, l)
		if task == "" {
			a.Parts = nil // not read
		}
		if err := g.PrintJSON(a); err != nil {
			return err
		}
	}
	return nil
}

// shownLimit bounds each text of an attempt that is shown, in bytes.
const shownLimit = 1 << 20

// sourceOf is where the parts of a run's attempts are read.
func sourceOf(run *evidence.Run, m record.Manifest) transcript.Source {
	from := transcript.Source{FS: run, Limit: shownLimit}
	if salt, err := record.ReadSalt(run, m.SaltDigest); err == nil {
		from.Salt = &salt
	}
	return from
}

func printList(out io.Writer, lines []*record.Line) error {
	w := console.NewTable(out)
	judged := slices.ContainsFunc(lines, func(l *record.Line) bool { return l.Basis == verdict.Judged })
	fmt.Fprintln(w, "TASK\tATTEMPT\tFAMILY"+map[bool]string{true: "\tBASIS"}[judged]+"\tOUTCOME\tREASON\tTIME")
	for _, l := range lines {
		basis := ""
		if judged {
			basis = "\t" + l.Basis.String()
		}
		fmt.Fprintf(w, "%s\t%d\t%s%s\t%s\t%s\t%.1f s\n", redact.QuoteShort(l.TaskID, maxCell), l.Attempt, redact.QuoteShort(l.TaskType, maxCell), basis,
			redact.QuoteShort(string(l.Outcome), maxCell), console.Cell(l.FailureReason, maxCell), float64(l.Timings["total"])/1000)
	}
	return w.Flush()
}

// maxCell bounds a cell of the list, in characters.
const maxCell = 48

// noRecord is the error for a task without a record that the flags select.
func noRecord(task string, tasks map[string]bool, unfinished bool) error {
	text := "the run has no such record of " + redact.Quote(task)
	if len(tasks) > 0 {
		text += "; it has those of " + redact.QuoteFew(slices.Sorted(maps.Keys(tasks))) + " (see securebench show RUN)"
	}
	if unfinished {
		text += "; the run is not finished"
	}
	return fault.Errorf(fault.Usage, "%s", text)
}
