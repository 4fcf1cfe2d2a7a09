package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// paid is an agent that costs money whenever it runs.
type paid struct {
	ran, captured atomic.Int32
	failRun       []error // of the first tries
	failCaptures  int32
	gone          int32 // nothing is left after so many captures; 0 is never
}

func (*paid) Name() string    { return "paid" }
func (*paid) Sandboxed() bool { return true }
func (p *paid) Prepare(_ context.Context, _ agent.Request, out agent.Output) (agent.Production, error) {
	return &paidFor{p, out.Sink}, nil
}

type paidFor struct {
	*paid
	sink candidate.Sink
}

func (*paidFor) Command() agent.Command          { return agent.Command{} }
func (*paidFor) Close(context.Context) error     { return nil }
func (p *paidFor) Standing(context.Context) bool { return p.gone == 0 || p.captured.Load() < p.gone }

func (p *paidFor) Run(context.Context) (produce.Result, error) {
	res := produce.Result{Outcome: sandbox.Outcome{End: sandbox.Exited}, Extract: task.Extraction{Mode: task.FromStdout, Kind: task.Text},
		Metadata: verdict.Metadata{}, Usage: map[string]int64{"requests": 2}, Raw: map[string][]byte{"network.jsonl": []byte("asked\n")},
		Labels: []string{produce.NetworkEnabled}}
	n := int(p.ran.Add(1))
	if n <= len(p.failRun) {
		return produce.Result{Raw: res.Raw, Usage: res.Usage}, p.failRun[n-1]
	}
	return res, nil
}

func (p *paidFor) Capture(context.Context, produce.Result) (capture.Result, error) {
	if p.captured.Add(1) <= p.failCaptures {
		return capture.Result{}, errors.New("the engine is busy")
	}
	c, err := p.sink.Put(task.Text, candidate.Stdout, strings.NewReader("4"))
	return capture.Result{Candidate: &c}, err
}

// TestCaptureAloneIsRepeated: an agent that has ended is not paid again as long
// as what it left can be read. One whose workspace is gone has to run again. The
// record counts each run of the agent once, however often its capture fails.
func TestCaptureAloneIsRepeated(t *testing.T) {
	for name, tt := range map[string]struct {
		agent *paid
		ran   int32
		out   verdict.Outcome
	}{
		"works":              {&paid{}, 1, verdict.Passed},
		"fails once":         {&paid{failCaptures: 1}, 1, verdict.Passed},
		"fails twice":        {&paid{failCaptures: 2}, 1, verdict.Passed},
		"fails always":       {&paid{failCaptures: 9}, 1, verdict.Infrastructure},
		"workspace is gone":  {&paid{failCaptures: 1, gone: 1}, 2, verdict.Passed},
		"gone at last":       {&paid{failCaptures: 2, gone: 2}, 2, verdict.Passed},
		"waited enough":      {&paid{failRun: []error{fmt.Errorf("busy: %w", produce.ErrWaited)}}, 1, verdict.Infrastructure},
		"the provider fails": {&paid{failRun: []error{errors.New("busy")}}, 2, verdict.Passed},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, answers)
			b.cfg.Agent = tt.agent
			if _, err := b.run(t.Context(), question(t, "q", "4", `"4"`)); err != nil {
				t.Fatal(err)
			}
			l := b.entries()[0].Line
			if l.Outcome != tt.out || tt.agent.ran.Load() != tt.ran {
				t.Errorf("%s after %d agents, want %s after %d", l.Outcome, tt.agent.ran.Load(), tt.out, tt.ran)
			}
			if want := 2 * int64(tt.ran); l.Usage["requests"] != want {
				t.Errorf("usage %v, want %d requests", l.Usage, want)
			}
			var files []string
			for _, f := range l.Restricted {
				files = append(files, filepath.Base(f.Path))
			}
			if slices.Sort(files); len(files) != int(tt.ran) || files[0] != "agent-network.jsonl" {
				t.Errorf("files %v", files)
			}
			if l.Outcome == verdict.Passed && !slices.Equal(l.Labels, []string{"network_enabled", "unpinned_image"}) {
				t.Errorf("labels %v", l.Labels)
			}
		})
	}
}

