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

// pager returns where to write what may be long: a pager, if standard output is a
// terminal and there is one. done ends it.
func (g group) pager(ctx context.Context, off bool) (out io.Writer, done func() error, err error) {
	none := func() error { return nil }
	stream, ok := g.Stdout.(*console.Stream)
	if !ok || off {
		return g.Stdout, none, nil
	}
	file, ok := stream.File()
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return g.Stdout, none, nil
	}
	command, ok := g.pagerCommand()
	if !ok {
		return g.Stdout, none, nil
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
		return nil, nil, fault.As(fault.Usage, fmt.Errorf("starting the pager %q: %w (give --no-pager, or set PAGER)", command, err))
	}
	done = func() error {
		err := errors.Join(in.Close(), cmd.Wait())
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) || errors.Is(err, syscall.EPIPE) {
			return nil // the reader has seen enough
		}
		return err
	}
	return untilClosed{in}, done, nil
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

// untilClosed takes everything, also when the reader has gone: to leave a pager
// early is no error.
type untilClosed struct{ w io.Writer }

func (u untilClosed) Write(p []byte) (int, error) {
	if _, err := u.w.Write(p); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed) {
		return 0, err
	}
	return len(p), nil
}
