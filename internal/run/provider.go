package run

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"securebench/internal/fault"
	"securebench/internal/gateway/relay"
	"securebench/internal/gateway/relay/reach"
	"securebench/internal/harness"
	"securebench/internal/pipeline/produce"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/scoring"
	"securebench/internal/source"
)

// joinEngine joins errors, which are the engine's unless they say otherwise.
func joinEngine(errs ...error) error { return fault.As(fault.Engine, errors.Join(errs...)) }

// needs returns what the configured harness needs; a built-in agent needs
// nothing.
func (r *Run) needs() harness.Needs {
	if r.Harness == nil || r.Agent != "" {
		return harness.Needs{}
	}
	return harness.NeedsOf(r.Harness)
}

// readKey takes the provider's key from the environment or the env file. It stays
// in this process.
func (r *Run) readKey() error {
	needs := r.needs()
	rel := needs.Provider()
	if rel == nil {
		return nil
	}
	at, name := r.Config.Harness.Pos, rel.KeyEnv
	key, _ := r.LookupEnv(name)
	switch key = strings.TrimSpace(key); {
	case key == "" && needs.Model != nil && needs.Model.KeyOptional:
		return nil
	case key == "":
		return fault.Errorf(fault.Config, "%s: the %s harness needs the key of its provider: set %s in the environment or in the env file", at, r.Harness.Name(), name)
	}
	if len(key) >= redact.MinKey { // or else it is known not to be redacted
		if err := r.secrets.Add(name, []byte(key)); err != nil {
			return fault.Errorf(fault.Config, "%s: %w", at, err)
		}
	}
	r.providerKey = key
	return nil
}

// prepareAgent prepares what an agent needs beyond its sandbox, before the first
// task.
func (r *Run) prepareAgent(ctx context.Context) error {
	needs := r.needs()
	if p := needs.Provider(); p != nil {
		if err := r.reachProvider(ctx, p.BaseURL); err != nil {
			return err
		}
	}
	if needs.Model != nil {
		return r.openModel(ctx)
	}
	if err := r.own.Prepare(ctx, r.scorer, r.Config.RunID, r.plan.Workers); err != nil {
		return err
	}
	if err := r.prepareImages(ctx, needs.Overlays); err != nil {
		return err
	}
	if needs.Relay == nil {
		return nil
	}
	if a, ok := r.Harness.(harness.Aliaser); ok && a.Alias() != "" {
		model, err := r.model(ctx, a)
		if err != nil {
			return err
		}
		r.Harness = a.Pinned(model)
	}
	var err error
	if r.relay, err = relay.New(r.relayConfig(*r.needs().Relay)); err != nil {
		return fault.As(fault.Config, fmt.Errorf("%s: %w", r.Config.Harness.Pos, err))
	}
	return nil
}

// reachProvider sees that there is a key, and a provider to use it with.
func (r *Run) reachProvider(ctx context.Context, address string) error {
	if r.providerKey == "" { // which a run that is resumed can do without
		if err := r.readKey(); err != nil {
			return err
		}
	}
	if r.Transport != nil {
		return nil
	}
	err := reach.Provider(ctx, address)
	if errors.Is(err, reach.ErrUnreachable) {
		err = fault.Errorf(fault.Infrastructure, "%s: %w (check the base URL, the network and the proxy variables)", r.at("base_url"), err)
	}
	return fault.As(fault.Config, err)
}

// at returns where a key of the harness's configuration stands, or the harness if
// the key is left out.
func (r *Run) at(key string) source.Pos {
	if n := r.Config.Harness.Config.Get(key); n != nil {
		return n.Pos
	}
	return r.Config.Harness.Pos
}

func (r *Run) relayConfig(n harness.Relay) relay.Config {
	key := r.providerKey
	cfg := relay.Config{API: relay.API(n.API), BaseURL: n.BaseURL, Key: func() string { return key }, Model: n.Model, SmallModel: n.SmallModel,
		AllowExternalTools: n.AllowExternalTools, Transport: r.Transport, Notice: r.warn,
		Budget: relay.Budget{Requests: n.Requests, Tokens: n.Tokens, Cost: n.Cost}}
	for model, p := range n.Prices {
		if cfg.Prices == nil {
			cfg.Prices = map[string]relay.Price{}
		}
		cfg.Prices[model] = relay.Price(p)
	}
	return cfg
}

// gateway returns what the run's agents reach.
func (r *Run) gateway() produce.Gateway {
	return produce.Gateway{Relay: r.relay, Proxy: r.Proxy, Overlay: r.programs.Overlay}
}

// model asks the agent's program which model an alias means: it runs in an empty
// sandbox, whose provider notes the model and refuses the request.
func (r *Run) model(ctx context.Context, a harness.Aliaser) (string, error) {
	images := r.agentImages()
	if len(images) == 0 {
		return a.Alias(), nil // nothing is asked
	}
	limits := scoring.Limits(r.Config.Limits)
	limits.Timeout, limits.Output = tryTime, tryOutput
	asked, said, err := r.gateway().Ask(ctx, r.scorer.Engine, produce.Question{Plan: a.Probe(), Image: images[0], Limits: limits,
		Labels: sandbox.Labels{Run: r.Config.RunID, Role: "preflight"}, Besides: harness.ProbeSmallModel})
	if err != nil {
		return "", fault.As(fault.Engine, fmt.Errorf("asking the %s program what the model %s is: %w", r.Harness.Name(), a.Alias(), err))
	}
	if asked == "" {
		return "", fault.Errorf(fault.Config, "%s: the %s program does not say which model %q is; name one in full in harness.config.model (it printed %s)",
			r.Config.Harness.Pos, r.Harness.Name(), a.Alias(), said)
	}
	if !a.Means(asked) { // an image can say what it likes, and models differ in price
		return "", fault.Errorf(fault.Config, "%s: in image %s the %s program asks for the model %s, which %q does not mean; name one in full in harness.config.model",
			r.Config.Harness.Pos, images[0].Ref, r.Harness.Name(), asked, a.Alias())
	}
	return asked, nil
}
