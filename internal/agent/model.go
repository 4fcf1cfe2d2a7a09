package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/model"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/produce"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/trajectory"
	"securebench/internal/verdict"
)

// ErrForm is wrapped by the error of a [Production] whose provider sends what can be no
// answer.
var ErrForm = model.ErrForm

// Model asks a model from this process instead of running a program in a sandbox.
// What it answers is captured like the standard output of a program.
type Model struct {
	Harness harness.Harness
	Client  *model.Client
	// Limit is the operator's on the time of a question; 0 means none.
	Limit   time.Duration
	Secrets *redact.Registry // redacted in what the model answers
	Bounds  Bounds
	// Files are the pack's public files, and Expect their digests when it was loaded.
	Files  fs.FS
	Expect map[string]string
	// Examples returns the solved examples for tasks of a family; nil has none.
	Examples func(family string) []harness.Turn
}

var _ Agent = (*Model)(nil)

// Name returns the harness's name.
func (m *Model) Name() string { return m.Harness.Name() }

// Sandboxed is false.
func (m *Model) Sandboxed() bool { return false }

// Prepare plans the question.
func (m *Model) Prepare(_ context.Context, req Request, out Output) (Production, error) {
	plan, err := m.Harness.Plan(req.View)
	if err != nil {
		return nil, fmt.Errorf("planning the %s harness: %w", m.Name(), err)
	}
	if plan.Question == nil {
		return nil, fmt.Errorf("the %s harness asks nothing", m.Name())
	}
	if m.Examples != nil {
		plan.Question.Examples = m.Examples(req.View.Family())
		plan.Metadata["few_shot"] = len(plan.Question.Examples)
	}
	if plan.Question.Parts, err = m.parts(plan.Question.User, req.View); err != nil {
		return nil, err
	}
	return &asked{model: m, request: req, out: out, plan: plan}, nil
}

// Answerable returns a check that refuses tasks that a harness of a model cannot
// ask about, each family once.
func Answerable(h harness.Harness) func(task.AgentView) error {
	seen := map[string]bool{}
	return func(v task.AgentView) error {
		_, err := h.Check(v)
		if err == nil || seen[v.Family()] {
			return nil
		}
		seen[v.Family()] = true
		return err
	}
}

// Repeatable reports whether what an agent makes can be had again at no cost.
func Repeatable(a Agent) bool {
	_, asks := a.(*Model)
	return !asks && !a.Sandboxed()
}

// asked is one question.
type asked struct {
	model   *Model
	request Request
	out     Output
	plan    harness.Plan
}

// Run asks the model.
func (p *asked) Run(ctx context.Context) (produce.Result, error) {
	limit := p.plan.TimeLimit(p.model.Limit)
	var say io.WriteCloser = discard{io.Discard}
	if p.out.Observe != nil {
		say = p.out.Observe("stdout")
	}
	q := model.Question{Question: *p.plan.Question, Task: p.request.View.ID(), Attempt: p.request.Attempt, Used: p.request.Used}
	var w weighing
	var err error
	if q.Choices != nil {
		if w, err = p.weigh(ctx, q, limit); err == nil {
			_, err = io.WriteString(say, w.Text+"\n")
		}
	} else {
		w.Result, err = p.model.Client.Ask(ctx, q, limit, say)
	}
	res := w.Result
	err = errors.Join(err, say.Close())
	usage := p.model.Client.Counts(res)
	raw, rawErr := p.exchange(q, w)
	if err := errors.Join(err, rawErr); err != nil {
		return produce.Result{Raw: raw, Usage: usage}, fmt.Errorf("asking the model: %w", err)
	}
	m := verdict.NewMetadata(map[string]any{"candidate_kind": p.plan.Extract.Kind, "candidate_extraction": p.plan.Extract.Mode})
	for name, v := range p.plan.Metadata {
		m.Set(name, v)
	}
	describe(m, res)
	if w.sums != nil {
		m.Set("choice_loglikelihoods", w.sums)
	}
	return produce.Result{Outcome: sandbox.Outcome{End: end(res.End), StdoutBytes: int64(len(res.Text))}, Timeout: limit, Ran: res.Asked(),
		Stdout: []byte(res.Text), Extract: p.plan.Extract, Target: harness.MountTarget(p.request.View), Metadata: m, Usage: usage, Raw: raw, Refusal: res.Why}, nil
}

// describe adds what is known of an answer.
func describe(m verdict.Metadata, res model.Result) {
	for name, text := range map[string]string{"model_answered": res.Model, verdict.StopKey: res.Stop} {
		if text != "" {
			m.Set(name, text)
		}
	}
	if held := res.Waited + res.Queued; held > 0 {
		m.Set("held_seconds", held.Seconds())
	}
	if res.Spent.Guessed {
		m.Set("usage_estimated", true)
	}
	if res.Replaced {
		m.Set("invalid_utf8_replaced", true)
	}
	if res.Reused {
		m.Set("answered_before_resume", true)
	}
}

// end says how a question ended as an agent's sandbox would.
func end(e model.End) sandbox.End {
	switch e {
	case model.TimedOut:
		return sandbox.TimedOut
	case model.OverBudget:
		return produce.OverBudget
	case model.Refused:
		return produce.Refused
	}
	return sandbox.Exited
}

// exchange is the question and its answer for the operator, with digests of files.
func (p *asked) exchange(q model.Question, w weighing) (map[string][]byte, error) {
	res := w.Result
	said := map[string]any{"system": q.System, "user": q.User, "attempt": q.Attempt, "answer": res.Answer, "requests": res.Tries}
	if len(q.Tools) > 0 {
		said["tools"] = q.Tools
	}
	if q.Choices != nil {
		said["choices"], said["loglikelihoods"] = q.Choices, w.sums
	}
	if len(q.Examples) > 0 {
		said["examples"] = q.Examples
	}
	if files := q.Files(); len(files) > 0 {
		said["files"] = files
	}
	line, err := json.Marshal(said, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("keeping the exchange with the model: %w", err)
	}
	raw := map[string][]byte{"exchanges.jsonl": append(redact.ASCII(line), '\n'), trajectory.File: stepsOf(q, res, p.model.Secrets)}
	if p.model.Secrets != nil {
		for name, content := range raw {
			raw[name] = p.model.Secrets.Bytes(content)
		}
	}
	return raw, nil
}

// Capture takes the answer.
func (p *asked) Capture(ctx context.Context, ran produce.Result) (capture.Result, error) {
	stage := capture.Stage{Secrets: p.model.Secrets, Sink: p.out.Sink}
	return stage.Capture(ctx, p.model.Bounds.Request(ran), nil)
}

// Command returns nothing.
func (*asked) Command() Command { return Command{} }

// Close does nothing.
func (*asked) Close(context.Context) error { return nil }

// discard is a stream that is not read.
type discard struct{ io.Writer }

// Close does nothing.
func (discard) Close() error { return nil }
