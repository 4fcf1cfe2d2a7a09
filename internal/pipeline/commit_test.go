package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"securebench/internal/awaittest"
	"securebench/internal/progress"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// slowDisk holds the report of the first record back until the next agent works: then
// a worker did not wait for it.
type slowDisk struct {
	t      *testing.T
	b      *bench
	agents *atomic.Int32
	next   <-chan struct{}
	done   atomic.Int32
}

func (s *slowDisk) Event(e progress.Event) {
	done, ok := e.(progress.TaskDone)
	if !ok {
		return
	}
	text, err := os.ReadFile(s.b.dir.LinesPath())
	if err != nil || !strings.Contains(string(text), fmt.Sprintf("%q", done.TaskID)) {
		s.t.Errorf("%s is reported before its record is written, %v", done.TaskID, err)
	}
	if s.done.Add(1) > 1 {
		return
	}
	select {
	case <-s.next: // this record, perhaps one more that came with it, one in the queue, and one with the worker
		time.Sleep(20 * time.Millisecond)
		if n := s.agents.Load(); n > 4 {
			s.t.Errorf("%d agents have run, and no record was written", n)
		}
	case <-time.After(awaittest.Hung):
		s.t.Error("the worker waits for the record of the first attempt")
	}
}

// TestRecordsAreWrittenMeanwhile: while a record is written the worker runs the next
// attempt, but only a few of them; each is reported when its record is there.
func TestRecordsAreWrittenMeanwhile(t *testing.T) {
	var agents atomic.Int32
	next := make(chan struct{})
	b := newBench(t, func(_ context.Context, p *sandboxtest.Process) int {
		if agents.Add(1) == 3 {
			close(next)
		}
		fmt.Fprint(p.Stdout, "4")
		return 0
	})
	disk := &slowDisk{t: t, b: b, agents: &agents, next: next}
	b.cfg.Workers, b.cfg.Progress = 1, disk
	var tasks []task.Task
	for i := range 12 {
		tasks = append(tasks, question(t, fmt.Sprint("t", i), "q", `"4"`))
	}
	sum, err := b.run(t.Context(), tasks...)
	if err != nil || sum.Of(verdict.Computed).Passed != len(tasks) || int(disk.done.Load()) != len(tasks) {
		t.Fatalf("%+v, %v; %d reported", sum, err, disk.done.Load())
	}
}
