package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/evidence"
	"securebench/internal/export"
	"securebench/internal/fault"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
)

const exportHelp = `Write the attempts of a run in the format of another program.

  inspect   a log of Inspect (.eval): its viewer and read_eval_log open it
  parquet   a table with a row for each attempt, for pandas, DuckDB and the like
  csv       the same table as text; no cell begins a formula
  jsonl     the same table, an object on each line
  atif      a folder with a trajectory for each attempt, in the Agent Trajectory
            Interchange Format of Harbor

The columns are described in docs/export.md. What is written is what the run publishes.
With --steps, inspect and atif also have what the agents did, step by step, which only
the operator's directory has: do not publish these.

The run must verify; see securebench verify for --key and --any-signer. What was exported
cannot itself be verified.`

// exportFlags are the flags of the command.
type exportFlags struct {
	trust   subcommand.Trust
	to, out string
	steps   bool
	force   bool
}

// exportFormats are the values of --to; those in the second list can have steps.
func exportFormats() (all, withSteps []string) {
	return []string{"inspect", "parquet", "csv", "jsonl", "atif"}, []string{"inspect", "atif"}
}

func (g group) exportCommand() *cobra.Command {
	var f exportFlags
	all, withSteps := exportFormats()
	c := &cobra.Command{
		Use: "export RUN --to FORMAT -o FILE", Short: "Write a run in the format of another program",
		Long: exportHelp, Args: subcommand.Need("RUN"),
		Example: "  securebench export runs/demo --to inspect -o demo.eval\n  securebench export demo.zip --to parquet -o demo.parquet",
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case !slices.Contains(all, f.to):
				return subcommand.UsageError(fmt.Errorf("give --to with one of %s", strings.Join(all, ", ")))
			case f.out == "":
				return subcommand.UsageError(errors.New("give -o FILE"))
			case f.steps && !slices.Contains(withSteps, f.to):
				return subcommand.UsageError(fmt.Errorf("--steps is for --to %s", strings.Join(withSteps, " and ")))
			}
			return g.export(c.Context(), args[0], f)
		},
	}
	f.trust.Add(c)
	c.Flags().StringVar(&f.to, "to", "", "the `FORMAT`: "+strings.Join(all, ", "))
	c.Flags().StringVarP(&f.out, "output", "o", "", "`FILE` to write; with --to atif a folder")
	c.Flags().BoolVar(&f.steps, "steps", false, "with what the agents did, from the operator's directory: do not publish it")
	c.Flags().BoolVar(&f.force, "force", false, "replace an existing FILE")
	return c
}

func (g group) export(ctx context.Context, arg string, f exportFlags) (err error) {
	out := &export.Run{}
	run, res, err := g.OpenTrusted(ctx, arg, f.trust, evidence.Options{Each: func(e record.Entry) { out.Lines = append(out.Lines, e.Line) }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	out.FS, out.Manifest, out.Ended = run, res.Manifest, res.Statement.Predicate.Ended
	if f.steps {
		if res.Published {
			return fault.As(fault.Usage, errors.New("--steps needs the operator's directory: this is a published copy, which has no steps"))
		}
		salt, err := record.ReadSalt(run, res.Manifest.SaltDigest)
		if err != nil {
			return fault.As(fault.Integrity, err)
		}
		out.Salt = &salt
		g.Say("with the steps of the agents: do not publish %s", f.out)
	}
	if _, err := os.Lstat(f.out); err == nil && !f.force {
		return fault.As(fault.Refused, fmt.Errorf("%s already exists: give --force to replace it", f.out))
	}
	if err := writeExport(out, f); err != nil {
		return err
	}
	g.Say("%s of run %s as %s: %s", console.Plural(len(out.Lines), "attempt"), redact.Quote(out.Manifest.RunID), f.to, f.out)
	return nil
}

// writeExport writes the run in a format.
func writeExport(run *export.Run, f exportFlags) error {
	if f.to != "atif" {
		write := map[string]func(io.Writer) error{"inspect": run.Inspect, "parquet": run.Parquet, "csv": run.CSV, "jsonl": run.JSONLines}[f.to]
		return subcommand.WriteWhole(f.out, write)
	}
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return subcommand.Unwritable(f.out, err)
	}
	return run.ATIF(func(name string, write func(io.Writer) error) error {
		return subcommand.WriteWhole(filepath.Join(f.out, name), write)
	})
}
