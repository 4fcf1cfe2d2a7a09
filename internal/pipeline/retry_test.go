package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/pipeline"
	"securebench/internal/progress"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
)

// stumbling is a verifier whose engine never works.
type stumbling struct{ family.Verifier }

func (stumbling) Open(context.Context, family.Case) family.Session { return stumble{} }

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
	b.cfg.Verifiers["short_answer"] = stumbling{}
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

// TestEvidenceOfFailedTriesStays: what every try left is named in the final
// record, also when none of them came to a verdict.
func TestEvidenceOfFailedTriesStays(t *testing.T) {
	b := newBench(t, answers)
	b.cfg.Verifiers["short_answer"], b.cfg.Retries = stumbling{}, 1
	if _, err := b.run(t.Context(), question(t, "q", "4", `"4"`)); err != nil {
		t.Fatal(err)
	}
	l := b.lines()[0]
	if l["outcome"] != "infrastructure" || l["producer_stdout"] != "4\n" || l["candidate_text"] != "4\n" {
		t.Errorf("record %v", l)
	}
	raw, _ := l["restricted"].([]any)
	if len(raw) != 2 {
		t.Fatalf("%d raw files, want one of each try: %v", len(raw), raw)
	}
	for _, r := range raw {
		path, _ := r.(map[string]any)["path"].(string)
		if data, err := os.ReadFile(filepath.Join(b.out, path)); err != nil || string(data) != "4\n" {
			t.Errorf("%s holds %q, %v", path, data, err)
		}
	}
}

// TestDenominator is attack D08: whatever becomes of an attempt, it counts,
// and only a whole set of verdicts is complete.
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
	b.cfg.Verifiers["multiple_choice"] = stumbling{} // an error of ours
	broken := newTask(t, "broken", "multiple_choice", map[string]string{"question": "?"}, nil)
	sum, err := b.run(t.Context(), question(t, "good", "good", `"4"`), question(t, "wrong", "wrong", `"5"`),
		question(t, "crash", "crash", `"4"`), question(t, "hang", "hang", `"4"`), question(t, "flood", "flood", `"4"`),
		newTask(t, "later", "repo_patch", nil, nil), broken)
	if err != nil {
		t.Fatal(err)
	}
	want := pipeline.Summary{RunID: "test", Planned: 7, Total: 7, Verified: 5, Passed: 1, Score: 1, Failed: 4, Pending: 1, Infrastructure: 1}
	want.Failures = sum.Failures
	if len(sum.Failures) != 6 || fmt.Sprintf("%+v", sum) != fmt.Sprintf("%+v", want) || sum.Status() != "partial" {
		t.Errorf("summary %+v, status %s; want %+v", sum, sum.Status(), want)
	}
}
