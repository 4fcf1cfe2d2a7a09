// Command securebench runs benchmark packs of AI agents so that a score can
// be believed. Run "securebench --help" for its subcommands.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"securebench/internal/redact"
)

func main() {
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}

// app is what the subcommands share.
type app struct {
	stdout, stderr io.Writer
	args           []string
	// ran is set once a subcommand's own code runs: errors before that are
	// wrong usage.
	ran bool
}

func execute(args []string, stdout, stderr io.Writer) int {
	ctx, stop := interruptible(stderr)
	defer stop()
	a := &app{stdout: stdout, stderr: stderr, args: args}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if !a.ran {
		err = coded(exitUsage, err)
	}
	if msg := err.Error(); msg != "" {
		for _, line := range strings.Split(msg, "\n") {
			fmt.Fprintf(stderr, "securebench: error: %s\n", redact.Escape(line))
		}
	}
	return exitCode(err)
}

// interruptible returns a context that the first Ctrl-C cancels. The second
// one ends the process at once.
func interruptible(stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-signals:
				if n > 0 {
					os.Exit(exitInterrupted)
				}
				fmt.Fprintln(stderr, "\r\nsecurebench: stopping; press Ctrl-C again to stop at once")
				cancel()
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel() }
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "securebench",
		Short: "Run benchmark packs of AI agents so that a score can be believed",
		Long: `securebench runs benchmark packs of AI agents so that a score can be believed.

The agent works in a sandbox that holds the public part of a task and nothing
else. When it is dead, its result is captured, stored by digest, and scored in
fresh sandboxes that it never touched.
` + exitCodesHelp,
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
		PersistentPreRun:  func(*cobra.Command, []string) { a.ran = true },
	}
	root.Args, root.RunE = cobra.NoArgs, needSubcommand
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.AddCommand(a.runCommand(), a.verifyCommand(), a.reverifyCommand(), a.reportCommand(), a.bundleCommand(), a.keyCommand(),
		a.validateCommand(), a.packCommand(), a.versionCommand(), a.holderCommand())
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Args, c.RunE = cobra.NoArgs, needSubcommand
	}
	return root
}

// needSubcommand is what a command does that only holds others.
func needSubcommand(c *cobra.Command, _ []string) error {
	return coded(exitUsage, fmt.Errorf("say what to do: see %s --help", c.CommandPath()))
}

// need asks for exactly these arguments.
func need(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return fmt.Errorf("want %s, got %s: see %s --help", strings.Join(names, " "), plural(len(args), "argument"), c.CommandPath())
	}
}

// plural counts things in words.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
