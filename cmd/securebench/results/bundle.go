package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/evidence"
	"securebench/internal/fault"
)

const bundleHelp = `Write an archive of the publishable part of a run.

The bundle is a ZIP file with one folder: run manifest, records, candidates,
signed statement and, if there is one, the agents' trace. The operator's files
are left out: raw output, salt and former runs. A bundle can be verified on any
machine and without the pack: securebench verify FILE. The same run always gives
the same bytes.

The run must verify; see securebench verify for --key and --any-signer.`

func (g group) bundleCommand() *cobra.Command {
	var trust subcommand.Trust
	var out string
	var force bool
	c := &cobra.Command{
		Use: "bundle RUN -o FILE", Short: "Write an archive of the publishable part of a run",
		Long: bundleHelp, Args: subcommand.Need("RUN"),
		Example: "  securebench bundle runs/demo -o demo.zip\n  securebench verify demo.zip",
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				return subcommand.UsageError(errors.New("give -o FILE"))
			}
			return g.bundle(c.Context(), args[0], out, force, trust)
		},
	}
	trust.Add(c)
	c.Flags().StringVarP(&out, "output", "o", "", "`FILE` to write, such as run.zip")
	c.Flags().BoolVar(&force, "force", false, "replace an existing FILE")
	return c
}

func (g group) bundle(ctx context.Context, arg, out string, force bool, f subcommand.Trust) (err error) {
	run, res, err := g.OpenTrusted(ctx, arg, f, evidence.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if _, err := os.Lstat(out); err == nil && !force {
		return fault.As(fault.Refused, fmt.Errorf("%s already exists: give --force to replace it", out))
	}
	g.introduce(res.Manifest)
	return subcommand.WriteWhole(out, func(w io.Writer) error { return evidence.WriteBundle(w, run) })
}
