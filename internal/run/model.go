package run

import (
	"cmp"
	"context"
	"errors"

	"securebench/internal/fault"
	"securebench/internal/gateway/relay"
	"securebench/internal/model"
	"securebench/internal/pipeline/agent"
	"securebench/internal/scoring"
)

// modelWorkers is how many questions are asked at the same time unless the
// operator says so: they use nothing of this machine while they wait.
const modelWorkers = 8

// asks reports whether a model is asked from this process, without a sandbox.
func (r *Run) asks() bool { return r.needs().Model != nil }

// openModel sees that the provider has the model.
func (r *Run) openModel(ctx context.Context) (err error) {
	r.client, err = model.Open(ctx, model.Config{Settings: *r.needs().Model, Key: r.providerKey, Transport: r.Transport, Notice: r.warn})
	if errors.Is(err, relay.ErrRejected) {
		return fault.Errorf(fault.Config, "%s: %w (check the model, the base URL and the key)", r.at("model"), err)
	}
	return fault.As(fault.Config, err)
}

// openModelAgent makes the agent that asks the model.
func (r *Run) openModelAgent() (err error) {
	m := &agent.Model{Harness: r.Harness, Client: r.client, Limit: r.Config.Limits.Produce, Secrets: &r.secrets, Bounds: scoring.Bounds(r.Config.Limits)}
	r.agent = m
	r.answers, err = m.Keep(r.dir)
	return classify(err)
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
