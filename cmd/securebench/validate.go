package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"securebench/internal/pipeline"
	"securebench/internal/redact"
	"securebench/internal/verdict"
)

type validateFlags struct {
	json    bool
	strict  bool
	limit   int
	workers int
}

const validateHelp = `Show that a pack scores right work as right and nothing as nothing.

For every task the row's own reference solution must pass, and the empty, the
garbage and the starter candidate must fail, through the verifiers and
sandboxes of a real run. A task without a reference solution is a problem:
nobody has shown that it can be solved. Families without a verifier are
skipped and counted. Where tests.operators lets the candidate say what its
objects are equal to, a reference whose objects are all equal is tried as well,
and the tasks that it passes are named as warnings.

Answers that understand nothing are tried as well, where that needs no sandbox:
every label, the same word for every row, the longest choice, the question
itself. The best of each family is shown. One that passes significantly more
rows than chance is a warning: the pack can be answered without being read.

The exit code is 14 when a check came out wrong. With --strict it is also 14 when
such an answer beats chance, and 11 when there is a warning about the pack
itself, such as one without rows.`

func (a *app) validateCommand() *cobra.Command {
	var f validateFlags
	c := &cobra.Command{
		Use: "validate PACK", Short: "Check that references pass and empty candidates fail",
		Long: validateHelp, Args: need("PACK"),
		Example: "  securebench validate packs/demo\n  securebench validate packs/humaneval-sample --json --limit 5",
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("limit") && f.limit < 0 || c.Flags().Changed("workers") && f.workers < 1 {
				return coded(exitUsage, errors.New("--limit must be 0 or more, --workers 1 or more"))
			}
			return a.validate(c.Context(), args[0], f)
		},
	}
	fl := c.Flags()
	fl.BoolVar(&f.json, "json", false, "print one JSON object per task instead of a table")
	fl.BoolVar(&f.strict, "strict", false, "exit with 14 if a blind answer beats chance, with 11 if there is a warning about the pack")
	fl.IntVar(&f.limit, "limit", -1, "check only the first N rows")
	fl.Lookup("limit").DefValue = "0" // hides it: the text says what holds
	fl.IntVarP(&f.workers, "workers", "w", 0, "tasks that are checked at the same time (default min(cores, 4))")
	a.addLogFlag(c)
	return c
}

func (a *app) validate(ctx context.Context, arg string, f validateFlags) (err error) {
	loc, tester, err := locateForScoring(arg, f.workers)
	if err != nil {
		return err
	}
	in, err := loadPack(ctx, loc, f.limit, demands{image: needsImage, strict: f.strict})
	if err != nil {
		return err
	}
	for _, w := range in.Warnings {
		a.say("warning: %v", w)
	}
	s, err := a.openScorer(ctx, "validate", in, tester)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	out := &validationReport{w: a.stdout, json: f.json, file: in.Tasks, baselines: pipeline.Baselines{Families: in.families}}
	err = pipeline.Validate(ctx, pipeline.ValidateConfig{
		Families: in.families, Tasks: in.tasks(ctx), Verifiers: s.verifiers, Images: s.images,
		Verify: sandboxLimits(tester.Limits), VerifyTimeout: tester.Limits.Verify, Workers: tester.MaxWorkers, Retries: tester.Retries, Done: out.add,
	})
	if err != nil {
		return scoringError(err)
	}
	return a.withBaselines(out, f, out.finish())
}

// withBaselines adds what blind answers made of the pack to the end of a
// validation.
func (a *app) withBaselines(out *validationReport, f validateFlags, end error) error {
	switch err := printBaselines(a.stdout, f.json, out.baselines.Results()); {
	case errors.Is(err, errBeaten) && f.strict && end != nil:
		return fmt.Errorf("%w; and %w", end, err)
	case errors.Is(err, errBeaten) && f.strict:
		return coded(exitProblems, err)
	case errors.Is(err, errBeaten):
		a.say("warning: %v (--strict makes this an error)", err)
		return end
	default:
		return errors.Join(end, err)
	}
}

