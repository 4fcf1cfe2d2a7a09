package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
)

// TestResumeOfBrokenAgent: a run that stopped because its agents fail is not
// signed, and a resume of it begins anew: the records of the agent that did not
// work are replaced, unless they are to be scored.
func TestResumeOfBrokenAgent(t *testing.T) {
	b := newBench(t)
	broken := true
	memory := sandboxtest.New(sandboxtest.Config{Programs: map[string]sandboxtest.Program{
		"agent": func(_ context.Context, p *sandboxtest.Process) int {
			b.agents.Add(1)
			if broken {
				return 1
			}
			fmt.Fprintln(p.Stdout, "4")
			return 0
		},
	}})
	b.opts.OpenEngine = openerOf(memory)
	b.opts.Config.MaxWorkers = 1
	stopped := func(mode Mode) {
		t.Helper()
		b.opts.Mode = mode
		r, err := Open(t.Context(), b.opts)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := r.Drive(t.Context())
		if !isBroken(err) || fault.KindOf(err) != fault.Interrupted || sum.Total != pipeline.FirstAttempts {
			t.Fatalf("%+v: %v", sum, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(b.opts.Config.OutputDir, record.StatementName)); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the run is signed: %v", err)
		}
	}
	stopped(Fresh)
	b.reset()
	stopped(Resume)
	if n := b.agents.Load(); n != pipeline.FirstAttempts {
		t.Errorf("%d agents ran in the resume", n)
	}
	b.reset()
	b.opts.KeepGoing = true
	if sum, _ := b.run(Resume); sum.Total != 6 || sum.AgentErrors != 6 || b.agents.Load() != 1 {
		t.Errorf("going on: %+v after %d agents", sum, b.agents.Load())
	}
	b.opts.KeepGoing = false
	stopped(Replace)
	if m, _, err := record.ReadManifest(os.DirFS(b.opts.Config.OutputDir)); err != nil || !m.AgentsFailed {
		t.Errorf("the stop is not noted: %v", err)
	}
	broken = false
	b.reset()
	if sum, _ := b.run(Resume); sum.Passed != 6 || sum.AgentErrors != 0 || b.agents.Load() != 6 {
		t.Errorf("mended: %+v after %d agents", sum, b.agents.Load())
	}
}

// TestResumeOfInterruptedFailures: without the note of the stop, a resume keeps the
// records of agents that failed.
func TestResumeOfInterruptedFailures(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.opts.OpenEngine = openerOf(sandboxtest.New(sandboxtest.Config{Programs: map[string]sandboxtest.Program{
		"agent": func(context.Context, *sandboxtest.Process) int {
			if b.agents.Add(1) == 6 {
				cancel()
			}
			return 1
		},
	}}))
	b.opts.Config.MaxWorkers, b.opts.KeepGoing = 1, true
	r, err := Open(t.Context(), b.opts)
	if err != nil {
		t.Fatal(err)
	}
	if sum, err := r.Drive(ctx); !errors.Is(err, pipeline.ErrInterrupted) || sum.Total != 5 {
		t.Fatalf("%+v: %v", sum, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	b.opts.KeepGoing, b.opts.Mode = false, Resume
	if r, err = Open(t.Context(), b.opts); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if len(r.kept) != 5 {
		t.Errorf("%d records are kept", len(r.kept))
	}
}

// openerOf opens an engine that is there already.
func openerOf(e sandbox.Engine) func(context.Context, config.Sandbox, func(string)) (sandbox.Engine, error) {
	return func(context.Context, config.Sandbox, func(string)) (sandbox.Engine, error) { return e, nil }
}
