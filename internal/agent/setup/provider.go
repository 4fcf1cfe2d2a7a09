package setup

import (
	"context"
	"errors"
	"strings"

	"securebench/internal/agent/harness"
	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/gateway/allowance"
	"securebench/internal/gateway/relay"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
)

// Provider is a provider of models, as this process asks it. A run may have several,
// each with a key and settings of its own.
type Provider struct {
	Around
	Who      string // asks it, such as "codex harness"
	Section  config.Harness
	Settings harness.Relay
	// KeyOptional says that it may want no key.
	KeyOptional bool

	key   string
	total *allowance.Allowance // once something is asked for it
}

// Total is what all attempts of the run may use, of a shard an equal share; nil is no
// bound.
func (p *Provider) Total() *allowance.Allowance {
	if p.total == nil {
		p.total = allowance.New(allowance.Amount(p.Settings.Total).Share(p.Shards))
	}
	return p.total
}

// Accounts opens the accounts of a run's attempts, and counts what an earlier part of it
// has used.
func (p *Provider) Accounts(on Ground) (*record.Accounts, error) {
	accounts, used, err := on.Answers.Accounts(on.Dir, on.Used)
	if err == nil {
		p.Total().Add(allowance.Counted(used))
	}
	return accounts, err
}

// ReadKey takes the key from the environment or the env file. It stays in this
// process.
func (p *Provider) ReadKey() error {
	name := p.Settings.KeyEnv
	key := strings.TrimSpace(p.Getenv(name))
	if key == "" && p.KeyOptional {
		return nil
	}
	if key == "" {
		return fault.Errorf(fault.Config, "%s: the %s needs the key of its provider: set %s in the environment or in the env file", p.Section.Pos, p.Who, name)
	}
	if len(key) >= redact.MinKey { // or else it is known not to be redacted
		if err := p.Secrets.Add(name, []byte(key)); err != nil {
			return fault.Errorf(fault.Config, "%s: %w", p.Section.Pos, err)
		}
	}
	p.key = key
	return nil
}

// Key returns the key, "" if none was read.
func (p *Provider) Key() string { return p.key }

// Reach sees that there is a key, and a provider to use it with.
func (p *Provider) Reach(ctx context.Context) error {
	if p.key == "" { // which a run that is resumed can do without
		if err := p.ReadKey(); err != nil {
			return err
		}
	}
	if p.Transport != nil {
		return nil
	}
	err := relay.Reach(ctx, p.Settings.BaseURL)
	if errors.Is(err, relay.ErrUnreachable) {
		err = fault.Errorf(fault.Infrastructure, "%s: %w (check the base URL, the network and the proxy variables)", p.Section.At("base_url"), err)
	}
	return fault.As(fault.Config, err)
}

// Relay returns the way of agents in sandboxes to the provider.
func (p *Provider) Relay() (*relay.Relay, error) {
	s, key := p.Settings, p.key
	cfg := relay.Config{API: relay.API(s.API), BaseURL: s.BaseURL, Key: func() string { return key }, Model: s.Model, SmallModel: s.SmallModel,
		AllowExternalTools: s.AllowExternalTools, Transport: p.Transport, Notice: p.Warn,
		Total: p.Total(), Budget: relay.Budget{Requests: s.Requests, Tokens: s.Tokens, Cost: s.Cost}, Prices: map[string]relay.Price{}}
	for _, api := range s.Also {
		cfg.Also = append(cfg.Also, relay.API(api))
	}
	for model, price := range s.Prices {
		cfg.Prices[model] = relay.Price(price)
	}
	r, err := relay.New(cfg)
	if err != nil {
		return nil, fault.Errorf(fault.Config, "%s: %w", p.Section.Pos, err)
	}
	return r, nil
}
