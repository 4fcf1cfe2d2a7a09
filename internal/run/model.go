package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"securebench/internal/fault"
	"securebench/internal/gateway/relay"
	"securebench/internal/model"
	"securebench/internal/pipeline/agent"
	"securebench/internal/pipeline/pack"
	"securebench/internal/scoring"
	"securebench/internal/task"
)

// modelWorkers is how many questions are asked at the same time unless the
// operator says so: they use nothing of this machine while they wait.
const modelWorkers = 8

// asks reports whether a model is asked from this process, without a sandbox.
func (r *Run) asks() bool { return r.needs().Model != nil }

// answerable refuses tasks that a model cannot answer, each family once.
func (r *Run) answerable() func(pack.Row, task.Task) error {
	seen := map[string]bool{}
	return func(_ pack.Row, t task.Task) error {
		_, err := r.Harness.Check(t.Agent())
		if err == nil || seen[t.Family()] {
			return nil
		}
		seen[t.Family()] = true
		return err
	}
}

// openModel makes the client of the model, and sees that the provider has it.
func (r *Run) openModel(ctx context.Context) (err error) {
	cfg := model.Config{Settings: *r.needs().Model, Key: r.providerKey, Transport: r.Transport, Notice: r.warn}
	if r.client, err = model.New(cfg); err != nil {
		return fault.As(fault.Config, fmt.Errorf("%s: %w", r.Config.Harness.Pos, err))
	}
	err = r.client.Check(ctx)
	if errors.Is(err, relay.ErrRejected) {
		return fault.Errorf(fault.Config, "%s: %w (check harness.config.model, base_url and the key)", r.at("model"), err)
	}
	return err
}

// modelAgent returns the agent that asks the model.
func (r *Run) modelAgent() (agent.Agent, error) {
	file, err := r.dir.Answers()
	if err != nil {
		return nil, classify(err)
	}
	salt := r.dir.Salt()
	r.journal, err = model.OpenJournal(file, func(key string, answer []byte) string { return salt.Keyed("answer", key, answer) })
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if r.client != nil { // else no question is left
		r.client.Keep(r.journal)
	}
	return &agent.Model{Harness: r.Harness, Client: r.client, Limit: r.Config.Limits.Produce, Secrets: &r.secrets, Bounds: scoring.Bounds(r.Config.Limits)}, nil
}

// scheduleQuestions decides how many questions are asked at the same time.
func (r *Run) scheduleQuestions(ctx context.Context) (err error) {
	cfg := *r.Config
	cfg.MaxWorkers = cmp.Or(cfg.MaxWorkers, modelWorkers)
	r.plan, err = r.scorer.Plan(ctx, r.work, &cfg)
	if err == nil && r.Config.MaxWorkers == 0 {
		r.plan.Why = "the default for a model, which is only waited for"
	}
	return err
}
