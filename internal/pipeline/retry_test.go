package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// failing is a verifier whose engine never works.
type failing struct{ family.Verifier }

func (failing) Open(context.Context, family.Case) family.Session { return stumble{} }

type stumble struct{}

func (stumble) Verify(context.Context, candidate.Candidate) (family.Verdict, error) {
	return family.Verdict{}, errors.New("the engine stumbled")
}
func (stumble) Close(context.Context) error { return nil }

// reporter is a function that takes events.
type reporter func(progress.Event)

func (r reporter) Event(e progress.Event) { r(e) }

func TestInterruptDuringARetryPause(t *testing.T) {
	b := newBench(t, answers)
	b.cfg.Verifiers["short_answer"] = failing{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.cfg.Progress = reporter(func(e progress.Event) {
		if e.Name() == "retry" {
			time.AfterFunc(20*time.Millisecond, cancel) // the pause is longer
		}
	})
	sum, err := b.run(ctx, question(t, "q", "4", `"4"`))
	if !errors.Is(err, pipeline.ErrInterrupted) || sum.Total != 0 {
		t.Errorf("summary %+v, error %v; want an interrupted run without records", sum, err)
	}
}

// TestVerificationAloneIsRepeated: once the candidate is stored, an
// infrastructure error costs the verification alone. The agent's output is in
// the record, even if no try reached a verdict.
func TestVerificationAloneIsRepeated(t *testing.T) {
	for _, fails := range []int{1, 2} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			var agents atomic.Int32
			b := newBench(t, func(ctx context.Context, p *sandboxtest.Process) int {
				agents.Add(1)
				return answers(ctx, p)
			})
			b.cfg.Verifiers["short_answer"], b.cfg.Retries = &unsteady{Verifier: b.cfg.Verifiers["short_answer"], fails: fails}, 1
			if _, err := b.run(t.Context(), question(t, "q", "4", `"4"`)); err != nil {
				t.Fatal(err)
			}
			l := b.lines()[0]
			if want := map[int]string{1: "passed", 2: "infrastructure"}[fails]; l["outcome"] != want || agents.Load() != 1 {
				t.Errorf("%v after %d agents, want %s after one", l["outcome"], agents.Load(), want)
			}
			if l["producer_stdout"] != "4\n" || l["candidate_text"] != "4\n" {
				t.Errorf("record %v", l)
			}
			retries, _ := l["retries"].([]any)
			if len(retries) != 1 || retries[0].(map[string]any)["candidate"] != digest.Bytes([]byte("4\n")) || retries[0].(map[string]any)["phase"] != "verifier" {
				t.Errorf("retries %v", retries)
			}
			raw, _ := l["restricted"].([]any)
			if len(raw) != 1 {
				t.Fatalf("%d raw files, want the agent's: %v", len(raw), raw)
			}
			path, _ := raw[0].(map[string]any)["path"].(string)
			if data, err := os.ReadFile(filepath.Join(b.out, path)); err != nil || string(data) != "4\n" {
				t.Errorf("%s holds %q, %v", path, data, err)
			}
		})
	}
}

// unsteady is a verifier whose engine works after a number of failures.
type unsteady struct {
	family.Verifier
	fails int
}

func (u *unsteady) Open(ctx context.Context, c family.Case) family.Session {
	if u.fails--; u.fails >= 0 {
		return stumble{}
	}
	return u.Verifier.Open(ctx, c)
}

