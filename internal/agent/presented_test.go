package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// steps is an agent that does something else for each presentation, and notes what it was
// given and how many of its productions are open.
type steps struct {
	says []step
	seen []agent.Request
	open int
}

// step is what comes of one presentation.
type step struct {
	text  string
	end   sandbox.End
	stop  string
	used  int64
	ran   time.Duration
	fails bool
}

func (*steps) Name() string    { return "steps" }
func (*steps) Sandboxed() bool { return true }

func (s *steps) Prepare(_ context.Context, req agent.Request, out agent.Output) (agent.Production, error) {
	if s.open > 0 {
		return nil, errors.New("the former presentation is still open")
	}
	s.seen = append(s.seen, req)
	s.open++
	return &stepping{steps: s, step: s.says[len(s.seen)-1], out: out, limit: req.View.Environment().Timeout}, nil
}

type stepping struct {
	*steps
	step  step
	out   agent.Output
	limit time.Duration
}

func (p *stepping) Run(context.Context) (produce.Result, error) {
	m := verdict.NewMetadata(map[string]any{"said": p.step.text})
	if p.step.stop != "" {
		m.Set(verdict.StopKey, p.step.stop)
	}
	res := produce.Result{Outcome: sandbox.Outcome{End: sandbox.Exited}, Timeout: p.limit, Ran: p.step.ran, Stdout: []byte(p.step.text),
		Extract: task.Extraction{Mode: task.FromStdout, Kind: task.Text}, Metadata: m,
		Usage: map[string]int64{"requests": p.step.used}, Raw: map[string][]byte{"exchanges.jsonl": []byte(p.step.text + "\n")}}
	if p.step.end != "" {
		res.Outcome.End = p.step.end
	}
	if p.step.fails {
		return res, errors.New("the engine is gone")
	}
	return res, nil
}

func (p *stepping) Capture(ctx context.Context, ran produce.Result) (capture.Result, error) {
	return capture.Stage{Sink: p.out.Sink}.Capture(ctx, agent.Bounds{}.Request(ran), nil)
}

func (*stepping) Command() agent.Command { return agent.Command{Argv: []string{"say"}} }

func (p *stepping) Close(context.Context) error {
	p.open--
	return nil
}

// shown is a request about a task that has two presentations.
func shown(t *testing.T) agent.Request {
	t.Helper()
	tk, err := task.New(task.Config{ID: "q", Family: "f", Pack: task.Pack{ID: "p"}, Environment: task.Environment{Timeout: time.Minute},
		Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text}, Resources: []task.Resource{{Name: "a", Lane: task.Public, Value: jsontext.Value(`"x"`)}}})
	if err != nil {
		t.Fatal(err)
	}
	written := tk.Agent().Presented(nil, "mark1")
	turned := tk.Agent().Presented(map[string]jsontext.Value{"a": jsontext.Value(`"y"`)}, "mark2")
	return agent.Request{View: tk.Agent(), Attempt: 1, Shown: []*task.AgentView{&written, &turned}}
}

