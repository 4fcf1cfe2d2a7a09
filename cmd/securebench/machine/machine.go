// Package machine provides the commands about this machine: what it offers to
// sandbox engines, the images and agents' programs that it has, what killed runs left
// on it, and how fast it is.
package machine

import (
	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
)

// group is the commands in their surroundings.
type group struct{ *subcommand.Shell }

// Commands returns the commands.
func Commands(sh *subcommand.Shell) []*cobra.Command {
	g := group{sh}
	return []*cobra.Command{g.doctorCommand(), g.cleanCommand(), g.benchCommand(), agentCommand(sh), imageCommand(sh)}
}
