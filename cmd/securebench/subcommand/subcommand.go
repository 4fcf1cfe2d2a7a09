// Package subcommand provides what the groups of subcommands share: their
// surroundings, and the checks of their arguments.
package subcommand

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"securebench/internal/console"
	"securebench/internal/fault"
	"securebench/internal/progress"
	"securebench/internal/scoring"
)

// Shell is what surrounds a group of subcommands.
type Shell struct {
	Stdout, Stderr io.Writer
	// Say prints one line for the operator.
	Say     func(format string, args ...any)
	Version string // of this build
	Called  string // the program as it was called, for commands to repeat
	// Getenv reads the environment.
	Getenv func(string) string
	// AddLogFlag adds --log to a command that opens an engine, AddEngineFlag
	// --engine, and Engine returns what opens that engine, with that log.
	AddLogFlag    func(*cobra.Command)
	AddEngineFlag func(*cobra.Command)
	Engine        func() scoring.EngineOpener
	// Progress shows what a command of verifications is doing, in a mode of
	// --progress, until the function that it returns is called.
	Progress func(mode string) (progress.Reporter, func(), error)
	// Around returns what engines need besides their configuration.
	Around func() scoring.Surroundings
}

// AddProgressFlag adds --progress.
func AddProgressFlag(c *cobra.Command, mode *string) {
	c.Flags().StringVar(mode, "progress", "auto", "`MODE`: auto, plain, json or none")
}

// Notice is [Shell.Say] for packages that format their own lines.
func (s *Shell) Notice(text string) { s.Say("%s", text) }

// Missing is the action of a command that only groups subcommands.
func Missing(c *cobra.Command, _ []string) error {
	return UsageError(fmt.Errorf("missing subcommand: see %s --help", c.CommandPath()))
}

// Need requires exactly the named arguments.
func Need(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return fmt.Errorf("want %s, got %s: see %s --help", strings.Join(names, " "), console.Plural(len(args), "argument"), c.CommandPath())
	}
}

// UsageError is an error of the command line.
func UsageError(err error) error { return fault.As(fault.Usage, err) }
