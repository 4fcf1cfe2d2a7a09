package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"securebench/internal/agent"
	"securebench/internal/pipeline"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// hanging is an engine whose calls do not return once it hangs, even if their
// contexts end.
type hanging struct {
	sandbox.Engine
	hung, mended chan struct{}
	hang         func()
}

// pass returns immediately while the engine works.
func (h *hanging) pass() {
	select {
	case <-h.hung:
		<-h.mended
	default:
	}
}

func (h *hanging) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	h.pass()
	for i, m := range spec.Mounts {
		if w, ok := m.Workspace.(hangingSpace); ok {
			spec.Mounts[i].Workspace = w.Workspace
		}
	}
	b, err := h.Engine.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return hangingBox{b, h}, nil
}

func (h *hanging) Workspace(ctx context.Context, spec sandbox.WorkspaceSpec) (sandbox.Workspace, error) {
	h.pass()
	w, err := h.Engine.Workspace(ctx, spec)
	if err != nil {
		return nil, err
	}
	return hangingSpace{w, h}, nil
}

// probe asks the engine, which does not answer while it hangs.
func (h *hanging) probe(ctx context.Context) error {
	select {
	case <-h.hung:
		<-ctx.Done()
		return ctx.Err()
	default:
		return nil
	}
}

type hangingBox struct {
	sandbox.Box
	engine *hanging
}

func (b hangingBox) Run(ctx context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
	out, err := b.Box.Run(ctx, s)
	b.engine.pass()
	return out, err
}

func (b hangingBox) Close(ctx context.Context) error {
	b.engine.pass()
	return b.Box.Close(ctx)
}

type hangingSpace struct {
	sandbox.Workspace
	engine *hanging
}

func (w hangingSpace) Close(ctx context.Context) error {
	w.engine.pass()
	return w.Workspace.Close(ctx)
}

// hangs returns a pipeline of ten tasks whose engine hangs after the agent of
// the fourth has run; it then calls then.
func hangs(t *testing.T, then func()) (b *bench, h *hanging, tasks []task.Task) {
	t.Helper()
	h = &hanging{hung: make(chan struct{}), mended: make(chan struct{})}
	h.hang = sync.OnceFunc(func() { close(h.hung); then() })
	var agents atomic.Int32
	b = newBench(t, func(ctx context.Context, p *sandboxtest.Process) int {
		code := answers(ctx, p)
		if agents.Add(1) == 4 {
			h.hang()
		}
		return code
	})
	h.Engine = b.engine
	harness, ok := b.cfg.Agent.(*agent.Harness)
	if !ok {
		t.Fatalf("the bench's agent is a %T", b.cfg.Agent)
	}
	harness.Producer.Engine, b.cfg.Probe = h, h.probe
	for i := range 10 {
		tasks = append(tasks, question(t, fmt.Sprint("q", i), "4", `"4"`))
	}
	return b, h, tasks
}

// whole checks that exactly the attempts that ended before the hang are
// recorded: an interrupted attempt has no verdict.
func (b *bench) whole(sum pipeline.Summary) {
	b.t.Helper()
	lines := b.lines()
	if len(lines) != sum.Total || sum.Of(verdict.Computed).Passed != sum.Total || sum.Total < 2 || sum.Total > 4 {
		b.t.Errorf("%d records, summary %+v", len(lines), sum)
	}
}

// mend lets the engine answer again; nothing may be left then.
func (b *bench) mend(h *hanging) {
	b.t.Helper()
	close(h.mended)
	synctest.Wait()
	if n := b.engine.Left(); n != 0 {
		b.t.Errorf("%d boxes and workspaces are left", n)
	}
}

// TestHangingEngineEndsTheRun: only the watch notices an engine that accepts
// calls but never answers.
func TestHangingEngineEndsTheRun(t *testing.T) {
	for _, tt := range []struct {
		name         string
		probe, watch time.Duration
		noticed      time.Duration // after the hang, at most
	}{
		{"as it ships", 0, 0, 70 * time.Second},
		{"in milliseconds", 20 * time.Millisecond, 10 * time.Millisecond, 60 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var at time.Time
				b, h, tasks := hangs(t, func() { at = time.Now() })
				b.cfg.ProbeTime, b.cfg.WatchEvery = tt.probe, tt.watch
				sum, err := b.run(t.Context(), tasks...)
				if !errors.Is(err, pipeline.ErrEngineDead) || errors.Is(err, pipeline.ErrInterrupted) {
					t.Errorf("error %v, want ErrEngineDead", err)
				}
				// Two seconds are for the clean-up, which also hangs.
				if took := time.Since(at) - 2*time.Second; took > tt.noticed {
					t.Errorf("noticed after %v, want %v", took, tt.noticed)
				}
				b.whole(sum)
				b.mend(h)
			})
		})
	}
}

// TestInterruptWhileTheEngineHangs: Ctrl-C ends the run in bounded time even
// if no call to the engine returns when its context ends.
func TestInterruptWhileTheEngineHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var at time.Time
		b, h, tasks := hangs(t, func() { at = time.Now(); cancel() })
		sum, err := b.run(ctx, tasks...)
		if !errors.Is(err, pipeline.ErrInterrupted) || !errors.Is(err, pipeline.ErrEngineDead) {
			t.Errorf("error %v, want ErrInterrupted and ErrEngineDead", err)
		}
		if took := time.Since(at); took > 30*time.Second {
			t.Errorf("it took %v to end", took)
		}
		b.whole(sum)
		b.mend(h)
	})
}

// TestBusyMachineIsNoDeadEngine: a single failed probe does not end the run.
func TestBusyMachineIsNoDeadEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(ctx context.Context, p *sandboxtest.Process) int {
			time.Sleep(4 * time.Second)
			return answers(ctx, p)
		})
		b.cfg.ProbeTime, b.cfg.WatchEvery = 300*time.Millisecond, 200*time.Millisecond
		var probes atomic.Int32
		b.cfg.Probe = func(ctx context.Context) error {
			if probes.Add(1)%2 == 0 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		sum, err := b.run(t.Context(), question(t, "q", "4", `"4"`))
		if err != nil || sum.Of(verdict.Computed).Passed != 1 || probes.Load() < 4 {
			t.Errorf("summary %+v, error %v after %d probes", sum, err, probes.Load())
		}
	})
}
