package results

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/compare"
	"securebench/internal/earlier"
	"securebench/internal/fault"
	"securebench/internal/pipeline/pack"
	"securebench/internal/redact"
	"securebench/internal/source"
)

const compareHelp = `Compare runs of the same tasks: is one better than another, or is it chance?

Each further RUN is compared with the first, task by task. Shown are the
difference in pass rate with its 95 % interval, the percentile interval of a
bootstrap over tasks, and which tasks were gained and lost. With one attempt at
each task, the interval is Newcombe's for paired proportions and the test
McNemar's exact one; with several, both come from the paired differences of the
tasks' shares of passes (Student's t). If several runs are compared with the
first, p values are also given with Holm's correction.

With --pack, tasks whose rows have the same metadata.cluster count as one group:
they are not independent of each other. The bootstrap then draws groups, and the
interval and the test use a cluster-robust standard error.

The runs must verify, and must have been given the same: the pack, as far as it
is published or its digests are there; the tasks; the images; the limits; the
build of securebench that scored them. Otherwise the command is refused, with
each difference (exit 15). --allow WHAT compares them anyway and names the
difference in the report: tasks (only those of all runs are compared), images,
limits, verifier or judge. "securebench reverify" says whether two builds give the same
verdicts.
`

type compareFlags struct {
	trust     subcommand.Trust
	json      bool
	pack      string
	allow     []string
	resamples int
	seed      uint64
}

func (g group) compareCommand() *cobra.Command {
	var f compareFlags
	c := &cobra.Command{
		Use: "compare RUN RUN...", Short: "Compare runs of the same tasks, with intervals and tests",
		Long: compareHelp + subcommand.TrustHelp,
		Example: `  securebench compare runs/before runs/after
  securebench compare runs/a runs/b runs/c --json
  securebench compare runs/a runs/b --pack packs/demo   # clusters of tasks`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("give two or more RUNs: see %s --help", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return g.compare(c.Context(), args, f) },
	}
	f.trust.Add(c)
	fl := c.Flags()
	fl.BoolVar(&f.json, "json", false, "print one JSON object instead of tables")
	fl.StringVar(&f.pack, "pack", "", "the `PACK` of the runs, whose rows say which tasks form clusters")
	fl.StringSliceVar(&f.allow, "allow", nil, "compare although `WHAT` differs: tasks, verifier, images, limits, judge")
	fl.IntVar(&f.resamples, "resamples", 10000, "`N` resamples of the bootstrap")
	fl.Uint64Var(&f.seed, "seed", 0, "`SEED` of the bootstrap's draws")
	return c
}

// maxResamples bounds the bootstrap's memory.
const maxResamples = 1_000_000

func (g group) compare(ctx context.Context, names []string, f compareFlags) error {
	write := (*compare.Report).WriteTable
	if f.json {
		write = (*compare.Report).WriteJSON
	}
	if f.resamples < 1 || f.resamples > maxResamples {
		return subcommand.UsageError(fmt.Errorf("--resamples must be from 1 to %d", maxResamples))
	}
	o := compare.Options{Resamples: f.resamples, Seed: f.seed}
	allowed, err := compare.ParseKinds(f.allow, compare.Allowable())
	if err != nil {
		return subcommand.UsageError(err)
	}
	o.Allowed = allowed
	trust, err := f.trust.Signers()
	if err != nil {
		return err
	}
	var runs []*earlier.Run
	for _, name := range names {
		run, err := earlier.Open(ctx, name, trust)
		if err != nil {
			return subcommand.AdviseTrust(err)
		}
		runs = append(runs, run)
	}
	if f.pack != "" {
		if o.Clusters, err = clusters(ctx, f.pack, runs); err != nil {
			return err
		}
	}
	report, err := compare.Compare(runs, o)
	if different, ok := errors.AsType[*compare.DifferentError](err); ok {
		return fault.As(fault.Refused, different.Explain())
	}
	if err != nil {
		return err
	}
	return write(report, g.Stdout)
}

// clusters reads the clusters of the runs' tasks from their pack.
func clusters(ctx context.Context, arg string, runs []*earlier.Run) (map[string]string, error) {
	out := map[string]string{}
	err := subcommand.RowsOf(ctx, arg, runs, func(row pack.Row) *source.Problem {
		name, problem := row.Cluster()
		if problem == nil && name != "" {
			out[row.ID] = name
		}
		return problem
	})
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fault.As(fault.Refused, fmt.Errorf("%s: no row has metadata.cluster: leave --pack out", redact.Quote(arg)))
	}
	return out, nil
}
