package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/kinds"
	"securebench/internal/agent/setup"
	"securebench/internal/attest"
	"securebench/internal/candidate"
	"securebench/internal/config"
	"securebench/internal/family"
	"securebench/internal/family/shortanswer"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/verdict"
	"securebench/internal/workload"
	"securebench/internal/workspace"
)

// countingHarness counts how often each task is checked and planned.
type countingHarness struct {
	harness.Harness
	mu             sync.Mutex
	checks, plans  map[string]int
	alreadyPlanned bool // a check came after the first plan
}

func (h *countingHarness) Check(v task.AgentView) (workspace.Options, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks[v.ID()]++
	h.alreadyPlanned = h.alreadyPlanned || len(h.plans) > 0
	return h.Harness.Check(v)
}

func (h *countingHarness) Plan(v task.AgentView) (harness.Plan, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.plans[v.ID()]++
	return h.Harness.Plan(v)
}

// failing is a verifier that fails as if the engine had.
type failing struct{ family.Verifier }

func (failing) Open(context.Context, family.Case) family.Session { return failing{} }
func (failing) Close(context.Context) error                      { return nil }
func (failing) Verify(context.Context, candidate.Candidate) (family.Verdict, error) {
	return family.Verdict{}, errors.New("the engine is busy")
}

// silent discards progress but keeps the warnings.
type silent struct{}

func (silent) Event(progress.Event) {}

