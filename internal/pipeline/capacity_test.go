package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/pipeline"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// scale weighs what is on an engine: each box and workspace, from before it is
// made until after it is removed.
type scale struct {
	sandbox.Engine
	failEvery int // calls of Open; the last one fails

	mu            sync.Mutex
	opens         int
	memory, most  int64
	checks, cores int // verifications at a time, and the most
}

func (s *scale) add(n int64) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory += n
	s.most = max(s.most, s.memory)
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.memory -= n
	})
}

func (s *scale) check(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks += by
	s.cores = max(s.cores, s.checks)
}

func (s *scale) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	l := spec.Limits.WithDefaults()
	off := s.add(capacity.Footprint{Boxes: 1}.Amount(l, false).Memory)
	s.mu.Lock()
	s.opens++
	fails := s.failEvery > 0 && s.opens%s.failEvery == 0
	s.mu.Unlock()
	if fails {
		off()
		return nil, errors.New("the engine stumbled")
	}
	b, err := s.Engine.Open(ctx, spec)
	if err != nil {
		off()
		return nil, err
	}
	return weighedBox{b, off}, nil
}

func (s *scale) Workspace(ctx context.Context, spec sandbox.WorkspaceSpec) (sandbox.Workspace, error) {
	off := s.add(capacity.Footprint{Spaces: 1}.Amount(sandbox.Limits{Disk: spec.WithDefaults().Disk}, false).Memory)
	w, err := s.Engine.Workspace(ctx, spec)
	if err != nil {
		off()
		return nil, err
	}
	return weighedSpace{w, off}, nil
}

type weighedBox struct {
	sandbox.Box
	off func()
}

func (b weighedBox) Close(ctx context.Context) error {
	time.Sleep(time.Second) // a slow removal still counts
	defer b.off()
	return b.Box.Close(ctx)
}

// weighedSpace knows its own kind, so that boxes can mount it.
type weighedSpace struct {
	sandbox.Workspace
	off func()
}

func (w weighedSpace) Close(ctx context.Context) error {
	defer w.off()
	return w.Workspace.Close(ctx)
}

// weigher is a verifier whose sessions have a number of boxes that weigh
// something, from when they are opened.
type weigher struct {
	family.Verifier
	scale *scale
	boxes func(id string) int
}

func (w weigher) Open(ctx context.Context, c family.Case) family.Session {
	n := w.boxes(c.Sandbox.ID())
	off := w.scale.add(capacity.Footprint{Boxes: n}.Amount(c.Limits, false).Memory)
	return &weighed{Session: w.Verifier.Open(ctx, c), scale: w.scale, off: off, boxes: n}
}

type weighed struct {
	family.Session
	scale *scale
	off   func()
	boxes int
}

func (w *weighed) Verify(ctx context.Context, c candidate.Candidate) (family.Verdict, error) {
	if w.boxes > 0 { // else it takes none of the machine's time
		w.scale.check(1)
		defer w.scale.check(-1)
	}
	time.Sleep(time.Second)
	return w.Session.Verify(ctx, c)
}

func (w *weighed) Close(ctx context.Context) error {
	defer w.off()
	return w.Session.Close(ctx)
}

// unweighed gives boxes the workspaces that the engine knows.
type unweighed struct{ *scale }

func (u unweighed) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	for i, m := range spec.Mounts {
		if w, ok := m.Workspace.(weighedSpace); ok {
			spec.Mounts[i].Workspace = w.Workspace
		}
	}
	return u.scale.Open(ctx, spec)
}

// weighedBench is a bench whose tasks weigh something on a machine.
func weighedBench(t *testing.T, boxes func(string) int) (*bench, *scale) {
	t.Helper()
	b := newBench(t, func(ctx context.Context, p *sandboxtest.Process) int {
		time.Sleep(time.Second)
		return answers(ctx, p)
	})
	s := &scale{Engine: b.engine}
	h := b.cfg.Agent.(*agent.Harness)
	h.Producer.Engine = unweighed{s}
	b.cfg.Verifiers["short_answer"] = weigher{b.cfg.Verifiers["short_answer"], s, boxes}
	b.cfg.Load = func(t task.Task) capacity.Load {
		return capacity.Load{Agent: capacity.Footprint{Boxes: 1, Spaces: 1}, Verify: capacity.Footprint{Boxes: boxes(t.ID())}}
	}
	return b, s
}

