package results

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/evidence"
	"securebench/internal/pipeline/record"
	"securebench/internal/report"
)

const reportHelp = `Report what a run scored.

The denominator is the number of planned attempts: infrastructure errors, pending
attempts and missing records count as not passed and are shown separately. Rates
have a 95 % Wilson interval. With several attempts per task, pass@k is the
unbiased estimate. Containment profiles are shown separately.

RUN is the output directory of a run, a published copy of one, or a bundle.
The run is checked as by "securebench verify". A run that does not verify is
still reported, but marked as such: at the top, or in every row of the CSV. The
exit code is then 13.`

func (g group) reportCommand() *cobra.Command {
	var trust subcommand.Trust
	var asJSON, asCSV bool
	var format string
	c := &cobra.Command{
		Use: "report RUN", Short: "Report what a run scored",
		Long: reportHelp, Args: subcommand.Need("RUN"),
		Example: "  securebench report runs/demo\n  securebench report demo.zip --csv > demo.csv",
		RunE: func(c *cobra.Command, args []string) error {
			write, err := reportWriter(asJSON, asCSV, format)
			if err != nil {
				return err
			}
			return g.report(c.Context(), args[0], write, trust)
		},
	}
	trust.Add(c)
	fl := c.Flags()
	fl.BoolVar(&asJSON, "json", false, "print one JSON object instead of tables")
	fl.BoolVar(&asCSV, "csv", false, "print one row of CSV per attempt instead of tables")
	fl.StringVar(&format, "format", "", "`FORMAT`: table, json or csv")
	subcommand.Hide(fl, "format") // its name before --json was the same everywhere
	return c
}

// reportWriter returns what writes the report as the flags say.
func reportWriter(asJSON, asCSV bool, format string) (func(*report.Report, io.Writer) error, error) {
	switch {
	case asJSON && asCSV, format != "" && (asJSON || asCSV):
		return nil, subcommand.UsageError(errors.New("give one of --json and --csv"))
	case asJSON || format == "json":
		return (*report.Report).WriteJSON, nil
	case asCSV || format == "csv":
		return (*report.Report).WriteCSV, nil
	case format != "" && format != "table":
		return nil, subcommand.UsageError(fmt.Errorf("--format is %q: give --json or --csv instead, or nothing for tables", format))
	}
	return (*report.Report).WriteTable, nil
}

func (g group) report(ctx context.Context, arg string, write func(*report.Report, io.Writer) error, f subcommand.Trust) error {
	var attempts []report.Attempt
	run, res, signer, err := subcommand.OpenVerified(ctx, arg, f, evidence.Options{Each: func(e record.Entry) {
		attempts = append(attempts, report.Attempt{
			TaskID: e.TaskID, Index: e.Index, Attempt: e.Attempt, Family: e.TaskType, Status: e.Status,
			Outcome: e.Outcome, Reason: e.FailureReason, Containment: e.Containment, Labels: e.Labels,
			Passed: e.Passed, AgentExit: e.AgentExit(), TotalMS: e.Timings["total"], Candidate: e.Digests.Candidate,
		})
	}})
	if err != nil {
		return err
	}
	judged := subcommand.Judge(signer, res)
	b := report.NewBuilder(aboutRun(res, signer, judged))
	for _, at := range attempts {
		b.Add(at)
	}
	return errors.Join(write(b.Report(), g.Stdout), judged, run.Close())
}

// aboutRun returns the report's section about the run as a whole.
func aboutRun(res *evidence.Result, s evidence.Signer, judged error) report.Run {
	m := res.Manifest
	if m.RunID == "" && res.Sealed { // run.json cannot be read
		m.RunID, m.Planned = res.Statement.Predicate.RunID, record.Planned(res.Statement.Predicate.Planned)
	}
	r := report.Run{
		RunID: m.RunID, Agent: m.Agent, PackID: m.Pack.ID, PackVersion: m.Pack.Version, Engine: evidence.Engine(m),
		PlannedTasks: m.Planned.Tasks, PlannedAttempts: m.Planned.Attempts,
		LeftOut: m.Planned.LeftOut, Labels: m.Labels,
		Chosen:   m.Selection.String(),
		Verified: judged == nil, Evidence: "verified, signed by " + s.String(),
	}
	if judged != nil {
		r.Evidence = "NOT VERIFIED: " + judged.Error()
		if len(res.Problems) > 0 {
			r.Evidence += "; the first: " + res.Problems[0].String()
		}
	}
	return r
}
