package native_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/initproc"
)

// counted defines what takes one of each of what the kernel counts by user. Each
// returns whether there was one.
const counted = `
import ctypes, os, signal, sys, time
libc = ctypes.CDLL(None, use_errno=True)
signal.pthread_sigmask(signal.SIG_BLOCK, range(34, 64))
kept, queues = [], 0
def pending(): return libc.sigqueue(os.getpid(), 40, 0) == 0
def timer():
    t = ctypes.c_void_p()
    return libc.timer_create(0, None, ctypes.byref(t)) == 0
def queue():
    global queues
    queues += 1
    return libc.mq_open(b"/%d.%d" % (os.getpid(), queues), os.O_CREAT | os.O_RDWR, 0o600, None) >= 0
def instance(): return libc.inotify_init() >= 0
def terminal():
    try: kept.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
    except OSError: return False
    return True
all = [queue, instance, terminal, timer, pending]
`

// TestOwnCounts: a process that takes all that the kernel counts by user leaves nothing
// to the others of its sandbox, and everything to another sandbox, as root and as nobody.
func TestOwnCounts(t *testing.T) {
	t.Parallel()
	e := enginetest.Native(t)
	if !slices.Contains(e.Info().SecurityOptions, "name=userns") {
		t.Skip("sandboxes share a user namespace here, or have none")
	}
	for _, user := range []sandbox.User{{}, sandbox.Nobody} {
		var boxes [2]*initproc.Client
		for i := range boxes {
			box, err := e.Open(t.Context(), sandbox.Spec{Image: enginetest.Image(t, e), Init: true, User: &user})
			if err != nil {
				t.Fatal(err)
			}
			if boxes[i], err = initproc.Open(t.Context(), box); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := boxes[i].Close(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			}()
		}
		run := func(ctx context.Context, c *initproc.Client, script string, out *bytes.Buffer, full func()) error {
			cmd := initproc.Command{Argv: []string{"/usr/bin/env", "python3", "-I", "-S", "-c", counted + script}, Inherit: true, User: user,
				Timeout: time.Hour, Stdout: &started{f: full}, Stderr: out}
			_, err := c.Run(ctx, cmd)
			return err
		}
		ctx, stop := context.WithCancel(t.Context())
		full, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			_ = run(ctx, boxes[0], "for f in all:\n  while f(): pass\nprint('full', flush=True)\ntime.sleep(3600)", new(bytes.Buffer), func() { close(full) })
		}()
		select {
		case <-full:
		case <-ended:
			t.Fatal("the hog ended")
		}
		honest := func(c *initproc.Client) string {
			var out bytes.Buffer
			if err := run(t.Context(), c, "for f in all:\n  if not f(): print('no', f.__name__, file=sys.stderr)", &out, func() {}); err != nil {
				t.Error(err)
			}
			return out.String()
		}
		if got := honest(boxes[0]); strings.Count(got, "no ") != 5 {
			t.Errorf("as %v, in the hog's own sandbox only this is missing:\n%s", user, got)
		}
		if got := honest(boxes[1]); got != "" {
			t.Errorf("as %v, in another sandbox:\n%s", user, got)
		}
		stop()
		<-ended
	}
}