// bench runs a pack of three questions on the in-memory engine.
type bench struct {
	t        *testing.T
	opts     Options
	harness  *countingHarness
	compiles map[string]int // by task
	broken   atomic.Bool    // the verifier fails
	agents   atomic.Int32   // that ran
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	var rows strings.Builder
	for i := range 3 {
		fmt.Fprintf(&rows, `{"id": "t%d", "input": {"question": "%d?"}, "eval": {"accepted_answers": ["4"]}}`+"\n", i, i)
	}
	loc := pack.Location{Manifest: filepath.Join(dir, "manifest.yaml"), Tasks: filepath.Join(dir, "tasks.jsonl")}
	err := errors.Join(os.WriteFile(loc.Tasks, []byte(rows.String()), 0o600),
		os.WriteFile(loc.Manifest, []byte("id: p\nversion: 1\ndefaults: {family: short_answer, environment: {image: img}}\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	node, err := source.ParseYAML("tester.yaml", []byte("command: [agent]\ntimeout_seconds: 5\n"))
	if err != nil {
		t.Fatal(err)
	}
	h, problems := harness.ParseCommand(config.Harness{Type: "command", Config: node})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, compiles: map[string]int{}, harness: &countingHarness{Harness: h}}
	b.reset()
	memory := sandboxtest.New(sandboxtest.Config{Programs: map[string]sandboxtest.Program{
		"agent": func(_ context.Context, p *sandboxtest.Process) int {
			b.agents.Add(1)
			fmt.Fprintln(p.Stdout, "4")
			return 0
		},
	}})
	cfg := config.Default()
	cfg.RunID, cfg.OutputDir, cfg.Attempts, cfg.Retries = "r", filepath.Join(dir, "out"), 2, 0
	cfg.Harness = config.Harness{Type: "command", Config: node}
	b.opts = Options{Config: cfg, Pack: loc, Families: b.families(), Limit: workload.All, Agent: kinds.Command(b.harness),
		Outside: setup.Outside{LookupEnv: os.LookupEnv}, Progress: silent{}, Notice: func(string) {}, Keyring: attest.OpenKeyring(filepath.Join(dir, "keys")),
		OpenEngine: func(context.Context, config.Sandbox, func(string)) (sandbox.Engine, error) { return memory, nil }}
	return b
}

// reset starts the counts over.
func (b *bench) reset() {
	clear(b.compiles)
	b.harness.checks, b.harness.plans = map[string]int{}, map[string]int{}
	b.agents.Store(0)
}

// families counts how often the compiler checks each row.
func (b *bench) families() family.Registry {
	fam := shortanswer.Family()
	check, verifier := fam.Check, fam.NewVerifier
	var mu sync.Mutex
	fam.Check = func(r family.Row) []family.Problem {
		mu.Lock()
		defer mu.Unlock()
		b.compiles[r.ID]++
		return check(r)
	}
	fam.NewVerifier = func(r family.Resources) family.Verifier {
		v := verifier(r)
		if b.broken.Load() {
			return failing{v}
		}
		return v
	}
	return family.NewRegistry(fam)
}

// run opens, drives and closes a run.
func (b *bench) run(mode Mode) (pipeline.Summary, map[record.AttemptKey]*record.Line) {
	b.t.Helper()
	b.opts.Mode = mode
	r, err := Open(b.t.Context(), b.opts)
	if err != nil {
		b.t.Fatal(err)
	}
	sum, err := r.Drive(b.t.Context())
	if err := errors.Join(err, r.Close()); err != nil {
		b.t.Fatal(err)
	}
	return sum, r.unverified
}

// counted compares the counts of all three tasks with what they should be.
func (b *bench) counted(compiles, checks, plans int) {
	b.t.Helper()
	for _, id := range []string{"t0", "t1", "t2"} {
		if got := b.compiles[id]; got != compiles {
			b.t.Errorf("%s was compiled %d times, want %d", id, got, compiles)
		}
		if got := b.harness.checks[id]; got != checks {
			b.t.Errorf("%s was checked %d times, want %d", id, got, checks)
		}
		if got := b.harness.plans[id]; got != plans {
			b.t.Errorf("%s was planned %d times, want %d", id, got, plans)
		}
	}
}

// TestRowsAreCompiledTwice: once before the first task runs and once when
// their turn comes, whatever the number of attempts; each attempt is planned
// once. A resume compiles kept rows only to check them.
func TestRowsAreCompiledTwice(t *testing.T) {
	b := newBench(t)
	if sum, _ := b.run(Fresh); sum.Of(verdict.Computed).Passed != 6 {
		t.Fatalf("%+v", sum)
	}
	b.counted(2, 1, 2)
	if b.harness.alreadyPlanned {
		t.Error("a task was checked after another one had been planned")
	}
	b.reset()
	if sum, _ := b.run(Resume); sum.Of(verdict.Computed).Passed != 6 {
		t.Fatalf("%+v", sum)
	}
	b.counted(1, 1, 0)
	if err := os.Remove(filepath.Join(b.opts.Config.OutputDir, record.LinesName)); err != nil {
		t.Fatal(err)
	}
	b.reset()
	if sum, _ := b.run(Resume); sum.Of(verdict.Computed).Passed != 6 {
		t.Fatalf("%+v", sum)
	}
	b.counted(2, 1, 2)
}

// TestResumeKeepsUnverifiedCandidates: an attempt whose verification failed is
// handed to the pipeline with its record, its candidate and raw output stay in
// place, and one whose candidate is gone is not.
func TestResumeKeepsUnverifiedCandidates(t *testing.T) {
	b := newBench(t)
	b.broken.Store(true)
	if sum, _ := b.run(Fresh); sum.Infrastructure != 6 || b.agents.Load() != 6 {
		t.Fatalf("%+v after %d agents", sum, b.agents.Load())
	}
	lost := filepath.Join(b.opts.Config.OutputDir, record.RestrictedName, "t1", "2")
	if err := os.RemoveAll(lost); err != nil {
		t.Fatal(err)
	}
	b.broken.Store(false)
	b.opts.Mode = Resume
	r, err := Open(t.Context(), b.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if len(r.kept) != 0 || len(r.unverified) != 5 {
		t.Errorf("%d records are kept, %d are to be verified again; want 0 and 5", len(r.kept), len(r.unverified))
	}
	for key, line := range r.unverified {
		if line.Key() != key || line.FailurePhase != verdict.PhaseVerify {
			t.Errorf("%v: record of %v, phase %s", key, line.Key(), line.FailurePhase)
		}
		if err := r.store.Check(line.Digests.Candidate); err != nil {
			t.Error(err)
		}
		for _, f := range line.Restricted {
			if err := f.Check(r.dir.FS(), r.dir.Salt(), line.TaskID); err != nil {
				t.Error(err)
			}
		}
	}
	if got := r.manifest.ResumedFrom[0].Rerun; got[record.Unfinished] != 5 || got[record.LostOutput] != 1 {
		t.Errorf("reported as run again: %v, want 5 and, for the one whose agent is, 1", got)
	}
}

// files returns the content of every stored candidate and of all raw output.
func (b *bench) files() map[string]string {
	b.t.Helper()
	out := map[string]string{}
	root := os.DirFS(b.opts.Config.OutputDir)
	for _, dir := range []string{record.CandidatesName, record.RestrictedName} {
		err := fs.WalkDir(root, dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := fs.ReadFile(root, path)
			out[path] = string(data)
			return err
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	return out
}

// TestResumeRepeatsOnlyTheVerification: agents whose candidates are stored do
// not run again, and what they left stays as it was. Without the candidates
// they do.
func TestResumeRepeatsOnlyTheVerification(t *testing.T) {
	for name, tt := range map[string]struct {
		lost   bool
		agents int32
		plans  int
	}{
		"candidates are stored": {false, 0, 0},
		"candidates are lost":   {true, 6, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.broken.Store(true)
			if sum, _ := b.run(Fresh); sum.Infrastructure != 6 || b.agents.Load() != 6 {
				t.Fatalf("%+v after %d agents", sum, b.agents.Load())
			}
			before := b.files()
			if tt.lost {
				for path := range before {
					if strings.HasPrefix(path, record.CandidatesName) {
						if err := os.Remove(filepath.Join(b.opts.Config.OutputDir, path)); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			b.broken.Store(false)
			b.reset()
			var said warnings
			b.opts.Progress = &said
			if sum, _ := b.run(Resume); sum.Of(verdict.Computed).Passed != 6 || b.agents.Load() != tt.agents {
				t.Errorf("%+v after %d agents, want %d", sum, b.agents.Load(), tt.agents)
			}
			b.counted(2, 1, tt.plans)
			if strings.Contains(said.String(), "has changed since") != tt.lost {
				t.Errorf("warnings: %s", &said)
			}
			after := b.files()
			if _, ok := before[record.CapturedName]; !ok || after[record.CapturedName] != "" {
				t.Errorf("what waits to be verified: kept %v, and at last %q", ok, after[record.CapturedName])
			}
			delete(before, record.CapturedName)
			for path, data := range before {
				if got, ok := after[path]; !tt.lost && (!ok || got != data) {
					t.Errorf("%s changed or is gone", path)
				}
			}
			if len(before) < 7 { // a candidate, and what six agents printed
				t.Errorf("only %d files were left: %v", len(before), before)
			}
		})
	}
}
