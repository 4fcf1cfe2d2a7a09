package enginetest

import (
	"context"
	"fmt"
	"os"
	"time"

	"securebench/internal/attended"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/dockertest"
	"securebench/internal/sandbox/nativetest"
)

// awaitPause is how long is waited before looking for a process again.
const awaitPause = 50 * time.Millisecond

// Await waits until a command line contains some words in the sandbox of a run and a
// role, and returns what kills the sandbox from outside. Native tells sandboxes of
// this process apart by the words alone.
func Await(ctx context.Context, e sandbox.Engine, run, role, words string) (kill func() error, err error) {
	for {
		if builds(e) {
			id, err := dockertest.Container(ctx, run, role, words)
			if err != nil || id != "" {
				return func() error { return dockertest.Kill(ctx, id) }, err
			}
		} else {
			pid, err := nativetest.FirstProcess(os.Getpid(), words)
			if err != nil || pid != 0 {
				return func() error { return nativetest.Kill(pid) }, err
			}
		}
		if err := attended.Pause(ctx, awaitPause); err != nil {
			return nil, fmt.Errorf("no %q runs in a sandbox: %w", words, err)
		}
	}
}
