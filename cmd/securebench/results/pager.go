package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/term"

	"securebench/internal/console"
	"securebench/internal/fault"
)

// paged calls show with where to write what may be long: a pager, if standard output
// is a terminal and there is one. Lines are folded for that terminal.
func (g group) paged(ctx context.Context, off bool, show func(io.Writer) error) error {
	command, ok := g.pagerCommand()
	file := g.terminal()
	if off || !ok || file == nil {
		return folded(g.Stdout, show)
	}
	// The variable is a command line, as for git and man.
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Stdout, cmd.Stderr, cmd.Env = file, os.Stderr, os.Environ()
	if g.Getenv("LESS") == "" {
		cmd.Env = append(cmd.Env, "LESS=FRX") // as git does: quits if it fits, keeps the screen
	}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fault.As(fault.Usage, fmt.Errorf("starting the pager %q: %w (give --no-pager, or set PAGER)", command, err))
	}
	shown := folded(onTerminal{in, console.Columns(g.Stdout)}, show)
	if errors.Is(shown, syscall.EPIPE) {
		shown = nil // whoever leaves a pager early has seen enough
	}
	if err = errors.Join(in.Close(), cmd.Wait()); errors.As(err, new(*exec.ExitError)) {
		err = nil
	}
	return errors.Join(shown, err)
}

// onTerminal is the way to a terminal through a pager.
type onTerminal struct {
	io.Writer
	columns int
}

// Columns returns how many columns the terminal has.
func (o onTerminal) Columns() int { return o.columns }

// folded calls show with a writer that folds lines for w's terminal.
func folded(w io.Writer, show func(io.Writer) error) error {
	f := console.NewFolder(w, console.Columns(w))
	return errors.Join(show(f), f.Flush())
}

// terminal is standard output if that is a terminal, else nil.
func (g group) terminal() *os.File {
	stream, ok := g.Stdout.(*console.Stream)
	if !ok {
		return nil
	}
	file, ok := stream.File()
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return file
}

// pagerCommand is the command line of the pager, if there is one.
func (g group) pagerCommand() (string, bool) {
	if _, set := os.LookupEnv("PAGER"); set {
		command := g.Getenv("PAGER")
		return command, command != ""
	}
	_, err := exec.LookPath("less")
	return "less -R", err == nil
}
