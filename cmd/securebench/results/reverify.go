package results

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/evidence"
	"securebench/internal/families"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/pipeline/commit"
	"securebench/internal/progress"
	"securebench/internal/redact"
	"securebench/internal/reverify"
	"securebench/internal/task"
	"securebench/internal/verdict"
	"securebench/internal/workload"
)

type reverifyFlags struct {
	trust    subcommand.Trust
	pack     string
	salt     string
	sample   int
	workers  int
	json     bool
	limits   bool
	progress string
	// askAgain asks the judge anew, of whose verdicts at least the share agreement must be
	// the recorded ones.
	askAgain  bool
	agreement float64
	judge     string
}

const reverifyHelp = `Derive the verdicts of a run again, from its candidates and the pack.

RUN is the output directory of a run, a published copy of one, or a bundle. It
is checked as by "securebench verify". PACK must be the one that the run is
bound to, every record must be of one of its rows, and the run must say how many
of its rows it left out. Every stored candidate is then scored again, in fresh
sandboxes and from the pack's last row to its first, and each verdict that
differs is listed. The limits are those of the run, but not above your own:
those of a tester YAML given as PACK, or the defaults. With --run-limits, the
limits of the run apply unchanged.

Verdicts of a judge are derived from its recorded answers, and no provider is asked: each
question is worded again, and must be the one that was asked. A published copy has no
answers, so its judged verdicts are only counted. With --ask-again, the judge that PACK
configures, a tester YAML, or the model of --judge is asked anew, and the exit code is 14 if
less than the share --agreement of its verdicts are the recorded ones.

Records without a candidate, such as that of an agent that timed out, are only
counted.

If a run does not verify, because it was interrupted or changed, the verdicts of
its intact records are still derived, and the exit code is 13.

The public part of a pack is compared by its digest. Hidden parts are bound by
keyed digests, which can be compared only with the run's salt: from the run's
restricted folder, or given with --salt.

Where verdicts differ, what may explain it is listed: a hidden part of the pack that was not
compared, another build, image or engine, lower limits.

The exit code is 13 if a verdict differs or the run's number of left-out rows is
wrong, and 15 if PACK is another pack.`

func (g group) reverifyCommand() *cobra.Command {
	var f reverifyFlags
	c := &cobra.Command{
		Use: "reverify RUN --pack PACK", Short: "Derive a run's verdicts again from its candidates",
		Long: reverifyHelp + "\n" + subcommand.TrustHelp, Args: subcommand.Need("RUN"),
		Example: "  securebench reverify runs/demo --pack packs/demo\n  securebench reverify demo.zip --pack packs/demo --any-signer --sample 20",
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case f.pack == "":
				return subcommand.UsageError(errors.New("give --pack PACK"))
			case c.Flags().Changed("sample") && f.sample < 1, c.Flags().Changed("workers") && f.workers < 1:
				return subcommand.UsageError(errors.New("--sample and --workers must be 1 or more"))
			case !f.askAgain && (c.Flags().Changed("agreement") || f.judge != ""):
				return subcommand.UsageError(errors.New("--agreement and --judge are for --ask-again"))
			case f.agreement < 0 || f.agreement > 1:
				return subcommand.UsageError(errors.New("--agreement must be from 0 to 1"))
			}
			return g.reverify(c.Context(), args[0], f)
		},
	}
	f.trust.Add(c)
	fl := c.Flags()
	fl.StringVar(&f.pack, "pack", "", "the `PACK` of the run")
	fl.StringVar(&f.salt, "salt", "", "`FILE` of the run's salt (restricted/salt), for a published copy")
	fl.BoolVar(&f.limits, "run-limits", false, "use the run's limits even where they exceed yours")
	fl.BoolVar(&f.askAgain, "ask-again", false, "ask the judge anew instead of reading its recorded answers")
	fl.Float64Var(&f.agreement, "agreement", 0.9, "with --ask-again: the `SHARE` of judged verdicts that must be the recorded ones")
	fl.StringVar(&f.judge, "judge", "", "with --ask-again: ask this `MODEL`")
	fl.IntVar(&f.sample, "sample", 0, "derive only `N` verdicts, chosen at random")
	fl.IntVarP(&f.workers, "workers", "w", 0, "derive `N` verdicts concurrently (default min(cores, 4))")
	subcommand.AddProgressFlag(c, &f.progress)
	g.AddEngineFlag(c)
	g.AddLogFlag(c)
	fl.BoolVar(&f.json, "json", false, "print one JSON object per verdict instead of a table")
	return c
}

