package kinds

import (
	"context"
	"errors"
	"fmt"

	"securebench/internal/agent"
	"securebench/internal/agent/harness"
	"securebench/internal/agent/model"
	"securebench/internal/agent/setup"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/gateway/relay"
	"securebench/internal/pipeline/pack"
	"securebench/internal/scoring"
	"securebench/internal/task"
	"securebench/internal/workload"
)

// asked is a model that is asked from this process, without a sandbox.
type asked struct {
	*configured
	client *model.Client // nil until it is prepared
	files  *pack.Public  // likewise; nil is none
	// examples are shown before questions about tasks of a family.
	examples map[string][]harness.Turn
}

// openModel sets up an agent that only asks a model.
func openModel(h harness.Harness) setup.Opener {
	return func(a setup.Around) (setup.Agent, error) {
		c, err := configure(h, a)
		if err != nil {
			return nil, err
		}
		return &asked{configured: c}, nil
	}
}

func (m *asked) Demands() workload.Demands {
	check := agent.Answerable(m.harness)
	var shots *workload.Shots
	if n := m.needs.Model.Shots; n > 0 {
		shots = &workload.Shots{Count: n, Fits: func(v task.AgentView) bool { return harness.Shows(m.harness, v) }}
	}
	return workload.Demands{Shots: shots, Image: family.Family.RunsIn, Task: func(row pack.Row, t task.Task) error {
		if err := check(t.Agent()); err != nil {
			return err
		}
		return agent.Attachable(row.Public(), t.Agent())
	}}
}

// Loaded puts the examples into words, as the questions are.
func (m *asked) Loaded(_ context.Context, w *workload.Workload) error {
	m.examples = map[string][]harness.Turn{}
	for _, name := range w.Families.Names() {
		for _, x := range w.Examples().Of(name) {
			plan, err := m.harness.Plan(x.View)
			if err != nil {
				return fault.As(fault.Pack, fmt.Errorf("showing the task %q as an example: %w", x.View.ID(), err))
			}
			answer := x.Solution
			if choices := plan.Question.Choices; choices != nil {
				if answer = labelled(choices, answer); answer == "" {
					return fault.Errorf(fault.Pack, "showing the task %q as an example: its solution is no label of a choice", x.View.ID())
				}
			}
			m.examples[name] = append(m.examples[name], harness.Turn{User: plan.Question.User, Assistant: answer})
		}
	}
	return nil
}

// labelled returns the choice with a label, "" if there is none.
func labelled(choices []string, label string) string {
	for i, c := range choices {
		if label == string(rune('A'+i)) {
			return c
		}
	}
	return ""
}

// Prepare sees that the provider has the model.
func (m *asked) Prepare(ctx context.Context, _ setup.Ground) error {
	err := m.provider.Reach(ctx)
	if err != nil {
		return err
	}
	m.client, err = model.Open(ctx, model.Config{Settings: *m.needs.Model, Keys: m.provider.Access(), Total: m.provider.Total(), Paces: m.Paces, Transport: m.Transport, Notice: m.Warn})
	if errors.Is(err, relay.ErrRejected) {
		return fault.Errorf(fault.Config, "%s: %w (check the model, the base URL and the key)", m.Config.Harness.At("model"), err)
	}
	if errors.Is(err, model.ErrNoLikelihoods) {
		return fault.Errorf(fault.Config, "%s: %w (answer_by: %s needs /v1/completions with echo and logprobs, which vLLM and llama-cpp-python have, and llama.cpp's own server and Ollama do not)",
			m.Config.Harness.At("answer_by"), err, m.needs.Model.AnswerBy)
	}
	return fault.As(fault.Config, err)
}

// Agent returns what asks the model, and keeps what it answers with the run.
func (m *asked) Agent(on setup.Ground) (agent.Agent, error) {
	answers, err := on.Answers.Open(on.Dir)
	if err != nil {
		return nil, err
	}
	if m.files, err = on.Work.OpenPublic(); err != nil {
		return nil, fault.As(fault.Pack, err)
	}
	if m.client != nil { // else no question is left
		accounts, err := m.provider.Accounts(on)
		if err != nil {
			return nil, err
		}
		m.client.Keep(answers, accounts)
	}
	return &agent.Model{Harness: m.harness, Client: m.client, Limit: m.Config.Limits.Produce, Secrets: m.Secrets, Bounds: scoring.Bounds(m.Config.Limits),
		Files: m.files, Expect: on.Work.PublicFiles, Examples: m.shown()}, nil
}

// shown returns the examples by family, nil if the operator wants none.
func (m *asked) shown() func(string) []harness.Turn {
	if m.needs.Model.Shots == 0 {
		return nil
	}
	return func(family string) []harness.Turn { return m.examples[family] }
}

// Close closes the pack's files.
func (m *asked) Close() error { return m.files.Close() }

// Facts adds how many questions are asked at the same time: they use nothing of this
// machine while they wait.
func (m *asked) Facts() setup.Facts {
	f := m.configured.Facts()
	if by := m.needs.Model.AnswerBy; by != "" {
		f.Labels = append(f.Labels, by)
	}
	f.Asking.First, f.Asking.Once, f.Asking.MaxTokens = m.question, true, m.needs.Model.MaxTokens
	f.Workers, f.WorkersWhy = 8, "the default for a model, which is only waited for"
	return f
}

// question is how long the question about a task is, and how many files it has.
func (m *asked) question(v task.AgentView) (bytes, files int) {
	p, err := m.harness.Plan(v)
	if err != nil {
		return payload(v) // which the run refuses
	}
	p.Question.Examples = m.examples[v.Family()]
	return p.Question.Size(), len(v.Assets())
}
