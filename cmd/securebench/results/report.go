package results

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/earlier"
	"securebench/internal/evidence"
	packrow "securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
	"securebench/internal/report"
	"securebench/internal/source"
	"securebench/internal/viewer"
)

const reportHelp = `Report what a run scored.

The denominator is the number of planned attempts: infrastructure errors, pending
attempts and missing records count as not passed and are shown separately. Rates
have a 95 % Wilson interval. With several attempts per task, pass@k is the
unbiased estimate. Containment profiles are shown separately.

RUN is the output directory of a run, a published copy of one, or a bundle.
The run is checked as by "securebench verify". A run that does not verify is
still reported, but marked as such: at the top, or in every row of the CSV. The
exit code is then 13.

--html writes one page with totals and intervals, by family, tag and containment,
and every attempt with filters and search. It loads nothing from elsewhere, holds
only what the records publish, and can be opened from disk. --junit writes JUnit XML
in which a run that does not verify is a failure. With --pack, both and the table
also count by the tags of the rows (metadata.tags).

Tasks that ask for a judge have rates of their own; no figure is of both. Where
something measures candidates, each format has the mean over the passes, which records
publish. The table of the operator, and with --measures also the JSON, the page and the
JUnit XML, have the mean over all attempts: it tells how near the others came.`

type reportFlags struct {
	trust        subcommand.Trust
	json, csv    bool
	format, pack string
	html, junit  string // files
	measures     bool
}

func (g group) reportCommand() *cobra.Command {
	var f reportFlags
	c := &cobra.Command{
		Use: "report RUN", Short: "Report what a run scored",
		Long: reportHelp, Args: subcommand.Need("RUN"),
		Example: "  securebench report runs/demo\n  securebench report demo.zip --csv > demo.csv\n  securebench report runs/demo --html demo.html\n  securebench report runs/demo --junit demo.xml --pack packs/demo",
		RunE: func(c *cobra.Command, args []string) error {
			return g.report(c.Context(), args[0], f)
		},
	}
	f.trust.Add(c)
	fl := c.Flags()
	fl.BoolVar(&f.json, "json", false, "print one JSON object instead of tables")
	fl.BoolVar(&f.csv, "csv", false, "print one row of CSV per attempt instead of tables")
	fl.StringVar(&f.format, "format", "", "`FORMAT`: table, json or csv")
	subcommand.Hide(fl, "format") // its name before --json was the same everywhere
	fl.StringVar(&f.html, "html", "", "also write a page to `FILE` that can be opened from disk and published")
	fl.StringVar(&f.junit, "junit", "", "also write JUnit XML to `FILE`, for CI")
	fl.BoolVar(&f.measures, "measures", false, "add means over all attempts to the JSON, the page and the XML: they are not for publication")
	fl.StringVar(&f.pack, "pack", "", "the `PACK` of the run, to count by metadata.tags as well")
	return c
}

// writer returns what prints the report as the flags say.
func (f reportFlags) writer() (func(*report.Report, io.Writer) error, error) {
	switch {
	case f.json && f.csv, f.format != "" && (f.json || f.csv):
		return nil, subcommand.UsageError(errors.New("give one of --json and --csv"))
	case f.json || f.format == "json":
		return (*report.Report).WriteJSON, nil
	case f.csv || f.format == "csv":
		return (*report.Report).WriteCSV, nil
	case f.format != "" && f.format != "table":
		return nil, subcommand.UsageError(fmt.Errorf("--format is %q: give --json or --csv instead, or nothing for tables", f.format))
	}
	return (*report.Report).WriteTable, nil
}

func (g group) report(ctx context.Context, arg string, f reportFlags) (err error) {
	write, err := f.writer()
	if err != nil {
		return err
	}
	var attempts []report.Attempt
	lines := viewer.Lines{}
	withheld := map[int]string{} // files of attempts with what their records leave out
	run, res, signer, err := subcommand.OpenVerified(ctx, arg, f.trust, evidence.Options{Each: func(e record.Entry) {
		at := report.NewAttempt(e)
		if f.junit != "" {
			at.Said = report.Explain(e)
		}
		attempts = append(attempts, at)
		if f.html != "" {
			lines.Add(e)
		}
		if f := e.Withheld(); f != "" {
			withheld[len(attempts)-1] = f
		}
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if f.measures && res.Published {
		return subcommand.UsageError(errors.New("--measures: this is a published copy, without the measures of candidates that did not pass: give the output directory of the run"))
	}
	known := (f.table() || f.measures) && readMeasures(run, res, attempts, withheld)
	tags, err := tagsOf(ctx, f.pack, arg, run, res)
	if err != nil {
		return err
	}
	judged := subcommand.Judge(signer, res)
	b := report.NewBuilder(report.About(res, signer, judged))
	for _, at := range attempts {
		at.Tags = tags[at.TaskID]
		b.Add(at)
	}
	p := &written{run: run, res: res, report: b.Report(), lines: lines, version: g.Version}
	shown := *p.report
	if known {
		shown = *shown.Measured()
	}
	if f.measures {
		p.report = new(report.Report)
		*p.report = shown
	}
	if f.table() && judged == nil { // on this terminal, not in what is published
		shown.Run.Evidence = report.SignedBy + signer.String()
	}
	return errors.Join(write(&shown, g.Stdout), p.files(f), judged)
}

// readMeasures adds the measures of candidates that did not pass, and reports whether all
// are known: only the operator has them.
func readMeasures(run *evidence.Run, res *evidence.Result, attempts []report.Attempt, withheld map[int]string) bool {
	if res.Published {
		return false
	}
	for i, path := range withheld {
		m, err := record.ReadMeasure(run, path)
		if err != nil {
			return false
		}
		attempts[i].Measure = m
	}
	return true
}

// table reports whether the report is printed as tables.
func (f reportFlags) table() bool {
	return !f.json && !f.csv && (f.format == "" || f.format == "table")
}

// tagsOf reads the tags of the run's tasks from its pack, "" for none.
func tagsOf(ctx context.Context, pack, name string, run *evidence.Run, res *evidence.Result) (map[string][]string, error) {
	if pack == "" {
		return nil, nil
	}
	bound := &earlier.Run{Name: name, Manifest: res.Manifest}
	if hidden, err := record.ReadPack(run); err == nil {
		bound.Hidden = &hidden
	}
	out := map[string][]string{}
	err := subcommand.RowsOf(ctx, pack, []*earlier.Run{bound}, func(row packrow.Row) *source.Problem {
		tags, problem := row.Tags()
		out[row.ID] = tags
		return problem
	})
	return out, err
}
