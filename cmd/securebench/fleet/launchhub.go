package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"securebench/internal/launch"
	"securebench/internal/redact"
)

// addServe adds the flags of a run with a hub, which do not go with those of workers or
// shards.
func addServe(c *cobra.Command, of *launch.Hub) {
	c.Flags().IntVar(&of.Port, "serve", 0, "print a run with a hub at `PORT` and the next one, instead of shards")
	c.Flags().StringVar(&of.Keys, "config-home", "", "with --serve: folder `DIR` of the volume that is XDG_CONFIG_HOME of the run, with the keys of the hub")
	for _, name := range []string{"workers", "hub", "throttle"} {
		c.MarkFlagsMutuallyExclusive("serve", name)
	}
	c.MarkFlagsRequiredTogether("serve", "config-home")
}

// k8sHub prints the manifests of a run with a hub, whose folder is the first argument.
func (g group) k8sHub(ctx context.Context, k launch.Kubernetes, of launch.Hub, args []string) (err error) {
	for _, name := range []*string{&args[0], &k.Mount, &of.Keys} {
		if *name, err = filepath.Abs(*name); err != nil {
			return fmt.Errorf("resolving %s: %w", redact.Quote(*name), err)
		}
	}
	if of.Work, err = os.Getwd(); err != nil {
		return fmt.Errorf("finding the current folder: %w", err)
	}
	t, err := g.check(ctx, fmt.Sprintf("0.0.0.0:%d", of.Port), args[1:])
	if err != nil {
		return fmt.Errorf("after --: %w", err)
	}
	var owner syscall.Stat_t // of the run, when it is there
	if err := syscall.Stat(k.Mount, &owner); err != nil {
		return fmt.Errorf("looking at %s: %w", redact.Quote(k.Mount), err)
	}
	k.User, k.Group = int64(owner.Uid), int64(owner.Gid)
	of.Run, of.ID, of.Args = args[0], t.RunID, args[1:]
	manifests, err := k.Hub(of)
	return g.printed(string(manifests), err)
}