// planFor plans the tasks for a machine with that much memory and two cores.
func (b *bench) planFor(memory int64, workers int, tasks []task.Task) {
	b.t.Helper()
	loads := map[capacity.Load]string{}
	for _, t := range tasks {
		loads[b.cfg.Load(t)] = t.ID()
	}
	p, err := capacity.Choose(capacity.Request{Size: sandbox.Size{CPUs: 2, Memory: memory}, Asked: workers, Loads: loads})
	if err != nil {
		b.t.Fatal(err)
	}
	b.cfg.Plan, b.cfg.Workers = p, workers
}

// TestNeverOverCapacity: whatever tasks need, whatever fails and however many
// workers there are, the sandboxes that exist never need more than the machine
// has, no more verifications take place than it has cores for, and every task ends.
func TestNeverOverCapacity(t *testing.T) {
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 6))
			sizes := map[string]int{}
			var tasks []task.Task
			for i := range 25 {
				id := fmt.Sprint("q", i)
				sizes[id] = r.IntN(5)
				tasks = append(tasks, question(t, id, "4", `"4"`))
			}
			sizes["q0"] = 4 // the largest, which must fit
			b, s := weighedBench(t, func(id string) int { return sizes[id] })
			s.failEvery = []int{0, 5}[r.IntN(2)]
			memory := int64(6+r.IntN(12)) << 30
			b.planFor(memory, 1+r.IntN(8), tasks)
			sum, err := b.run(t.Context(), tasks...)
			if err != nil || sum.Total != len(tasks) || sum.Of(verdict.Computed).Passed+sum.Infrastructure != len(tasks) {
				t.Errorf("summary %+v, %v", sum, err)
			}
			if s.most > memory || s.most == 0 || s.memory != 0 {
				t.Errorf("at most %d of %d were needed, %d still are", s.most, memory, s.memory)
			}
			if s.cores > 2 {
				t.Errorf("%d verifications at a time on 2 cores", s.cores)
			}
		})
	}
}

// TestWithoutPlanTheMachineOverflows shows that the scale would notice: the same
// tasks, without a plan.
func TestWithoutPlanTheMachineOverflows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tasks []task.Task
		for i := range 8 {
			tasks = append(tasks, question(t, fmt.Sprint("q", i), "4", `"4"`))
		}
		b, s := weighedBench(t, func(string) int { return 4 })
		b.cfg.Workers = 8
		sum, err := b.run(t.Context(), tasks...)
		if err != nil || sum.Of(verdict.Computed).Passed != 8 || s.most < 7<<30 || s.cores <= 2 {
			t.Errorf("summary %+v, %v; %d bytes and %d verifications at most", sum, err, s.most, s.cores)
		}
	})
}

// TestInterruptWhileTasksWaitForRoom: what waits for room ends with the run, and
// leaves nothing.
func TestInterruptWhileTasksWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tasks []task.Task
		for i := range 10 {
			tasks = append(tasks, question(t, fmt.Sprint("q", i), "4", `"4"`))
		}
		b, s := weighedBench(t, func(string) int { return 2 })
		b.planFor(4<<30, 6, tasks) // one at a time
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		time.AfterFunc(5*time.Second, stop)
		sum, err := b.run(ctx, tasks...)
		if !errors.Is(err, pipeline.ErrInterrupted) || sum.Total == 0 || sum.Total == len(tasks) {
			t.Errorf("summary %+v, %v", sum, err)
		}
		if s.memory != 0 || b.engine.Left() != 0 {
			t.Errorf("%d bytes and %d objects are left", s.memory, b.engine.Left())
		}
	})
}

// TestNoRoomOnDiskEndsTheRun: an attempt that could not be written is not begun,
// and the records of those before it stay.
func TestNoRoomOnDiskEndsTheRun(t *testing.T) {
	b := newBench(t, answers)
	b.cfg.Workers = 1
	full := fmt.Errorf("%w: %w", pipeline.ErrOutput, capacity.ErrFull)
	begun := 0
	b.cfg.Room = func() error {
		if begun++; begun > 2 {
			return full
		}
		return nil
	}
	var tasks []task.Task
	for i := range 6 {
		tasks = append(tasks, question(t, fmt.Sprint("q", i), "4", `"4"`))
	}
	sum, err := b.run(t.Context(), tasks...)
	if !errors.Is(err, capacity.ErrFull) || sum.Of(verdict.Computed).Passed != 2 || len(b.lines()) != 2 {
		t.Errorf("summary %+v, %v", sum, err)
	}
	for _, l := range b.lines() {
		if l["outcome"] != string(verdict.Passed) {
			t.Errorf("record %v", l)
		}
	}
	if n := b.engine.Left(); n != 0 {
		t.Errorf("%d boxes and workspaces are left", n)
	}
}
