package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/awaittest"
)

// TestPager: on a terminal, what may be long goes through the operator's pager, and
// only there.
func TestPager(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := filepath.Join(dir, "run")
	if res := securebench(t, []string{noDocker}, "run", textPack(t, dir), "--agent", "oracle", "-o", out); res.code != exitDone {
		t.Fatalf("exit %d: %s", res.code, res.stderr)
	}
	pager := "PAGER=sed 's/^/paged: /'"
	for name, c := range map[string]struct {
		pager string
		args  []string
		paged bool
	}{
		"pager":     {pager, []string{"show", out}, true},
		"no pager":  {pager, []string{"show", out, "--no-pager"}, false},
		"empty":     {"PAGER=", []string{"show", out}, false},
		"left soon": {"PAGER=head -n 1 | sed 's/^/paged: /'", []string{"show", out}, true},
		"json":      {pager, []string{"show", out, "--json"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			code, text := onTerminal(t, []string{c.pager}, c.args...)
			if code != exitDone || strings.Contains(text, "paged: run ") != c.paged || !c.paged && strings.Contains(text, "paged: ") {
				t.Errorf("exit %d: %q", code, text)
			}
		})
	}
	if res := securebench(t, []string{pager}, "show", out); strings.Contains(res.stdout, "paged: ") {
		t.Errorf("it is paged without a terminal: %s", res.stdout)
	}
}

// onTerminal runs the shipped binary with its output on a terminal.
func onTerminal(t *testing.T, env []string, args ...string) (code int, text string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, env, args...)
	cmd.Stdout, cmd.Stderr = slave, slave
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	var seen bytes.Buffer
	done := make(chan error, 1)
	go func() { _, err := io.Copy(&seen, master); done <- err }()
	_ = cmd.Wait()
	select {
	case err := <-done: // EIO: nobody has it open any more
		if err != nil && !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
	case <-time.After(awaittest.Hung):
		t.Fatal("the terminal is still in use")
	}
	return cmd.ProcessState.ExitCode(), seen.String()
}
