package main

import (
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"securebench/internal/sandbox/platform"
)

// mostFloor is the largest floor of a heap, in bytes.
const mostFloor = 16 << 20

// heapFloor returns how much counts as in use beside what is, in bytes, on a machine with
// so much memory and under the Go runtime's own limit. Nothing touches it, so it takes no
// memory; but a small heap is collected less often, for a twentieth of a run's time, and a
// large one grows by no more than this.
func heapFloor(memory, limit int64) int64 { return max(0, min(mostFloor, memory/128, limit/16)) }

// readersPercent is how much the heap of commands that only read may grow before it is
// collected: half of what they keep.
const readersPercent = 50

// raiseFloor gives commands that use sandboxes a floor of their heap. Those that only
// read go without: their heap is as small as what they keep.
func (a *app) raiseFloor(c *cobra.Command) {
	switch {
	case c.Hidden:
		return // it serves a sandbox
	case c.Flags().Lookup("engine") == nil:
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(readersPercent)
		}
		return
	}
	size, err := platform.Size()
	if err != nil {
		return // it costs only time
	}
	a.floor = make([]byte, heapFloor(size.Memory, debug.SetMemoryLimit(-1)))
}
