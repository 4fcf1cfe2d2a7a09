package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/verdict"
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
		if err := b.broke(mode, pipeline.FirstAttempts); err == nil {
			t.Fatal("it did not stop")
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
	if sum, _ := b.run(Resume); sum.Of(verdict.Computed).Passed != 6 || sum.AgentErrors != 0 || b.agents.Load() != 6 {
		t.Errorf("mended: %+v after %d agents", sum, b.agents.Load())
	}
}

// TestFewBrokenAgents: a run of fewer attempts than those at which it would stop
// ends like one that stopped if the agents of all of them failed.
func TestFewBrokenAgents(t *testing.T) {
	b := newBench(t)
	broken := b.breakable()
	b.opts.Config.Attempts = 1
	ended := func(mode Mode) {
		t.Helper()
		b.reset()
		err := b.broke(mode, 3)
		if err == nil || !strings.Contains(err.Error(), "all 3 agents of the run failed without a candidate") || b.agents.Load() != 3 {
			t.Fatalf("%v after %d agents", err, b.agents.Load())
		}
	}
	ended(Fresh)
	ended(Resume)
	b.reset()
	b.opts.KeepGoing = true
	if sum, _ := b.run(Resume); sum.Total != 3 || sum.AgentErrors != 3 || b.agents.Load() != 0 {
		t.Errorf("to be scored: %+v after %d agents", sum, b.agents.Load())
	}
	if _, err := os.Stat(b.statement()); err != nil {
		t.Errorf("it is not signed: %v", err)
	}
	b.opts.KeepGoing = false
	ended(Replace)
	*broken = false
	b.reset()
	if sum, _ := b.run(Resume); sum.Of(verdict.Computed).Passed != 3 || b.agents.Load() != 3 {
		t.Errorf("mended: %+v after %d agents", sum, b.agents.Load())
	}
}

// TestResumeWithPendingRows: of a run that stopped because its agents fail, a
// resume keeps the attempts that stay pending, and these count for nothing.
func TestResumeWithPendingRows(t *testing.T) {
	b := newBench(t)
	rows, err := os.ReadFile(b.opts.Pack.Tasks)
	if err != nil {
		t.Fatal(err)
	}
	rows = append([]byte(`{"id": "later", "family": "essay", "input": {"question": "?"}, "eval": {}}`+"\n"), rows...)
	if err := os.WriteFile(b.opts.Pack.Tasks, rows, 0o600); err != nil {
		t.Fatal(err)
	}
	broken := b.breakable()
	b.opts.Config.MaxWorkers = 1
	const total = 2 + pipeline.FirstAttempts // with both attempts at the pending row
	if err := b.broke(Fresh, total); err == nil {
		t.Fatal("it did not stop")
	}
	b.reset()
	if err := b.broke(Resume, total); err == nil || b.agents.Load() != pipeline.FirstAttempts {
		t.Fatalf("the resume: %v after %d agents", err, b.agents.Load())
	}
	m, _, err := record.ReadManifest(os.DirFS(b.opts.Config.OutputDir))
	if err != nil || !m.AgentsFailed || len(m.ResumedFrom) != 1 || m.ResumedFrom[0].Kept != 2 || m.ResumedFrom[0].Rerun[record.AgentsFailed] != pipeline.FirstAttempts {
		t.Errorf("the resume is noted as %+v, %v", m.ResumedFrom, err)
	}
	*broken = false
	b.reset()
	if sum, _ := b.run(Resume); sum.Total != 8 || sum.Of(verdict.Computed).Passed != 6 || sum.Of(verdict.Computed).Pending != 2 || b.agents.Load() != 6 {
		t.Errorf("mended: %+v after %d agents", sum, b.agents.Load())
	}
}

// breakable has agents that fail as long as what it returns is true.
func (b *bench) breakable() *bool {
	broken := true
	b.opts.OpenEngine = openerOf(sandboxtest.New(sandboxtest.Config{Programs: map[string]sandboxtest.Program{
		"agent": func(_ context.Context, p *sandboxtest.Process) int {
			b.agents.Add(1)
			if broken {
				return 1
			}
			fmt.Fprintln(p.Stdout, "4")
			return 0
		},
	}}))
	return &broken
}

// statement is the path of the run's statement.
func (b *bench) statement() string {
	return filepath.Join(b.opts.Config.OutputDir, record.StatementName)
}

// broke runs agents that fail, and returns the error with which the run ends
// unsigned after this many records.
func (b *bench) broke(mode Mode, total int) error {
	b.t.Helper()
	b.opts.Mode = mode
	r, err := Open(b.t.Context(), b.opts)
	if err != nil {
		b.t.Fatal(err)
	}
	sum, err := r.Drive(b.t.Context())
	if err != nil && (!isBroken(err) || fault.KindOf(err) != fault.Interrupted) || sum.Total != total {
		b.t.Fatalf("%+v: %v", sum, err)
	}
	if err := r.Close(); err != nil {
		b.t.Fatal(err)
	}
	if _, err := os.Stat(b.statement()); !errors.Is(err, os.ErrNotExist) {
		b.t.Fatalf("the run is signed: %v", err)
	}
	return err
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
