package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"securebench/internal/agent"
	"securebench/internal/agent/harness"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/task"
	"securebench/internal/verdict"
	"securebench/internal/workspace"
)

// BenchmarkHumanEval measures a HumanEval task whole, from an agent in its
// sandbox to a record with a split verdict, beside what the bare engine takes
// for the same sandboxes in the same run. The ratio is securebench's overhead:
// below 1 it hides its own work and some of the engine's behind the rest.
func BenchmarkHumanEval(b *testing.B) {
	engine := enginetest.Docker(b)
	img := enginetest.Image(b, engine)
	floor := enginetest.NewFloor(b, img)
	rows := loadTasks(b, filepath.Join("..", "..", "packs", "humaneval-sample"))
	for _, workers := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			for b.Loop() {
				bare := timeFloor(b, floor, workers, len(rows))
				ours := timeRun(b, engine, img, rows, workers)
				n := float64(len(rows))
				b.ReportMetric(ours.Seconds()/n, "s/task")
				b.ReportMetric(bare.Seconds()/n, "floor-s/task")
				b.ReportMetric(ours.Seconds()/bare.Seconds(), "ratio")
			}
		})
	}
}

func timeFloor(b *testing.B, f *enginetest.Floor, workers, tasks int) time.Duration {
	b.Helper()
	jobs := make(chan struct{}, tasks)
	for range tasks {
		jobs <- struct{}{}
	}
	close(jobs)
	start := time.Now()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range jobs {
				if err := f.Task(b.Context()); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

func timeRun(b *testing.B, engine sandbox.Engine, img sandbox.Image, rows []task.Task, workers int) time.Duration {
	b.Helper()
	start := time.Now()
	sum := runTasks(b, engine, img, rows, workers, solver{})
	took := time.Since(start)
	if sum.Of(verdict.Computed).Passed != len(rows) {
		b.Fatalf("%d of %d tasks passed", sum.Of(verdict.Computed).Passed, len(rows))
	}
	return took
}

// solver is a harness whose agent writes the row's own solution, which the
// benchmark gives it by the back door.
type solver struct{ solutions map[string]string }

func (s solver) Name() string         { return "command" }
func (s solver) Needs() harness.Needs { return harness.Needs{} }
func (s solver) Check(task.AgentView) (workspace.Options, error) {
	return workspace.Options{}, nil
}
func (s solver) Plan(v task.AgentView) (harness.Plan, error) {
	solution, ok := s.solutions[v.ID()]
	if !ok {
		return harness.Plan{}, errors.New("no solution")
	}
	return harness.Plan{
		Argv:    []string{"sh", "-c", `printf %s "$1" > candidate.py`, "sh", solution},
		Workdir: workspace.DefaultTarget, Target: workspace.DefaultTarget, TaskFile: workspace.DefaultTaskFile,
		Extract: v.Extraction(), Metadata: map[string]any{},
	}, nil
}

func loadTasks(t testing.TB, dir string) []task.Task {
	t.Helper()
	loc, err := pack.Locate(dir)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := compile.Load(t.Context(), loc, family.NewRegistry(codecompletion.Family()), nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []task.Task
	for row, err := range loaded.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		compiled, err := loaded.Compiler.Task(row)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, compiled)
	}
	return out
}

// runTasks runs code_completion tasks with a solver.
func runTasks(t testing.TB, engine sandbox.Engine, img sandbox.Image, rows []task.Task, workers int, s solver) pipeline.Summary {
	t.Helper()
	fam := codecompletion.Family()
	s.solutions = map[string]string{}
	for _, r := range rows {
		c, ok := fam.Reference(r.Evaluator())
		if !ok {
			t.Fatalf("%s has no reference", r.ID())
		}
		data, err := c.Candidate.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		s.solutions[r.ID()] = string(data)
	}
	dir, err := record.Open(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Begin(false); err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	store, err := candidate.OpenStore(dir.StorePath())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	verifier := fam.NewVerifier(family.Resources{Engine: engine, RunID: "bench"})
	names := workspace.Namer{}
	sum, err := pipeline.Run(t.Context(), pipeline.Config{
		RunID: "bench", Families: family.NewRegistry(fam), Tasks: each(rows), Total: len(rows),
		Agent: &agent.Harness{Runner: agent.Runner{
			Producer: &produce.Producer{Engine: engine, Harness: s, Env: os.LookupEnv}, RunID: "bench",
		}},
		Verifiers: map[string]family.Verifier{fam.Name: verifier},
		Images:    map[string]sandbox.Image{rows[0].Environment().Image: img},
		Dir:       dir, Store: store, Digests: commit.Binding{}, TaskDir: names.Name,
		Workers: workers, Attempts: 1, Progress: progress.New(progress.None, nil, progress.Options{}),
	})
	if err := errors.Join(err, verifier.Close(context.WithoutCancel(t.Context()))); err != nil {
		t.Fatal(err)
	}
	return sum
}

func each(rows []task.Task) iter.Seq2[task.Task, error] {
	return func(yield func(task.Task, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}
