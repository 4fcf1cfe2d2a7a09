package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"securebench/internal/pipeline"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
)

// steered is a run of ten questions whose agents wait until they are let go.
type steered struct {
	*bench
	control *pipeline.Control
	goOn    chan struct{}
	sum     pipeline.Summary
	err     error
	ended   bool
}

func steer(t *testing.T) *steered {
	t.Helper()
	s := &steered{goOn: make(chan struct{}), control: &pipeline.Control{}}
	s.bench = newBench(t, func(ctx context.Context, p *sandboxtest.Process) int {
		select {
		case <-s.goOn:
		case <-ctx.Done():
		}
		_, _ = io.WriteString(p.Stdout, "4")
		return 0
	})
	s.cfg.Control = s.control
	if s.control.Pause() == nil {
		t.Error("a run that has not begun is paused")
	}
	var all []task.Task
	for i := range 10 {
		all = append(all, question(t, fmt.Sprintf("q%d", i), "4", `"4"`))
	}
	go func() {
		s.sum, s.err = s.run(t.Context(), all...)
		s.ended = true
	}()
	synctest.Wait()
	return s
}

// let lets so many agents end.
func (s *steered) let(n int) {
	for range n {
		s.goOn <- struct{}{}
		synctest.Wait()
	}
}

func (s *steered) running(want int) {
	s.t.Helper()
	synctest.Wait()
	if got := s.control.State().Running; got != want {
		s.t.Errorf("%d attempts are under way, want %d", got, want)
	}
}

func (s *steered) do(errs ...error) {
	s.t.Helper()
	if err := errors.Join(errs...); err != nil {
		s.t.Error(err)
	}
}

// TestWorkersChange: more and fewer attempts are under way, as the run is told, and none
// is cut short.
func TestWorkersChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := steer(t)
		s.running(2)
		s.do(s.control.SetWorkers(5))
		s.running(5)
		s.do(s.control.SetWorkers(1))
		s.running(5)
		s.let(3)
		s.running(2)
		s.let(2)
		s.running(1)
		if s.control.SetWorkers(0) == nil || s.control.SetWorkers(pipeline.MaxWorkers+1) == nil {
			t.Error("no workers, or too many, are taken")
		}
		s.let(5)
		if !s.ended || s.err != nil || s.sum.Total != 10 || s.sum.Infrastructure != 0 {
			t.Errorf("ended %t: %+v, %v", s.ended, s.sum, s.err)
		}
		if s.control.Resume() == nil {
			t.Error("a run that has ended is changed")
		}
	})
}

// TestPause: in a pause no attempt begins, those under way end, and a pause much longer
// than the limit of an attempt is no part of its time.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := steer(t)
		s.do(s.control.Pause())
		s.let(2)
		s.running(0)
		time.Sleep(time.Hour) // of this test's clock; an agent has 5 seconds
		s.running(0)
		if s.ended || s.events.count("task_start") != 2 {
			t.Errorf("ended %t, %d began", s.ended, s.events.count("task_start"))
		}
		s.do(s.control.Resume())
		s.running(2)
		s.let(8)
		if !s.ended || s.err != nil || s.sum.Total != 10 || len(s.lines()) != 10 {
			t.Errorf("ended %t: %+v, %v", s.ended, s.sum, s.err)
		}
		for _, l := range s.lines() {
			if l["outcome"] != "passed" {
				t.Errorf("%v: %v", l["task_id"], l["outcome"])
			}
		}
	})
}

// TestDrain: the attempts under way end and are recorded, no other begins, also out of a
// pause, and nothing is left on the engine.
func TestDrain(t *testing.T) {
	for _, paused := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := steer(t)
			if paused {
				s.do(s.control.Pause())
			}
			s.do(s.control.Drain())
			s.running(2)
			s.let(2)
			synctest.Wait()
			time.Sleep(time.Minute) // for what is cleaned up
			synctest.Wait()
			if !s.ended || !errors.Is(s.err, pipeline.ErrDrained) || s.sum.Total != 2 || s.engine.Left() != 0 {
				t.Errorf("paused %t: ended %t: %+v, %v, %d left", paused, s.ended, s.sum, s.err, s.engine.Left())
			}
		})
	}
}

// TestDrainAtTheEnd: a run whose last attempts are under way is complete.
func TestDrainAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := steer(t)
		s.let(8)
		s.running(2)
		s.do(s.control.Drain())
		s.let(2)
		if !s.ended || s.err != nil || s.sum.Total != 10 {
			t.Errorf("ended %t: %+v, %v", s.ended, s.sum, s.err)
		}
	})
}

// TestStop: what is under way is cut short, and has no record.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := steer(t)
		s.let(1)
		s.do(s.control.Stop())
		time.Sleep(time.Minute)
		synctest.Wait()
		if !s.ended || !errors.Is(s.err, pipeline.ErrInterrupted) || s.sum.Total != 1 {
			t.Errorf("ended %t: %+v, %v", s.ended, s.sum, s.err)
		}
	})
}
