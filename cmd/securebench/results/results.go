// Package results provides the commands that read runs: whether one can be
// believed, what it scored, what is in it, and whether one is better than another.
package results

import (
	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
)

// group is the commands in their surroundings.
type group struct{ *subcommand.Shell }

// Commands returns the commands.
func Commands(sh *subcommand.Shell) []*cobra.Command {
	g := group{sh}
	return []*cobra.Command{g.verifyCommand(), g.reverifyCommand(), g.reportCommand(), g.bundleCommand(), g.showCommand(), g.compareCommand(), g.exportCommand(), g.viewCommand()}
}