// rederivation prints the results of a reverification.
type rederivation struct {
	g      group
	json   bool
	review *reverify.Review
	shown  progress.Reporter
	diffs  []reverify.Rederived
	equal  verdict.ByBasis[int]
	seen   verdict.ByBasis[int]
	asked  int // verdicts of a judge that was asked anew
	flips  int // those among the diffs
	// agreement is the share of its verdicts that must be the recorded ones.
	agreement float64
	err       error // of printing
}

func (g group) reverify(ctx context.Context, arg string, f reverifyFlags) (err error) {
	review := &reverify.Review{Records: &reverify.Records{}, PackName: f.pack, Sample: f.sample, RunLimits: f.limits, OpenEngine: g.Engine(), Notice: g.Notice}
	broken, err := g.openPartial(ctx, arg, f.trust, review)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broken, review.Run.Close()) }()
	if review.Salt, err = reverify.FindSalt(review.Run, review.Result, f.salt); err != nil {
		return err
	}
	g.introduce(review.Result.Manifest)
	if review.Salt == nil {
		g.Say("hidden parts of the pack are not compared: that needs the run's salt, see --salt")
	}
	loc, tester, err := subcommand.LocateForScoring(f.pack, f.workers)
	if err != nil {
		return err
	}
	review.Config, tester.Getenv = tester, g.Getenv
	if review.Work, err = workload.Load(ctx, loc, families.All(), workload.All, workload.Demands{Image: family.Family.RunsIn}); err != nil {
		return err
	}
	if f.askAgain {
		if err := review.OpenJudge(ctx, f.judge, g.Getenv); err != nil {
			return err
		}
	}
	shown, hide, err := g.Progress(f.progress)
	if err != nil {
		return err
	}
	defer hide()
	r := &rederivation{g: g, json: f.json, review: review, shown: shown, agreement: f.agreement}
	watch := &progress.Count{To: shown, Total: min(review.Records.Total, cmp.Or(f.sample, math.MaxInt))}
	review.Begin = func(t task.Task, attempt int) { watch.Begin(t.ID(), attempt, t.Family()) }
	review.Done = r.done
	if err := review.Derive(ctx); err != nil {
		return err
	}
	hide() // before the table
	return r.finish()
}

// openPartial opens a run for a review. Of one that does not verify, the records
// in which nothing is wrong are left, and what is wrong is the first error.
func (g group) openPartial(ctx context.Context, arg string, f subcommand.Trust, review *reverify.Review) (broken, err error) {
	run, res, signer, err := subcommand.OpenVerified(ctx, arg, f, evidence.Options{Each: review.Records.Add})
	if err != nil {
		return nil, err
	}
	review.Run, review.Result = run, res
	if broken = subcommand.Judge(signer, res); broken == nil {
		return nil, nil
	}
	for _, p := range res.Problems[:min(len(res.Problems), subcommand.MaxListed)] {
		g.Say("%s", p)
	}
	review.Records.Without(res.Suspect)
	if left := review.Records.Total; (res.Unfinished || len(res.Problems) > 0) && res.Manifest.RunID != "" && left > 0 {
		review.Partial = true
		what := "this run does not verify"
		if errors.As(broken, new(*evidence.UnfinishedError)) {
			what = "this run is not finished"
		}
		g.Say("%s; continuing with the %d of its %s that are intact, though no signature covers them", what, left, console.Plural(int(res.Records), "record"))
		return broken, nil
	}
	return nil, errors.Join(broken, run.Close())
}

