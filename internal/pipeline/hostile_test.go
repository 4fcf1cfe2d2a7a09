package pipeline_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/pipeline"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// TestResumeKeepsLabels: an agent that had root's powers had them, also when
// another part of the run verifies what it left.
func TestResumeKeepsLabels(t *testing.T) {
	for name, granted := range map[string][]sandbox.Capability{"granted": {sandbox.Chown, sandbox.DACOverride}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, answers)
			harness, ok := b.cfg.Agent.(*agent.Harness)
			if !ok {
				t.Fatalf("the bench's agent is a %T", b.cfg.Agent)
			}
			harness.Producer.Granted = granted
			env := task.Environment{Image: "img"}
			for _, c := range granted {
				env.Capabilities = append(env.Capabilities, string(c))
			}
			q, err := task.New(task.Config{ID: "q", Family: "short_answer", Pack: task.Pack{ID: "pack", Version: 1}, Environment: env,
				Resources: []task.Resource{{Name: "question", Lane: task.Public, Value: []byte(`"4"`)},
					{Name: "accepted_answers", Lane: task.Hidden, Value: []byte(`["4"]`)}},
				Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text}})
			if err != nil {
				t.Fatal(err)
			}
			working := b.cfg.Verifiers["short_answer"]
			b.cfg.Verifiers["short_answer"], b.cfg.Retries = failing{}, 0
			if _, err := b.run(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			former := b.entries()[0].Line
			b.cfg.Verifiers["short_answer"] = working
			b.cfg.Unverified = b.waiting(b.entries()...)
			if _, err := b.run(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			l := b.entries()[1].Line
			want := []string{"unpinned_image"}
			if granted != nil {
				want = []string{"capability_chown", "capability_dac_override", "unpinned_image"}
			}
			if l.Outcome != verdict.Passed || !slices.Equal(former.Labels, want) || !slices.Equal(l.Labels, want) {
				t.Errorf("%s, labels %v, before %v; want %v", l.Outcome, l.Labels, former.Labels, want)
			}
		})
	}
}

// TestExtractedIsNoTree: what is taken from an agent's words is no error of
// ours either if it could have the digest of a tree. It would be tried again
// and end as pending.
func TestExtractedIsNoTree(t *testing.T) {
	b := newBench(t, answers)
	const word = "securebench tree 2\nx"
	b.cfg.Verifiers = map[string]family.Verifier{"short_answer": taker{word, "fence"}}
	q := question(t, "q", "words", `"right"`)
	if sum, err := b.run(t.Context(), q); err != nil || sum.Of(verdict.Computed).Passed != 1 || sum.Infrastructure != 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	line := b.entries()[0]
	if line.Digests.Extracted != "" || len(line.Retries) != 0 {
		t.Errorf("extracted %q, retries %v", line.Digests.Extracted, line.Retries)
	}
	if got := b.rederive(t.Context(), q, line, taker{word, "fence"}); !got.Equal() {
		t.Errorf("verified again: %+v", got)
	}
	if got := b.rederive(t.Context(), q, line, taker{"other", "fence"}); got.Equal() {
		t.Error("what is not stored equals anything")
	}
}

// TestTreeDigestAsAnswer: an agent that prints the lines of a tree has left
// nothing that can be stored, and fails at once.
func TestTreeDigestAsAnswer(t *testing.T) {
	b := newBench(t, answers)
	if sum, err := b.run(t.Context(), question(t, "q", "securebench tree 2\nf 0644", `"4"`), question(t, "p", "4", `"4"`)); err != nil || sum.Of(verdict.Computed).Failed != 1 || sum.Of(verdict.Computed).Passed != 1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	for _, e := range b.entries() {
		if e.TaskID == "q" && (e.Outcome != verdict.NoCandidate || e.FailureReason != verdict.CandidateNotRegular || e.Digests.Candidate != "") {
			t.Errorf("%s/%s, candidate %q", e.Outcome, e.FailureReason, e.Digests.Candidate)
		}
	}
}

// cutShort is a verifier under which the operator interrupts the run.
type cutShort struct{ interrupt context.CancelFunc }

func (c cutShort) Open(context.Context, family.Case) family.Session { return c }
func (c cutShort) Close(context.Context) error                      { return nil }
func (c cutShort) Verify(ctx context.Context, _ candidate.Candidate) (family.Verdict, error) {
	c.interrupt()
	<-ctx.Done()
	return family.Verdict{}, ctx.Err()
}

// TestInterruptedVerificationIsNoSecondTry: an operator who interrupts a
// resumed run before the verification ends, or before it begins, gets no other
// candidate by that.
func TestInterruptedVerificationIsNoSecondTry(t *testing.T) {
	var agents atomic.Int32
	b := newBench(t, func(ctx context.Context, p *sandboxtest.Process) int {
		agents.Add(1)
		return answers(ctx, p)
	})
	working := b.cfg.Verifiers["short_answer"]
	b.cfg.Verifiers["short_answer"], b.cfg.Retries, b.cfg.Workers = failing{}, 0, 1
	tasks := []task.Task{question(t, "q", "4", `"4"`), question(t, "r", "4", `"4"`), question(t, "s", "4", `"4"`)}
	if _, err := b.run(t.Context(), tasks...); err != nil || agents.Load() != 3 {
		t.Fatalf("%d agents, %v", agents.Load(), err)
	}
	former := b.entries()
	ctx, interrupt := context.WithCancel(t.Context())
	b.cfg.Verifiers["short_answer"], b.cfg.Unverified = cutShort{interrupt}, b.waiting(former...)
	if _, err := b.run(ctx, tasks...); !errors.Is(err, pipeline.ErrInterrupted) {
		t.Fatal(err)
	}
	left := b.entries()[len(former):]
	if len(left) != 3 {
		t.Fatalf("%d records are left of %d", len(left), len(former))
	}
	for _, e := range left {
		was := b.waiting(former...)[e.Key()]
		if e.Outcome != verdict.Infrastructure || e.Digests.Candidate != was.Digests.Candidate || !slices.Equal(e.Retries, was.Retries) || !slices.Equal(e.Restricted, was.Restricted) {
			t.Errorf("%v is left as %+v, was %+v", e.Key(), e.Line, was)
		}
	}
	b.cfg.Verifiers["short_answer"], b.cfg.Unverified = working, b.waiting(left...)
	if sum, err := b.run(t.Context(), tasks...); err != nil || sum.Of(verdict.Computed).Passed != 3 || agents.Load() != 3 {
		t.Errorf("%+v after %d agents, %v", sum, agents.Load(), err)
	}
	if got := len(b.entries()); got != 9 {
		t.Errorf("%d records in three parts, want 9", got)
	}
}