// validationReport renders validations: JSON lines as they come, or one table
// in row order at the end.
type validationReport struct {
	w    io.Writer
	json bool
	file string // of the rows
	all  []pipeline.Validation
	err  error

	total, bad, skipped int
	baselines           pipeline.Baselines
}

func (r *validationReport) add(v pipeline.Validation) {
	r.total++
	r.baselines.Add(v)
	switch {
	case v.Skipped != "":
		r.skipped++
	case !v.OK():
		r.bad++
	}
	if !r.json {
		r.all = append(r.all, v)
		return
	}
	b, err := json.Marshal(struct {
		pipeline.Validation
		OK     bool  `json:"ok"`
		TookMS int64 `json:"took_ms"`
	}{v, v.OK(), v.Took.Milliseconds()})
	if err == nil {
		_, err = fmt.Fprintf(r.w, "%s\n", redact.ASCII(b))
	}
	r.err = errors.Join(r.err, err)
}

func (r *validationReport) finish() error {
	sort.Slice(r.all, func(i, j int) bool { return r.all[i].Line < r.all[j].Line })
	if !r.json {
		r.err = errors.Join(r.err, r.table())
	}
	if r.err != nil {
		return fmt.Errorf("printing the validation: %w", r.err)
	}
	if r.bad > 0 {
		return coded(exitProblems, fmt.Errorf("%d of %d tasks have problems", r.bad, r.total))
	}
	return nil
}

func (r *validationReport) table() error {
	w := tabwriter.NewWriter(r.w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TASK\tFAMILY\tREFERENCE\tEMPTY\tGARBAGE\tSTARTER\tRESULT")
	for _, v := range r.all {
		cells := map[string]string{}
		for _, c := range v.Checks {
			cells[c.Candidate] = cell(c)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", redact.Quote(v.TaskID), redact.Quote(v.Family),
			orDash(cells[pipeline.CheckReference]), orDash(cells[pipeline.CheckEmpty]),
			orDash(cells[pipeline.CheckGarbage]), orDash(cells[pipeline.CheckStarter]), result(v))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	r.explain()
	_, err := fmt.Fprintf(r.w, "\n%s: %d valid, %d with problems, %d skipped\n",
		plural(r.total, "task"), r.total-r.bad-r.skipped, r.bad, r.skipped)
	return err
}

// explain says, with the row's place, what is wrong with each problem, and
// what tests are weak.
func (r *validationReport) explain() {
	sep := "\n"
	for _, v := range r.all {
		for _, c := range v.Checks {
			if c.OK {
				continue
			}
			what := c.Message
			if c.Outcome == verdict.Passed {
				what = "it passes and must fail"
			}
			fmt.Fprintf(r.w, "%s%s:%d: %s: %s candidate: %s\n", sep, redact.Quote(r.file), v.Line, redact.Quote(v.TaskID), c.Candidate, redact.Escape(what))
			sep = ""
		}
		for _, what := range v.Weak {
			fmt.Fprintf(r.w, "%s%s:%d: %s: warning: the tests pass where %s: let one of them tell two apart\n",
				sep, redact.Quote(r.file), v.Line, redact.Quote(v.TaskID), redact.Escape(what))
			sep = ""
		}
	}
}

func cell(c pipeline.Check) string {
	got := "fails"
	if c.Outcome == verdict.Passed {
		got = "passes"
	}
	if !c.OK {
		got = strings.ToUpper(got)
		if c.Reason != "" {
			got += " (" + string(c.Reason) + ")"
		}
	}
	return got
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func result(v pipeline.Validation) string {
	switch {
	case v.Skipped != "":
		return "skipped: " + v.Skipped
	case v.OK():
		return "ok"
	}
	return "PROBLEM"
}