// done counts a verdict, and prints it with --json.
func (r *rederivation) done(v reverify.Rederived) {
	r.shown.Event(v.Event())
	basis := verdict.Computed
	if judged := verdict.Judged.String(); v.Was.Basis == judged || v.Is.Basis == judged {
		basis = verdict.Judged
	}
	*r.seen.Of(basis)++
	if v.Asked {
		r.asked++
	}
	if v.Equal() {
		*r.equal.Of(basis)++
	} else {
		r.diffs = append(r.diffs, v)
		if v.Asked {
			r.flips++
		}
	}
	if !r.json {
		return
	}
	r.err = errors.Join(r.err, r.g.PrintJSON(struct {
		reverify.Rederived
		Equal bool `json:"equal"`
	}{v, v.Equal()}))
}

func (r *rederivation) finish() error {
	if !r.json {
		r.err = errors.Join(r.err, r.table())
	}
	if r.err != nil {
		return fmt.Errorf("printing the verdicts: %w", r.err)
	}
	if len(r.diffs) > r.flips {
		for _, cause := range r.review.Causes(r.diffs) {
			r.g.Say("why verdicts may differ: %s", cause)
		}
	}
	if n := r.review.Records.Total - r.review.Seen; n > 0 {
		return fault.As(fault.Integrity, fmt.Errorf("records without a row in the pack: %d", n))
	}
	if n := len(r.diffs) - r.flips; n > 0 {
		return fault.As(fault.Integrity, fmt.Errorf("%s different from what was recorded", console.Plural(n, "verdict")))
	}
	n := r.asked
	if share := float64(n-r.flips) / float64(max(n, 1)); r.flips > 0 && share < r.agreement {
		return fault.As(fault.Problems, fmt.Errorf("the judge gave %d of %d verdicts again (%.3g), want at least the share %.3g", n-r.flips, n, share, r.agreement))
	}
	return nil
}

// table lists the differences and counts the rest, what was judged apart.
func (r *rederivation) table() error {
	if len(r.diffs) > 0 {
		slices.SortFunc(r.diffs, func(a, b reverify.Rederived) int {
			if a.Index != b.Index {
				return a.Index - b.Index
			}
			return a.Attempt - b.Attempt
		})
		w := console.NewTable(r.g.Stdout)
		fmt.Fprintln(w, "TASK\tATTEMPT\tRECORDED\tDERIVED")
		for _, d := range r.diffs {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", redact.Quote(d.TaskID), d.Attempt, verdictCell(d.Was), verdictCell(d.Is))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	equal, seen := *r.equal.Of(verdict.Computed), *r.seen.Of(verdict.Computed)
	_, err := fmt.Fprintf(r.g.Stdout, "reverified %s of %d of the pack's %d rows: %d equal, %d different; %s without a candidate\n",
		console.Plural(seen, "verdict"), r.review.Result.Manifest.Planned.Tasks, r.review.Work.Count, equal, seen-equal, console.Plural(r.review.Left, "record"))
	if n := *r.seen.Of(verdict.Judged); err == nil && n > 0 {
		equal := *r.equal.Of(verdict.Judged)
		_, err = fmt.Fprintf(r.g.Stdout, "judged, apart from these: %s: %d equal, %d different\n", console.Plural(n, "verdict"), equal, n-equal)
	}
	return err
}

func verdictCell(v commit.Judged) string {
	cell := string(v.Outcome)
	if v.Reason != "" {
		cell += " (" + string(v.Reason) + ")"
	}
	if v.Basis == verdict.Judged.String() {
		cell += " " + v.Basis
	}
	cell = strings.TrimSpace(cell + " " + string(v.Containment) + " " + v.Labels)
	if v.Extraction != "" || v.Extracted != "" {
		cell = strings.TrimSpace(fmt.Sprintf("%s %s %.19s", cell, v.Extraction, v.Extracted))
	}
	return redact.Escape(cell)
}
