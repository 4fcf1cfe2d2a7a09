// Command securebench runs benchmark packs of AI agents so that a score can
// be believed. Run "securebench --help" for its subcommands.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}

// app is what the subcommands share.
type app struct {
	stdout, stderr *stream
	args           []string
	// ran is set once a subcommand's own code runs: errors before that are
	// wrong usage.
	ran bool
}

func execute(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stuck := make(chan struct{})
	a := &app{args: args,
		stdout: &stream{name: "standard output", w: stdout, gone: cancel, giveUp: stuck},
		stderr: &stream{name: "standard error", w: stderr, gone: cancel, giveUp: stuck}}
	stop := interruptible(cancel, stuck, a.stderr)
	defer stop()
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.ran {
		err = coded(exitUsage, err)
	}
	return a.end(err)
}

// end says what went wrong and returns the exit code. What could not be
// printed is an error too, if there is no other.
func (a *app) end(err error) int {
	a.complain(err)
	code := exitCode(err)
	for _, s := range []*stream{a.stdout, a.stderr} {
		if failed := s.failed(); failed != nil {
			if !errors.Is(err, failed) {
				a.complain(failed)
			}
			code = cmp.Or(code, exitInternal)
		}
	}
	return code
}

// complain prints an error on lines that are ours.
func (a *app) complain(err error) {
	if err == nil {
		return
	}
	for _, line := range errorLines(err) {
		if line != "" {
			fmt.Fprintf(a.stderr, "securebench: error: %s\n", line)
		}
	}
}

// patience is how long a write may wait for its reader once the operator
// wants to stop.
const patience = 2 * time.Second

// interruptible calls cancel at the first signal that ends programs. At the
// second the process ends at once; a terminal that hangs up may say so twice,
// which is no second wish. A signal that was ignored from the start, as nohup
// does, stays so. After the first, stuck is closed: a pipe that nobody reads
// must not keep a run from its end. A pipe that nobody has open any more is an
// error of writing, not a signal.
func interruptible(cancel context.CancelFunc, stuck chan<- struct{}, stderr io.Writer) (stop func()) {
	signals, pipes := make(chan os.Signal, 4), make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go func() {
		for stopping := false; ; stopping = true {
			select {
			case s := <-signals:
				if stopping && s != syscall.SIGHUP {
					os.Exit(exitInterrupted)
				}
			case <-done:
				return
			}
			if stopping {
				continue
			}
			cancel()
			time.AfterFunc(patience, func() { close(stuck) })
			go fmt.Fprintln(stderr, "\r\nsecurebench: stopping; press Ctrl-C again to stop at once")
		}
	}()
	return func() { signal.Stop(signals); signal.Stop(pipes); close(done) }
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
		a.validateCommand(), a.packCommand(), a.versionCommand(), a.holderCommand(), a.initCommand())
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
