package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/pipeline"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// TestBrokenAgent: a run stops when the agents of its first attempts all fail, and
// only then.
func TestBrokenAgent(t *testing.T) {
	works := func(p *sandboxtest.Process, name string) bool {
		data, err := os.ReadFile(filepath.Join(p.Dir, "task.json"))
		return err == nil && strings.Contains(string(data), name)
	}
	for name, tt := range map[string]struct {
		keep    bool
		agent   func(p *sandboxtest.Process) int
		stopped bool
		total   int
	}{
		"none works": {agent: func(p *sandboxtest.Process) int {
			fmt.Fprint(p.Stderr, "Traceback:\n\x1b[31mModuleNotFoundError: openai\n\n")
			return 1
		}, stopped: true, total: 5},
		"none works, and it continues": {keep: true, agent: func(*sandboxtest.Process) int { return 1 }, total: 8},
		"the fifth works": {agent: func(p *sandboxtest.Process) int {
			if works(p, "q4") {
				fmt.Fprint(p.Stdout, "5")
				return 0
			}
			return 1
		}, total: 8},
		"a wrong answer with an error is an answer": {agent: func(p *sandboxtest.Process) int {
			fmt.Fprint(p.Stdout, "5")
			return 1
		}, total: 8},
		"nothing, without an error": {agent: func(*sandboxtest.Process) int { return 0 }, total: 8},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(_ context.Context, p *sandboxtest.Process) int { return tt.agent(p) })
			b.cfg.Workers, b.cfg.KeepGoing = 1, tt.keep
			tasks := []task.Task{newTask(t, "later", "terminal_task", nil, nil)} // no agent runs: it does not count
			for i := range 8 {
				tasks = append(tasks, question(t, fmt.Sprintf("t%d", i), fmt.Sprintf("q%d", i), `"4"`))
			}
			sum, err := b.run(t.Context(), tasks...)
			broken, ok := errors.AsType[*pipeline.BrokenAgentError](err)
			if ok != tt.stopped || !ok && err != nil || sum.Total != tt.total+1 || sum.Of(verdict.Computed).Passed != 0 {
				t.Fatalf("stopped %t after %d of %d: %v", ok, sum.Total, sum.Planned.All, err)
			}
			if !tt.stopped {
				return
			}
			const ends = "the agent ended with exit code 1 and left no candidate; its standard error ends with: \\x1b[31mModuleNotFoundError: openai"
			if broken.TaskID != "t4" || broken.Message != ends || sum.AgentErrors != 5 {
				t.Errorf("%q of %s, %d errors", broken.Message, broken.TaskID, sum.AgentErrors)
			}
			for _, e := range b.entries()[1:] {
				if e.Outcome != verdict.NoCandidate || e.FailureReason != verdict.AgentFailed || e.FailurePhase != verdict.PhaseProduce ||
					e.FailureMessage != ends || e.AgentExit() != 1 || !strings.Contains(e.ProducerStderr, "Traceback:") {
					t.Errorf("record %+v", e.Line)
				}
			}
		})
	}
}

// TestBrokenAgentKept: attempts of earlier parts of the run are among the first.
func TestBrokenAgentKept(t *testing.T) {
	failed := pipeline.Final{Result: verdict.Result{Status: verdict.StatusFailed, Outcome: verdict.NoCandidate, Reason: verdict.AgentFailed}}
	for name, tt := range map[string]struct {
		kept    pipeline.Final
		stopped bool
		total   int
	}{
		"worked":  {pipeline.Final{Result: verdict.Result{Status: verdict.StatusPassed, Outcome: verdict.Passed}}, false, 9},
		"failed":  {failed, true, 5},
		"pending": {pipeline.Final{Result: verdict.Result{Status: verdict.StatusPending, Outcome: verdict.Pending}}, true, 6},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(context.Context, *sandboxtest.Process) int { return 1 })
			tt.kept.TaskID, tt.kept.Attempt = "kept", 1
			b.cfg.Workers, b.cfg.Kept = 1, []pipeline.Final{tt.kept}
			var tasks []task.Task
			for i := range 8 {
				tasks = append(tasks, question(t, fmt.Sprintf("t%d", i), fmt.Sprintf("q%d", i), `"4"`))
			}
			sum, err := b.run(t.Context(), tasks...)
			if _, ok := errors.AsType[*pipeline.BrokenAgentError](err); ok != tt.stopped || sum.Total != tt.total {
				t.Errorf("stopped %t after %d: %v", ok, sum.Total, err)
			}
		})
	}
}