// TestResumeStartsAtVerification: an attempt whose candidate an earlier part of
// the run stored is verified; no agent runs. One whose candidate is gone is run
// again.
func TestResumeStartsAtVerification(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprint("gone: ", gone), func(t *testing.T) {
			var agents atomic.Int32
			b := newBench(t, func(ctx context.Context, p *sandboxtest.Process) int {
				agents.Add(1)
				return answers(ctx, p)
			})
			working := b.cfg.Verifiers["short_answer"]
			b.cfg.Verifiers["short_answer"], b.cfg.Retries = failing{}, 0
			harness, ok := b.cfg.Agent.(*agent.Harness)
			if !ok {
				t.Fatalf("the bench's agent is a %T", b.cfg.Agent)
			}
			harness.Producer.Granted = []sandbox.Capability{sandbox.Chown}
			q, err := task.New(task.Config{ID: "q", Family: "short_answer", Pack: task.Pack{ID: "pack", Version: 1}, Row: []byte("q"),
				Environment: task.Environment{Image: "img", Capabilities: []string{"CHOWN"}},
				Extraction:  task.Extraction{Mode: task.FromStdout, Kind: task.Text},
				Resources: []task.Resource{{Name: "question", Lane: task.Public, Value: []byte(`"4"`)},
					{Name: "accepted_answers", Value: []byte(`["4"]`)}}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.run(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			former := b.entries()[0].Line
			b.cfg.Verifiers["short_answer"] = working
			b.cfg.Unverified = b.waiting(b.entries()...)
			if gone {
				if err := os.RemoveAll(filepath.Join(b.dir.StorePath(), strings.TrimPrefix(former.Digests.Candidate, "sha256:"))); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := b.run(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			l := b.entries()[1].Line
			want := int32(1)
			if gone {
				want = 2
			}
			if l.Outcome != verdict.Passed || agents.Load() != want {
				t.Errorf("%s after %d agents, want a pass after %d", l.Outcome, agents.Load(), want)
			}
			if gone {
				return
			}
			if l.ProducerStdout != "4\n" || l.Candidate.Shown != "4\n" || l.Origin() != candidate.Stdout || l.Digests.Candidate != former.Digests.Candidate ||
				len(l.Restricted) != 1 || l.Restricted[0] != former.Restricted[0] {
				t.Errorf("record %+v", l)
			}
			if !slices.Equal(l.Labels, former.Labels) || !slices.Contains(l.Labels, "capability_chown") {
				t.Errorf("labels %v, were %v", l.Labels, former.Labels)
			}
			if len(l.Retries) != 1 || l.Retries[0] != (record.Retry{Candidate: former.Digests.Candidate, Error: former.FailureMessage, Phase: "verifier"}) {
				t.Errorf("retries %v", l.Retries)
			}
		})
	}
}

// TestCaptureFaultsHaveTheirPhase: an error during capture is not recorded as
// a fault of production.
func TestCaptureFaultsHaveTheirPhase(t *testing.T) {
	b := newBench(t, answers)
	harness, ok := b.cfg.Agent.(*agent.Harness)
	if !ok {
		t.Fatalf("the bench's agent is a %T", b.cfg.Agent)
	}
	harness.Producer.Engine = unreadable{b.engine}
	b.cfg.Retries = 1
	c := task.Config{ID: "q", Family: "short_answer", Pack: task.Pack{ID: "pack", Version: 1}, Environment: task.Environment{Image: "img"},
		Extraction: task.Extraction{Mode: task.FromFile, Kind: task.Text, Path: "answer", OrStdout: true}}
	q, err := task.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.run(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	l := b.entries()[0].Line
	if l.Outcome != verdict.Infrastructure || l.FailurePhase != verdict.PhaseCapture || len(l.Retries) != 1 || l.Retries[0].Phase != verdict.PhaseCapture {
		t.Errorf("record %+v", l)
	}
}

// unreadable is an engine whose workspaces cannot be read.
type unreadable struct{ sandbox.Engine }

func (u unreadable) Workspace(ctx context.Context, spec sandbox.WorkspaceSpec) (sandbox.Workspace, error) {
	w, err := u.Engine.Workspace(ctx, spec)
	return unreadableSpace{w}, err
}

func (u unreadable) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	for i, m := range spec.Mounts {
		if w, ok := m.Workspace.(unreadableSpace); ok {
			spec.Mounts[i].Workspace = w.Workspace
		}
	}
	return u.Engine.Open(ctx, spec)
}

type unreadableSpace struct{ sandbox.Workspace }

func (unreadableSpace) Get(context.Context, string, int64, io.Writer, ...string) error {
	return errors.New("the workspace cannot be read")
}

// TestDenominator is attack D08: every attempt counts, whatever its outcome,
// and a run is complete only if every attempt has a verdict.
func TestDenominator(t *testing.T) {
	b := newBench(t, func(_ context.Context, p *sandboxtest.Process) int {
		data, _ := os.ReadFile(filepath.Join(p.Dir, "task.json"))
		switch {
		case bytes.Contains(data, []byte("crash")):
			return 139
		case bytes.Contains(data, []byte("hang")):
			p.End(sandbox.TimedOut)
		case bytes.Contains(data, []byte("flood")):
			p.End(sandbox.OutputLimit)
		default:
			fmt.Fprintln(p.Stdout, "4")
		}
		return 0
	})
	b.cfg.Retries = 0
	b.cfg.Verifiers["multiple_choice"] = failing{} // an infrastructure error
	broken := newTask(t, "broken", "multiple_choice", map[string]string{"question": "?"}, nil)
	sum, err := b.run(t.Context(), question(t, "good", "good", `"4"`), question(t, "wrong", "wrong", `"5"`),
		question(t, "crash", "crash", `"4"`), question(t, "hang", "hang", `"4"`), question(t, "flood", "flood", `"4"`),
		newTask(t, "later", "terminal_task", nil, nil), broken)
	if err != nil {
		t.Fatal(err)
	}
	want := pipeline.Summary{RunID: "test", Planned: pipeline.Planned{All: 7}, Total: 7, Scored: 5, Infrastructure: 1, AgentErrors: 1,
		Counts: verdict.Apart(verdict.Counts{Total: 7, Verified: 5, Passed: 1, Failed: 4, Pending: 1, Infrastructure: 1}, verdict.Counts{})}
	want.Failures, want.Unpassed = sum.Failures, map[string]int{"wrong_answer": 1, "agent_failed": 1, "producer_timeout": 1, "output_limit": 1, "no_verifier": 1, "infrastructure_error": 1}
	if len(sum.Failures) != 6 || fmt.Sprintf("%+v", sum) != fmt.Sprintf("%+v", want) || sum.Status() != "partial" {
		t.Errorf("summary %+v, status %s; want %+v", sum, sum.Status(), want)
	}
}
