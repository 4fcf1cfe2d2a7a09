package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/pipeline/commit"
	"securebench/internal/reverify"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// forgetful is the weak set-up: a verifier that one candidate can spoil for
// those behind it.
type forgetful struct{ spoiled bool }

func (f *forgetful) Open(context.Context, family.Case) family.Session { return f }
func (f *forgetful) Close(context.Context) error                      { return nil }

func (f *forgetful) Verify(_ context.Context, c candidate.Candidate) (family.Verdict, error) {
	data, err := c.Bytes()
	if err != nil {
		return family.Verdict{}, err
	}
	f.spoiled = f.spoiled || strings.Contains(string(data), "spoil")
	if f.spoiled {
		return family.Verdict{Outcome: verdict.Passed, Containment: verdict.Passive}, nil
	}
	return family.Verdict{Outcome: verdict.Failed, Reason: verdict.WrongAnswer, Containment: verdict.Passive}, nil
}

// TestReverifyTurnsTheOrder: verdicts that depend on earlier rows come out
// differently, which scoring in the run's own order would not reveal.
func TestReverifyTurnsTheOrder(t *testing.T) {
	n := 0
	b := newBench(t, func(_ context.Context, p *sandboxtest.Process) int {
		if n++; n == 2 {
			fmt.Fprintln(p.Stdout, "spoil")
		} else {
			fmt.Fprintln(p.Stdout, "wrong", n)
		}
		return 0
	})
	b.cfg.Workers = 1
	b.cfg.Verifiers["short_answer"] = &forgetful{}
	var tasks []task.Task
	for i := range 5 {
		tasks = append(tasks, question(t, fmt.Sprint("q", i), "2+2", `"4"`))
	}
	if _, err := b.run(t.Context(), tasks...); err != nil {
		t.Fatal(err)
	}
	recorded := map[string]reverify.Recorded{}
	for _, l := range b.lines() {
		reason, _ := l["failure_reason"].(string)
		text, _ := l["candidate_text"].(string)
		c := candidate.New(task.Text, candidate.Stdout, []byte(text))
		recorded[l["task_id"].(string)] = reverify.Recorded{Attempt: 1, Candidate: &c,
			Verdict: commit.Judged{Status: verdict.Status(l["verification_status"].(string)), Outcome: verdict.Outcome(l["outcome"].(string)),
				Reason: verdict.Reason(reason), Containment: "passive"}}
	}
	reverify := func(tasks []task.Task) (diffs []string) {
		err := reverify.Run(t.Context(), reverify.Config{
			Families: b.families, Verifiers: map[string]family.Verifier{"short_answer": &forgetful{}},
			Tasks: func(yield func(task.Task, error) bool) {
				for _, one := range tasks {
					if !yield(one, nil) {
						return
					}
				}
			},
			Images: b.cfg.Images, Workers: 1, VerifyTimeout: func(string) time.Duration { return 0 },
			Recorded: func(one task.Task) ([]reverify.Recorded, error) {
				return []reverify.Recorded{recorded[one.ID()]}, nil
			},
			Done: func(r reverify.Rederived) {
				if !r.Equal() {
					diffs = append(diffs, r.TaskID)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(diffs)
		return diffs
	}
	if d := cmp.Diff([]string{"q0", "q2", "q3", "q4"}, reverify(tasks)); d != "" {
		t.Errorf("verdicts that differ (-want +got):\n%s", d)
	}
	// In the order of the run, no verdict differs.
	slices.Reverse(tasks)
	if diffs := reverify(tasks); len(diffs) != 0 {
		t.Errorf("in the run's order %v differ", diffs)
	}
}