// TestRejectedConfigurationEndsTheRun: a provider that rejects the key or the
// model ends the run, without records of what it cut short.
func TestRejectedConfigurationEndsTheRun(t *testing.T) {
	b := newBench(t, answers)
	rejected := fmt.Errorf("%w: status 401", produce.ErrRejected)
	b.cfg.Agent, b.cfg.Workers = &paid{failRun: []error{rejected, rejected, rejected}}, 1
	sum, err := b.run(t.Context(), question(t, "q", "4", `"4"`), question(t, "r", "4", `"4"`), question(t, "s", "4", `"4"`))
	if !errors.Is(err, produce.ErrRejected) || sum.Total != 0 || len(b.entries()) != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
	if n := b.cfg.Agent.(*paid).ran.Load(); n != 1 {
		t.Errorf("%d agents ran", n)
	}
	if b.events.count("retry") != 0 {
		t.Error("the attempt was retried")
	}
}

// TestGatewayEnds: the ends of an agent that are not its sandbox's have their own
// words in the record.
func TestGatewayEnds(t *testing.T) {
	for end, want := range map[sandbox.End][2]string{
		produce.OverBudget: {"limit", "budget"},
		produce.Broken:     {"no_candidate", "agent_failed"},
		produce.Refused:    {"no_candidate", "provider_refused"},
	} {
		b := newBench(t, answers)
		b.cfg.Agent, b.cfg.KeepGoing = &ends{end: end}, true
		if _, err := b.run(t.Context(), question(t, "q", "4", `"4"`)); err != nil {
			t.Fatal(err)
		}
		l := b.entries()[0].Line
		if got := [2]string{string(l.Outcome), string(l.FailureReason)}; got != want || l.Status != verdict.StatusFailed || l.FailurePhase != verdict.PhaseProduce {
			t.Errorf("%s: %v, want %v: %+v", end, got, want, l)
		}
	}
}

// ends is an agent with a given end.
type ends struct {
	paid
	end sandbox.End
}

func (e *ends) Prepare(_ context.Context, _ agent.Request, out agent.Output) (agent.Production, error) {
	return &endsSo{&paidFor{&e.paid, out.Sink}, e.end}, nil
}

type endsSo struct {
	*paidFor
	end sandbox.End
}

func (e *endsSo) Capture(context.Context, produce.Result) (capture.Result, error) {
	return capture.Result{Limit: e.end}, nil
}

// TestCapturedIsSettled: what was captured is on disk before it is verified.
func TestCapturedIsSettled(t *testing.T) {
	b := newBench(t, answers)
	b.cfg.Agent = &paid{}
	var seen []string
	b.cfg.Verifiers = maps.Clone(b.cfg.Verifiers)
	b.cfg.Verifiers["short_answer"] = watching{b.cfg.Verifiers["short_answer"], func() {
		data, err := os.ReadFile(filepath.Join(b.out, "restricted", "captured.jsonl"))
		if err != nil {
			t.Error(err)
		}
		seen = append(seen, string(data))
	}}
	if _, err := b.run(t.Context(), question(t, "q", "4", `"4"`)); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 1 || strings.Count(seen[0], "\n") != 1 || !strings.Contains(seen[0], b.entries()[0].Digests.Candidate) {
		t.Errorf("the file held %q", seen)
	}
}

// watching is a verifier that calls a function before it verifies.
type watching struct {
	family.Verifier
	call func()
}

func (w watching) Open(ctx context.Context, c family.Case) family.Session {
	return watchedSession{w.Verifier.Open(ctx, c), w.call}
}

type watchedSession struct {
	family.Session
	call func()
}

func (w watchedSession) Verify(ctx context.Context, c candidate.Candidate) (family.Verdict, error) {
	w.call()
	return w.Session.Verify(ctx, c)
}
