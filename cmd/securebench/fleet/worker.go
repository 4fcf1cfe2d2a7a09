package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/pipeline/record"
	"securebench/internal/remote"
	"securebench/internal/remote/site"
	"securebench/internal/remote/worker"
)

// workerFlags are the flags of worker.
type workerFlags struct {
	hub, credentials, roles, cache, runtime, mirror string
	slots                                           int
	grace, wait                                     time.Duration
	stay                                            bool
}

const workerHelp = `Work for a run with --hub: run its agents and score its candidates on this machine.

The credential is from securebench hub invite. A worker needs the same build of
securebench as the run and an equal engine. Images that it lacks are pulled by their
digests; those that are in no registry it must have.

The worker ends when the run has finished. Told to stop (Ctrl-C, SIGTERM), it takes no
more work, finishes what it has within --grace, returns the rest and exits with 143. If
it has nothing to do and no run answers for --wait, it exits with 15.

Results are in --cache until the run has them. A worker that was killed and is started
again with the same cache and credential offers what it had finished.`

func (g group) workerCommand() *cobra.Command {
	var f workerFlags
	c := &cobra.Command{
		Use: "worker --hub ADDRESS:PORT --credentials FILE", Short: "Work for a run on another machine", Args: cobra.NoArgs, Long: workerHelp,
		Example: "  securebench worker --hub 10.0.0.5:4222 --credentials agents.json",
		RunE:    func(c *cobra.Command, _ []string) error { return g.work(c.Context(), f) },
	}
	c.Flags().StringVar(&f.hub, "hub", "", "`ADDRESS:PORT` of the run, which also uses the next port")
	c.Flags().StringVar(&f.credentials, "credentials", "", "`FILE` of securebench hub invite")
	c.Flags().StringVar(&f.roles, "roles", "", "`ROLES` of the credential to take: produce, verify or produce,verify (default all)")
	c.Flags().IntVar(&f.slots, "slots", 0, "do `N` jobs at the same time (default what the machine holds, at most min(cores, 4))")
	c.Flags().StringVar(&f.cache, "cache", "", "`DIR` for files of packs while a run is served, results that it does not have yet, and agents' programs, 8 GiB at most (default securebench/worker in the user's cache)")
	c.Flags().StringVar(&f.mirror, "image-mirror", "", "pull images from the registry `HOST[:PORT][/PATH]`, and from their own what it does not have")
	c.Flags().StringVar(&f.runtime, "runtime", "", "sandbox.runtime of the run, if it has one: the runtime class `NAME` of the engine")
	c.Flags().DurationVar(&f.grace, "grace", 30*time.Minute, "`TIME` to finish in when told to stop")
	c.Flags().DurationVar(&f.wait, "wait", 10*time.Minute, "`TIME` to wait for a run when there is nothing to do (0 is without end)")
	c.Flags().BoolVar(&f.stay, "stay", false, "wait for the next run when one has finished, however long")
	c.MarkFlagsMutuallyExclusive("wait", "stay")
	g.AddEngineFlag(c)
	g.AddLogFlag(c)
	return c
}

// options checks the flags.
func (f workerFlags) options() (o worker.Options, err error) {
	if f.hub == "" || f.credentials == "" {
		return o, subcommand.UsageError(errors.New("give --hub ADDRESS:PORT and --credentials FILE"))
	}
	if f.slots < 0 || f.grace < 0 || f.wait < 0 {
		return o, subcommand.UsageError(errors.New("--slots, --grace and --wait must be 0 or more"))
	}
	o = worker.Options{Hub: f.hub, Slots: f.slots, Cache: f.cache, Grace: f.grace, Wait: f.wait, Stay: f.stay}
	if f.stay {
		o.Wait = 0
	}
	if o.Credential, err = remote.ReadCredential(f.credentials); err != nil {
		return o, fault.As(fault.Config, err)
	}
	o.Roles = o.Credential.Roles
	if f.roles != "" {
		if o.Roles, err = remote.ParseRoles(f.roles); err != nil {
			return o, subcommand.UsageError(fmt.Errorf("--roles: %w", err))
		}
	}
	if o.Cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return o, fault.As(fault.Config, fmt.Errorf("finding the user's cache: %w (give --cache DIR)", err))
		}
		o.Cache = filepath.Join(dir, "securebench", "worker")
	}
	return o, nil
}

// work serves runs.
func (g group) work(ctx context.Context, f workerFlags) (err error) {
	o, err := f.options()
	if err != nil {
		return err
	}
	if o.Build, err = record.ThisBuild(); err != nil {
		return err
	}
	warn := func(text string) { g.Say("warning: %s", text) }
	box := config.Default().Sandbox
	box.Runtime = f.runtime
	engine, err := g.Engine()(ctx, box, warn)
	if err != nil && ctx.Err() != nil { // it was told to stop before it had begun
		return fault.Errorf(fault.Drained, "%w", worker.ErrDrained)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	o.Engine, o.Say = engine.Info(), g.Notice
	o.Open = site.Opener(site.Options{Engine: engine, Slots: f.slots, Mirror: f.mirror, Getenv: g.Getenv, Warn: warn, Say: g.Notice})
	err = worker.Run(ctx, o)
	if errors.Is(err, worker.ErrDrained) {
		return fault.Errorf(fault.Drained, "%w", err)
	}
	return err
}
