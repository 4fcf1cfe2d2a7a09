package machine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"securebench/internal/redact"
)

// stopTime is how long an interrupted program may take to remove its sandboxes.
const stopTime = 2 * time.Minute

// settle is how long the memory of a program is left to settle before it is read.
const settle = time.Second

// maxComplaint bounds what is repeated of a failed program's messages.
const maxComplaint = 4 << 10

// program starts this program again, with keys of its own.
type program struct {
	path string
	dir  string // for keys
}

func (p *program) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, p.path, args...)
	c.Env = append(os.Environ(), "SECUREBENCH_KEYS="+filepath.Join(p.dir, "keys"))
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = stopTime
	return c
}

// Run implements [securebench/internal/bench.Program].
func (p *program) Run(ctx context.Context, args ...string) error {
	var complaint bytes.Buffer
	c := p.command(ctx, args...)
	c.Stderr = &complaint
	if err := c.Run(); err != nil {
		return p.failed(ctx, args, err, complaint.Bytes())
	}
	return nil
}

// Watch implements [securebench/internal/bench.Program].
func (p *program) Watch(ctx context.Context, ready func([]byte) bool, args ...string) (resident, peak int64, err error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	c := p.command(running, args...)
	stderr, err := c.StderrPipe()
	if err != nil {
		return 0, 0, fmt.Errorf("starting %s: %w", args[0], err)
	}
	if err := c.Start(); err != nil {
		return 0, 0, fmt.Errorf("starting %s: %w", args[0], err)
	}
	var said []byte
	lines, reached := bufio.NewReader(stderr), false
	for !reached && err == nil {
		var line []byte
		line, err = lines.ReadBytes('\n')
		said = append(said[max(0, len(said)-maxComplaint):], line...)
		reached = err == nil && ready(line)
	}
	if reached {
		go io.Copy(io.Discard, lines) //nolint:errcheck // what it says from here on is of no interest
		time.Sleep(settle)
		resident, peak, err = held(c.Process.Pid)
	} else {
		err = nil // the program's own end says more
	}
	stop()
	ended := c.Wait()
	var exit *exec.ExitError
	switch {
	case err != nil:
		return 0, 0, err
	case !reached:
		return 0, 0, p.failed(ctx, args, errors.Join(ended, errors.New("it ended early")), said)
	case errors.As(ended, &exit) && exit.ExitCode() != interrupted:
		return 0, 0, p.failed(ctx, args, ended, said)
	}
	return resident, peak, nil
}

// interrupted is the exit code of a program that was interrupted.
const interrupted = 130

func (p *program) failed(ctx context.Context, args []string, err error, said []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	said = bytes.TrimSpace(said[max(0, len(said)-maxComplaint):])
	return fmt.Errorf("running securebench %s: %w: %s", args[0], err, redact.Escape(string(said)))
}

// held reads how much memory a process holds, and held at most.
func held(pid int) (resident, peak int64, err error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, 0, fmt.Errorf("reading how much memory a process holds: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch {
		case err != nil:
		case name == "VmRSS":
			resident = kib << 10
		case name == "VmHWM":
			peak = kib << 10
		}
	}
	return resident, peak, nil
}
