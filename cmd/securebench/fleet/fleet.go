// Package fleet provides the commands that run a benchmark on more than one machine.
package fleet

import (
	"context"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/config"
)

// Check checks what "securebench run" is to be given for every shard of a run, or for a
// run with a hub at an address, which is "" for shards, and returns the configuration.
type Check func(ctx context.Context, hub string, args []string) (*config.Tester, error)

// group is the commands in their surroundings.
type group struct {
	*subcommand.Shell
	check Check
}

// Commands returns the commands.
func Commands(sh *subcommand.Shell, check Check) []*cobra.Command {
	g := group{sh, check}
	return []*cobra.Command{g.launchCommand(), g.hubCommand(), g.workerCommand()}
}
