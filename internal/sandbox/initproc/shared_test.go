package initproc

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

// replaceHelper is what a command tries on the helper, which other sandboxes
// start as their first process. It names what worked.
const replaceHelper = `cd "$0" || exit 1
try() { if eval "$1" 2>/dev/null; then echo "$1"; fi; }
try 'echo x >> helper'
try 'echo x > new'
try 'cp /bin/sh helper'
try 'ln -f /bin/sh helper'
try 'mv helper other'
try 'rm -f helper'
try 'chmod 0 helper'
try 'chown 1:1 helper'
try 'touch -d 2001-01-01 helper'
try 'mv ../.securebench /tmp/away'
try 'rm -rf ../.securebench && false || ! test -e helper'
try 'echo x >> /proc/1/exe'
try 'cp /bin/sh /proc/1/exe'
try 'mount -o remount,rw .'
try 'umount -l .'
true
`

// TestHelperIsShared: one volume holds the helper of every sandbox, so that
// root in one of them must not be able to change it.
func TestHelperIsShared(t *testing.T) { enginetest.Each(t, helperIsShared) }

func helperIsShared(t *testing.T, e enginetest.Engine) {
	run := func(c *Client, where, script string) string {
		t.Helper()
		var out bytes.Buffer
		cmd := shell(script)
		cmd.Argv = append(cmd.Argv, where)
		cmd.User, cmd.Stdout = sandbox.User{}, &out
		if res, err := c.Run(t.Context(), cmd); err != nil || res.ExitCode != 0 {
			t.Fatalf("%+v, %v, %q", res, err, &out)
		}
		return out.String()
	}
	const sum = `sha256sum "$0/helper"; ls -ln "$0"`
	first := openSandbox(t, e, sandbox.User{}, append(sandbox.Grantable(), sandbox.SetPCap))
	before := run(first, sandbox.HelperDir, sum)
	if got := run(first, sandbox.HelperDir, replaceHelper); got != "" {
		t.Errorf("root could do this to the helper:\n%s", got)
	}
	// Against a folder of its own the attack is one.
	own := run(first, "/tmp", `mkdir -p /tmp/own/.securebench && cp /.securebench/helper /tmp/own/.securebench && echo made`) + run(first, "/tmp/own/.securebench", replaceHelper)
	if !strings.Contains(own, "cp /bin/sh helper") || !strings.Contains(own, "rm -f helper") {
		t.Errorf("against a folder of its own: %q", own)
	}
	second := openSandbox(t, e, sandbox.User{}, nil)
	if after := run(second, sandbox.HelperDir, sum); after != before {
		t.Errorf("the helper of another sandbox changed:\n%s%s", before, after)
	}
}

// listens locks the helper, watches it, and tells what happens to it until its standard
// input ends.
const listens = `
import ctypes, fcntl, os, sys
f = open("/.securebench/helper")
fcntl.flock(f, fcntl.LOCK_EX)
libc = ctypes.CDLL(None)
events = libc.inotify_init1(0o4000)
assert libc.inotify_add_watch(events, b"/.securebench/helper", 0xfff) >= 0
print("ready", flush=True)
sys.stdin.read()
try: print(len(os.read(events, 4096)) // 16, "events")
except BlockingIOError: print("quiet")
`

// speaks reads the helper, and tells whether another process has locked it.
const speaks = `
import fcntl
f = open("/.securebench/helper", "rb")
f.read(10)
try: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError: print("locked")
`

// TestHelperTellsNothing: what a command does with the helper shows in its own sandbox,
// and in no other.
func TestHelperTellsNothing(t *testing.T) { enginetest.Each(t, helperTellsNothing) }

func helperTellsNothing(t *testing.T, e enginetest.Engine) {
	python := func(code string) Command {
		return Command{Argv: []string{"python3", "-I", "-S", "-c", code}, Inherit: true}
	}
	first := openSandbox(t, e, sandbox.User{}, nil)
	second := openSandbox(t, e, sandbox.User{}, nil)
	for _, c := range []struct {
		in           *Client
		lock, events string
	}{{first, "locked\n", " events\n"}, {second, "", "quiet\n"}} {
		input, end := io.Pipe()
		said, output := io.Pipe()
		go func() {
			cmd := python(listens)
			cmd.Stdin, cmd.Stdout = input, output
			_, err := first.Run(t.Context(), cmd)
			_ = output.CloseWithError(err)
		}()
		lines := bufio.NewReader(said)
		if line, err := lines.ReadString('\n'); line != "ready\n" {
			t.Fatalf("%q, %v", line, err)
		}
		var out bytes.Buffer
		cmd := python(speaks)
		cmd.Stdout = &out
		if res, err := c.in.Run(t.Context(), cmd); err != nil || res.ExitCode != 0 || out.String() != c.lock {
			t.Errorf("%+v, %v, %q instead of %q", res, err, &out, c.lock)
		}
		_ = end.Close()
		if line, err := lines.ReadString('\n'); !strings.HasSuffix(line, c.events) {
			t.Errorf("%q instead of %q, %v", line, c.events, err)
		}
	}
}
