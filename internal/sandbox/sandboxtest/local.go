package sandboxtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"

	"securebench/internal/sandbox"
)

// Local is a [Program] that runs this machine's program of the same name in the box's
// working directory. It is not confined.
func Local(ctx context.Context, p *Process) int {
	dir, err := p.Path(p.Workdir, true)
	if err != nil {
		return sandbox.ExitCannot
	}
	cmd := exec.CommandContext(ctx, p.Args[0], p.Args[1:]...) //nolint:gosec // it is what a test says
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, p.Stdin, p.Stdout, p.Stderr, time.Second
	cmd.Env = append(os.Environ(), p.Env...)
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode() & 0xff
	}
	if err != nil {
		return sandbox.ExitCannot
	}
	return 0
}
