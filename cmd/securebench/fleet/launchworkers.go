package fleet

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/fault"
	"securebench/internal/launch"
	"securebench/internal/remote"
)

// addWorkers adds the flags of workers, which do not go with those of shards.
func addWorkers(c *cobra.Command, w *launch.Workers, shards ...string) {
	c.Flags().IntVarP(&w.Count, "workers", "w", 0, "start `N` workers instead of shards")
	c.Flags().StringVar(&w.Hub, "hub", "", "with --workers: `ADDRESS:PORT` of the run")
	for _, name := range shards {
		c.MarkFlagsMutuallyExclusive("workers", name)
	}
}

// checkWorker refuses flags that no worker could run with.
func (g group) checkWorker(args []string) error {
	worker := g.workerCommand()
	worker.InitDefaultHelpFlag()
	err := worker.ParseFlags(args)
	for _, name := range []string{"hub", "credentials", "grace", "help"} {
		if err == nil && worker.Flags().Changed(name) {
			err = fmt.Errorf("leave out --%s", name)
		}
	}
	if err == nil {
		err = worker.ValidateArgs(worker.Flags().Args())
	}
	if err != nil {
		return subcommand.UsageError(fmt.Errorf("after --: %w", err))
	}
	return nil
}

// slurmWorkers prints or submits workers.
func (g group) slurmWorkers(ctx context.Context, s launch.Slurm, w launch.Workers, credentials string, submit bool) error {
	if err := g.checkWorker(w.Args); err != nil {
		return err
	}
	if _, err := remote.ReadCredential(credentials); err != nil {
		return fault.As(fault.Config, err)
	}
	credentials, err := filepath.Abs(credentials)
	if err != nil {
		return fmt.Errorf("resolving --credentials: %w", err)
	}
	if !submit {
		script, err := s.WorkersScript(w, credentials)
		return g.printed(script, err)
	}
	job, err := s.Workers(w, credentials)
	if err != nil {
		return err
	}
	number, err := sbatch(ctx, job)
	return g.printed("array "+number+"\n", err)
}