// produced runs a production to its end, and returns the candidate as text.
func produced(t *testing.T, a agent.Agent, req agent.Request) (string, produce.Result, capture.Result, error) {
	t.Helper()
	store, err := candidate.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	p, err := agent.Prepare(t.Context(), a, req, agent.Output{Sink: store})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Command().Argv; fmt.Sprint(got) != "[say]" {
		t.Errorf("it runs %v", got)
	}
	defer func() {
		if err := errors.Join(p.Close(t.Context()), p.Close(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	ran, err := p.Run(t.Context())
	if err != nil {
		return "", ran, capture.Result{}, err
	}
	if s, ok := p.(agent.Standing); !ok || !s.Standing(t.Context()) {
		t.Error("its texts are not here any more")
	}
	var list string
	var left capture.Result
	for range 2 { // a capture can be repeated
		left, err = p.Capture(t.Context(), ran)
		if err != nil || left.Candidate == nil {
			return "", ran, left, err
		}
		c, err := store.Find(*left.Candidate)
		if err != nil {
			t.Fatal(err)
		}
		data, err := c.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		list = string(data)
	}
	return list, ran, left, nil
}

// TestPresentations: each presentation has a production of its own, after the one before
// it is closed, with what is left of time and budget; the texts are one candidate.
func TestPresentations(t *testing.T) {
	a := &steps{says: []step{{text: "one", used: 2, ran: 20 * time.Second, stop: "length"}, {text: "two \"é\"", used: 3, ran: time.Second, stop: "stop"}}}
	list, ran, left, err := produced(t, a, shown(t))
	if err != nil || list != `["one","two \"é\""]` || left.Candidate.Kind != task.Text || left.Candidate.Origin != candidate.Stdout {
		t.Fatalf("%s, %+v, %v", list, left.Candidate, err)
	}
	first, second := a.seen[0], a.seen[1]
	if x, _ := second.View.Get("a"); string(x.Value) != `"y"` || first.View.Mark() != "mark1" || second.View.Mark() != "mark2" || second.Shown != nil {
		t.Errorf("the second presentation is %+v", second.View)
	}
	if got := []time.Duration{first.View.Environment().Timeout, second.View.Environment().Timeout}; got[0] != time.Minute || got[1] != 40*time.Second {
		t.Errorf("the presentations have %v, want a minute together", got)
	}
	if len(first.Used) != 0 || second.Used["requests"] != 2 {
		t.Errorf("the attempt had used %v and %v", first.Used, second.Used)
	}
	if ran.Usage["requests"] != 5 || string(ran.Stdout) != "onetwo \"é\"" || string(ran.Raw["exchanges.jsonl"]) != "one\ntwo \"é\"\n" || ran.Timeout != time.Minute {
		t.Errorf("together: %+v", ran)
	}
	if got := ran.Metadata.Text(verdict.StopKey); !verdict.CutOff(got) {
		t.Errorf("one text was cut off, and the stop reason is %q", got)
	}
	if got := string(ran.Metadata["presentations"]); !strings.Contains(got, `"said":"one"`) || !strings.Contains(got, `"stop_reason":"stop"`) {
		t.Errorf("the presentations are %s", got)
	}
	if a.open != 0 {
		t.Errorf("%d are open", a.open)
	}
}

// TestOnePresentation: one that is not made has null.
func TestOnePresentation(t *testing.T) {
	req := shown(t)
	req.Shown[0] = nil
	if list, _, _, err := produced(t, &steps{says: []step{{text: "two"}}}, req); err != nil || list != `[null,"two"]` {
		t.Errorf("%s, %v", list, err)
	}
}

// TestMissingText: where one presentation leaves no text, the attempt has no candidate,
// and no further one is made.
func TestMissingText(t *testing.T) {
	tests := map[string]struct {
		says   []step
		made   int
		limit  sandbox.End
		reason verdict.Reason
	}{
		"the first ran out of time": {[]step{{text: "A", end: sandbox.TimedOut}}, 1, sandbox.TimedOut, ""},
		"no time is left":           {[]step{{text: "A", ran: time.Minute}}, 1, sandbox.TimedOut, ""},
		"the second has no budget":  {[]step{{text: "A"}, {text: "", end: produce.OverBudget}}, 2, produce.OverBudget, ""},
		"the first is no text":      {[]step{{text: "\xff"}}, 1, "", verdict.InvalidUTF8},
		"the second is too long":    {[]step{{text: "A"}, {text: strings.Repeat("x", candidate.DefaultLimit+1)}}, 2, "", verdict.CandidateTooLarge},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := &steps{says: tt.says}
			list, _, left, err := produced(t, a, shown(t))
			if err != nil || list != "" || left.Candidate != nil || left.Limit != tt.limit || len(a.seen) != tt.made {
				t.Errorf("%q, %+v, %v after %d presentations", list, left, err, len(a.seen))
			}
			if tt.reason != "" && (left.Rejection == nil || left.Rejection.Reason != tt.reason || !strings.Contains(left.Rejection.Message, "(presentation ")) {
				t.Errorf("it is rejected: %+v", left.Rejection)
			}
		})
	}
}

// TestFailedPresentation: what a presentation before the failure has used is counted.
func TestFailedPresentation(t *testing.T) {
	a := &steps{says: []step{{text: "A", used: 2}, {used: 3, fails: true}}}
	_, ran, _, err := produced(t, a, shown(t))
	if err == nil || ran.Usage["requests"] != 5 || string(ran.Raw["exchanges.jsonl"]) != "A\n\n" {
		t.Errorf("%+v, %v", ran, err)
	}
}
