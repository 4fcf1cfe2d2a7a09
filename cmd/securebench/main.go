// Command securebench runs AI agents on benchmark packs and produces scores
// that can be verified. Run "securebench --help" for its subcommands.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/complete"
	"securebench/cmd/securebench/fleet"
	"securebench/cmd/securebench/machine"
	"securebench/cmd/securebench/packs"
	"securebench/cmd/securebench/results"
	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/gateway/egress"
	"securebench/internal/progress"
	"securebench/internal/redact"
	"securebench/internal/sandbox/native/rootless"
)

func main() {
	program := rootless.Program{Args: os.Args, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	code, ran, err := program.Elsewhere()
	switch {
	case err != nil:
		_, _ = fmt.Fprintf(os.Stderr, "securebench: running without root: %v\n", err) // there is no other place for it
		os.Exit(exitEngine)
	case ran:
		os.Exit(code)
	}
	a := &app{program: os.Args[0], args: os.Args[1:]}
	code = a.execute(os.Stdout, os.Stderr)
	runtime.KeepAlive(a.floor)
	os.Exit(code)
}

// app holds the state that the subcommands share.
type app struct {
	stdout, stderr *console.Stream
	program        string // as it was called; tests leave it ""
	args           []string
	display        atomic.Pointer[progress.Renderer] // of the run that is in progress
	logFile        string                            // of --log, "" for none
	engineName     engineName                        // of --engine, "" for the configured one
	proxy          egress.Config                     // of agents; tests alone set it
	floor          []byte                            // of the heap
	// ran is set when a subcommand's own code runs: earlier errors are usage
	// errors.
	ran bool
}

func (a *app) execute(stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stuck := make(chan struct{})
	a.stdout = &console.Stream{Name: "standard output", W: stdout, Gone: cancel, GiveUp: stuck, Size: terminalSize(stdout)}
	a.stderr = &console.Stream{Name: "standard error", W: stderr, Gone: cancel, GiveUp: stuck, Size: terminalSize(stderr)}
	stop := interruptible(cancel, stuck, a.sayStopping)
	defer stop()
	root := a.root()
	root.SetArgs(a.args)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.ran {
		err = usageError(err)
	}
	return a.end(err)
}

// begin begins a command, unless its flags do not go together.
func (a *app) begin(c *cobra.Command, _ []string) error {
	if err := c.ValidateFlagGroups(); err != nil {
		return err
	}
	a.ran = true
	a.raiseFloor(c)
	return nil
}

// called returns the program's name as it was called, for commands to repeat: with
// its path, if a path was given.
func (a *app) called() string {
	if a.program == "" {
		return "securebench"
	}
	return console.ShellQuote(a.program)
}

// end prints the error and returns the exit code. A failure to print counts
// only if there is no other error.
func (a *app) end(err error) int {
	a.complain(err)
	code := exitCode(err)
	for _, s := range []*console.Stream{a.stdout, a.stderr} {
		if failed := s.Failed(); failed != nil {
			if !errors.Is(err, failed) {
				a.complain(failed)
			}
			code = cmp.Or(code, exitInternal)
		}
	}
	return code
}

// say prints one line for the operator.
func (a *app) say(format string, args ...any) {
	line := "securebench: " + redact.Escape(fmt.Sprintf(format, args...))
	if d := a.display.Load(); d == nil || !d.Say(line) {
		fmt.Fprintln(a.stderr, line)
	}
}

// sayStopping answers the first Ctrl-C. Without a display, its line begins below
// the ^C that a terminal shows.
func (a *app) sayStopping() {
	const line = "securebench: stopping; press Ctrl-C again to stop immediately"
	if d := a.display.Load(); d == nil || !d.Say(line) {
		fmt.Fprint(a.stderr, "\r\n"+line+"\n")
	}
}

// notice is [app.say] for packages that format their own lines.
func (a *app) notice(text string) { a.say("%s", text) }

// complain prints an error, one prefixed line for each joined error.
func (a *app) complain(err error) {
	if err == nil {
		return
	}
	for _, line := range console.ErrorLines(err) {
		if line != "" {
			fmt.Fprintf(a.stderr, "securebench: error: %s\n", line)
		}
	}
}

// shell returns what the groups of subcommands in packages of their own share.
func (a *app) shell() *subcommand.Shell {
	return &subcommand.Shell{Stdout: a.stdout, Stderr: a.stderr, Say: a.say, Version: buildVersion(), Called: a.called(), Getenv: os.Getenv,
		AddLogFlag: a.addLogFlag, AddEngineFlag: a.addEngineFlag, Engine: a.engine, Around: a.around, Progress: a.showProgress}
}

// patience is how long a write may wait for its reader after an interruption.
const patience = 2 * time.Second

// interruptible calls cancel at the first termination signal and exits at the
// second; SIGHUP, which a terminal may send twice, does not count as a second
// one. A signal that was ignored from the start, as under nohup, stays
// ignored. Soon after the first signal, stuck is closed, so that a pipe
// without a reader cannot block the end of the run. SIGPIPE is a write error,
// not a signal.
func interruptible(cancel context.CancelFunc, stuck chan<- struct{}, say func()) (stop func()) {
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
			go say()
		}
	}()
	return func() { signal.Stop(signals); signal.Stop(pipes); close(done) }
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "securebench",
		Short: "Run AI agents on benchmark packs, with scores that can be verified",
		Long: `securebench runs AI agents on benchmark packs, with scores that can be verified.

The agent works in a sandbox that contains only the public part of a task. When
the agent has ended, its candidate is captured, stored by digest, and scored in
fresh sandboxes to which the agent never had access.
` + exitCodesHelp,
		Example:      "  securebench run packs/demo --agent oracle\n  securebench verify runs/demo\n  securebench report runs/demo",
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
		PersistentPreRunE: a.begin,
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.AddCommand(a.runCommand(new(runFlags)), a.mergeCommand(), a.keyCommand(), a.judgeCommand(),
		a.validateCommand(), a.versionCommand())
	root.AddCommand(results.Commands(a.shell())...)
	root.AddCommand(machine.Commands(a.shell())...)
	root.AddCommand(packs.Commands(a.shell())...)
	root.AddCommand(fleet.Commands(a.shell(), a.ofShards)...)
	root.AddCommand(helperCommands()...)
	root.AddCommand(a.scriptedCommand())
	root.SetUsageTemplate(strings.NewReplacer(".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", console.DefaultWidth)).Replace(root.UsageTemplate()))
	complete.Setup(root, versionLine())
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) { // only who asks for help waits for its layout
		c.Long = console.Paragraphs(c.Long, console.DefaultWidth)
		help(c, args)
	})
	return root
}
