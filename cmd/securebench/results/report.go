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
	var format string
	c := &cobra.Command{
		Use: "report RUN", Short: "Report what a run scored",
		Long: reportHelp, Args: subcommand.Need("RUN"),
		Example: "  securebench report runs/demo\n  securebench report demo.zip --format csv > demo.csv",
		RunE: func(c *cobra.Command, args []string) error {
			return g.report(c.Context(), args[0], format, trust)
		},
	}
	trust.Add(c)
	c.Flags().StringVar(&format, "format", "table", "table, json or csv")
	return c
}

func (g group) report(ctx context.Context, arg, format string, f subcommand.Trust) error {
	write, ok := map[string]func(*report.Report, io.Writer) error{
		"table": (*report.Report).WriteTable, "json": (*report.Report).WriteJSON, "csv": (*report.Report).WriteCSV,
	}[format]
	if !ok {
		return subcommand.UsageError(fmt.Errorf("--format is %q, want table, json or csv", format))
	}
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