// TestBrokenAgentFew: a run of fewer attempts, all of whose agents fail, ends in
// the same way.
func TestBrokenAgentFew(t *testing.T) {
	failed := pipeline.Final{TaskID: "kept", Attempt: 1, Result: verdict.Result{Status: verdict.StatusFailed, Outcome: verdict.NoCandidate, Reason: verdict.AgentFailed}}
	worked := pipeline.Final{TaskID: "kept", Attempt: 1, Result: verdict.Result{Status: verdict.StatusPassed, Outcome: verdict.Passed}}
	many := func(n int) (out []pipeline.Final) {
		for i := range n {
			f := failed
			f.Attempt = i + 1
			out = append(out, f)
		}
		return out
	}
	const message = "the agent ended with exit code 1 and left no candidate; its standard error is empty"
	for name, tt := range map[string]struct {
		tasks   int
		keep    bool
		kept    []pipeline.Final
		pending bool
		want    string // "" for none
	}{
		"one":                           {tasks: 1, want: "the only agent of the run failed without a candidate; task t0: " + message},
		"three":                         {tasks: 3, want: "all 3 agents of the run failed without a candidate; task t2: " + message},
		"three, and one stays pending":  {tasks: 3, pending: true, want: "all 3 agents of the run failed without a candidate; task t2: " + message},
		"three, to be scored":           {tasks: 3, keep: true},
		"one more than before":          {tasks: 1, kept: many(2), want: "all 3 agents of the run failed without a candidate; task t0: " + message},
		"none more than before":         {kept: many(7), want: "all 7 agents of the run failed without a candidate; task kept"},
		"many before, which were kept":  {tasks: 3, kept: many(6), want: "the agents of the first 7 attempts all failed without a candidate; task t0: " + message},
		"one worked before":             {tasks: 3, kept: []pipeline.Final{worked}},
		"nothing but a pending attempt": {pending: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(context.Context, *sandboxtest.Process) int { return 1 })
			b.cfg.Workers, b.cfg.KeepGoing, b.cfg.Kept = 1, tt.keep, tt.kept
			var tasks []task.Task
			if tt.pending {
				tasks = append(tasks, newTask(t, "later", "terminal_task", nil, nil))
			}
			for i := range tt.tasks {
				tasks = append(tasks, question(t, fmt.Sprintf("t%d", i), fmt.Sprintf("q%d", i), `"4"`))
			}
			_, err := b.run(t.Context(), tasks...)
			broken, ok := errors.AsType[*pipeline.BrokenAgentError](err)
			switch {
			case ok != (tt.want != "") || !ok && err != nil:
				t.Errorf("it ended with %v", err)
			case ok && broken.Error() != tt.want:
				t.Errorf("%q, want %q", broken, tt.want)
			}
		})
	}
}

// TestUnanswered: a run stops when the agents of its first attempts asked a model
// and none got an answer, whatever they printed. Attempts that stay pending for that
// count, but do not make a short run one that was not signed.
func TestUnanswered(t *testing.T) {
	unanswered := verdict.AnswersOf(map[string]int64{"answers": 0, "relay_refusals": 2})
	wrong := pipeline.Final{Result: verdict.Result{Status: verdict.StatusFailed, Outcome: verdict.Failed, Reason: verdict.WrongAnswer}}
	outage := pipeline.Final{Result: verdict.Result{Status: verdict.StatusPending, Outcome: verdict.Infrastructure}}
	for name, tt := range map[string]struct {
		kept    pipeline.Final
		answers verdict.Answers
		n       int
		stopped bool
		says    string
	}{
		"none answered":         {wrong, unanswered, 4, true, "the agents of the first 5 attempts all failed without a candidate, or asked a model and got no answer"},
		"an outage":             {outage, unanswered, 4, true, "the agents of the first 5 attempts all"},
		"answered":              {wrong, verdict.AnswersOf(map[string]int64{"answers": 1, "requests": 3, "relay_refusals": 1}), 4, false, ""},
		"asks nothing":          {wrong, verdict.AnswersOf(map[string]int64{"answers": 0, "requests": 0}), 4, false, ""},
		"of a former version":   {wrong, verdict.AnswersOf(map[string]int64{"requests": 3}), 4, false, ""},
		"pending for its pack":  {outage, verdict.Answers{}, 4, false, ""},
		"one of few has failed": {wrong, unanswered, 2, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(_ context.Context, p *sandboxtest.Process) int {
				if tt.stopped {
					return 1
				}
				fmt.Fprint(p.Stdout, "5")
				return 0
			})
			b.cfg.Workers = 1
			for i := range tt.n {
				kept := tt.kept
				kept.TaskID, kept.Attempt, kept.Answers = "kept", i+1, tt.answers
				b.cfg.Kept = append(b.cfg.Kept, kept)
			}
			_, err := b.run(t.Context(), question(t, "t0", "q0", `"4"`), question(t, "t1", "q1", `"4"`))
			broken, ok := errors.AsType[*pipeline.BrokenAgentError](err)
			if ok != tt.stopped || !ok && err != nil || ok && !strings.HasPrefix(broken.Error(), tt.says) {
				t.Errorf("stopped %t: %v", ok, err)
			}
		})
	}
}
