package setup

import (
	"context"
	"errors"
	"fmt"

	"securebench/internal/agent/harness"
	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/gateway/access"
	"securebench/internal/gateway/allowance"
	"securebench/internal/gateway/relay"
	"securebench/internal/pipeline/record"
)

// Provider is a provider of models, as this process asks it. A run may have several,
// each with a key and settings of its own.
type Provider struct {
	Around
	Who      string // asks it, such as "codex harness"
	Section  config.Harness
	Settings harness.Relay

	read  *access.Keys         // nil if it was not read
	total *allowance.Allowance // once something is asked for it
}

// Total is what all attempts of the run may use, of a shard an equal share; nil is no
// bound.
func (p *Provider) Total() *allowance.Allowance {
	if p.total == nil {
		p.total = allowance.New("harness.config.budget.total", allowance.Amount(p.Settings.Total).Share(p.Shards))
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

// ReadKey takes the key, and what else opens the provider, from the environment or the env
// file. It stays in this process.
func (p *Provider) ReadKey() error {
	keys, err := p.Settings.Read(p.Getenv)
	if err == nil {
		err = keys.Hide(p.Secrets, "")
	}
	if err != nil {
		return fault.Errorf(fault.Config, "%s: the %s: %w", p.Section.Pos, p.Who, err)
	}
	if keys.Unsent && p.read == nil {
		p.Notice(fmt.Sprintf("the key in %s is not sent: it would cross the network in plain text (use https, or allow_plain_http: true for a host of a private network)", p.Settings.KeyEnv))
	}
	p.read = &keys
	return nil
}

// Access returns what opens the provider.
func (p *Provider) Access() access.Keys {
	if p.read == nil {
		return access.Keys{}
	}
	return *p.read
}

// Reach sees that there is a key, and a provider to use it with.
func (p *Provider) Reach(ctx context.Context) error {
	if p.read == nil { // which a run that is resumed can do without
		if err := p.ReadKey(); err != nil {
			return err
		}
	}
	to, err := access.New(p.Settings.Address, p.Access())
	if err != nil {
		return fault.Errorf(fault.Config, "%s: %w", p.Section.Pos, err)
	}
	if p.Transport != nil {
		return nil
	}
	err = to.Reach(ctx)
	if errors.Is(err, access.ErrUnreachable) {
		err = fault.Errorf(fault.Infrastructure, "%s: %w (check the base URL, the network and the proxy variables)", p.Section.At("base_url"), err)
	}
	return fault.As(fault.Config, err)
}

// Relay returns the way of agents in sandboxes to the provider.
func (p *Provider) Relay() (*relay.Relay, error) {
	s := p.Settings
	cfg := relay.Config{API: relay.API(s.API), BaseURL: s.BaseURL, PlainHTTP: s.PlainHTTP, Keys: p.Access(), Model: s.Model, SmallModel: s.SmallModel,
		AllowExternalTools: s.AllowExternalTools, Transport: p.Transport, Notice: p.Warn,
		Total: p.Total(), Paces: p.Paces, Connections: s.Connections, Budget: relay.Budget{Requests: s.Requests, Tokens: s.Tokens, Cost: s.Cost}, Prices: map[string]relay.Price{}}
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
