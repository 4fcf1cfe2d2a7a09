package enginetest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

// TestNotesThatStayOpen: what docs/security.md lists as open between two sandboxes that
// run at the same time is. A byte of a file that the kernel has once is locked by the
// first; which byte is agreed on beforehand.
func TestNotesThatStayOpen(t *testing.T) {
	lock := fmt.Sprintf("import fcntl, os, sys, time\nfd = os.eventfd(0)\nlock = lambda: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, %d)\n", rand.Int64())
	enginetest.Each(t, func(t *testing.T, e enginetest.Engine) {
		img := enginetest.Image(t, e)
		open := func(code string) sandbox.Box {
			b, err := e.Open(t.Context(), sandbox.Spec{Image: img, User: &sandbox.Nobody, Limits: sandbox.Limits{Timeout: 2 * time.Minute},
				Command: []string{"python3", "-I", "-S", "-c", lock + code}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = b.Close(context.WithoutCancel(t.Context())) })
			return b
		}
		first, second := open("lock(); print('locked', flush=True); time.sleep(100)"), open("try: lock()\nexcept OSError: print('seen')")
		said, w := io.Pipe()
		go func() {
			_, err := first.Run(t.Context(), sandbox.Streams{Stdout: w})
			_ = w.CloseWithError(err)
		}()
		if line, err := bufio.NewReader(said).ReadString('\n'); line != "locked\n" {
			t.Fatalf("the first sandbox says %q, %v", line, err)
		}
		var out strings.Builder
		if _, err := second.Run(t.Context(), sandbox.Streams{Stdout: &out, Stderr: &out}); err != nil || out.String() != "seen\n" {
			t.Errorf("the lock does not show any more (%v, %q): correct docs/security.md", err, out.String())
		}
	})
}
