package kinds

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/setup"
	"securebench/internal/digest"
	"securebench/internal/fault"
	"securebench/internal/gateway/access"
	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/workload"
)

// configured is what all agents of a harness have in common.
type configured struct {
	setup.Around
	harness  harness.Harness
	needs    harness.Needs
	provider *setup.Provider // nil for none
	keys     *setup.Keys
}

// configure registers the values that must not appear in anything that the run writes:
// providers' keys, and those of forwarded variables whose names look secret. It
// refuses what agents must not get.
func configure(h harness.Harness, a setup.Around) (*configured, error) {
	c := &configured{Around: a, harness: h, needs: h.Needs()}
	section, own := a.Config.Harness, ""
	var opens []string
	if p := c.needs.Provider(); p != nil {
		own, opens = p.KeyEnv, p.Variables()
		c.provider = &setup.Provider{Around: a, Who: h.Name() + " harness", Section: section, Settings: *p}
	}
	c.keys = a.Keys(opens...)
	for _, w := range harness.Warnings(h) {
		a.Warn(w)
	}
	for _, name := range section.Env {
		value, ok := a.LookupEnv(name)
		if !ok || !redact.NamesSecret(name) {
			continue
		}
		if err := a.Secrets.Add(name, []byte(value)); err != nil {
			a.Warn(err.Error())
		}
	}
	if err := c.keys.Refuse(section, own, a.Getenv); err != nil {
		return nil, err
	}
	if err := c.variables(); err != nil {
		return nil, err
	}
	if c.provider == nil || a.Provider != nil { // another process has the key
		return c, nil
	}
	if err := c.provider.ReadKey(); err != nil && !a.Resumes { // which may need none
		return nil, err
	}
	return c, nil
}

// variables warns of forwarded variables that are not set, and refuses to go on
// without those that are required.
func (c *configured) variables() error {
	var errs []error
	h := c.Config.Harness
	for i, name := range h.Env {
		_, ok := c.LookupEnv(name)
		if ok || c.needs.Relay != nil && name == c.needs.Relay.KeyEnv { // without which no run begins
			continue
		}
		at := h.EnvAt(i)
		if slices.Contains(h.Required, name) {
			errs = append(errs, fault.Errorf(fault.Config, "%s: harness.env requires %s, which is not set (set it in the environment or in the env file)", at, name))
			continue
		}
		c.Warn(fmt.Sprintf("%s: harness.env names %s, which is not set: the agent does not get it (set it, or write {name: %s, required: true} to never run without it)", at, name, name))
	}
	return errors.Join(errs...)
}

// Facts returns what the configuration says.
func (c *configured) Facts() setup.Facts {
	h := c.Config.Harness
	f := setup.Facts{Name: c.harness.Name(), Output: c.needs.Output, Env: c.needs.Env,
		Settings: map[string]any{"harness": map[string]any{"type": h.Type, "env": h.Env, "config": settings(h.Config)}}}
	if h.Name != "" { // results depend on how the agent is described
		f.Settings["harness"] = map[string]any{"type": h.Type, "name": h.Name, "version": h.Version.Any(), "env": h.Env, "config": settings(h.Config),
			"description": digest.Bytes(h.Description)}
	}
	if p := c.needs.Provider(); p != nil {
		f.Model, f.Cost, f.Total, f.Connections, f.Spared = p.Model, p.Cost, p.Total, p.Connections, true
		f.Asking = &setup.Asking{First: payload, Most: harness.Budget{Requests: p.Requests, Tokens: p.Tokens, Cost: p.Cost}}
		if price, ok := p.Prices[p.Model]; ok {
			f.Asking.Price = &price
		}
	}
	return f
}

// payload is how long a task is that an agent reads, and how many files it has.
func payload(v task.AgentView) (bytes, files int) {
	bytes = len(v.Instruction())
	for _, r := range v.Payload() {
		bytes += len(r.Value)
	}
	return bytes, len(v.Assets())
}

// settings converts the harness's configuration to the values that JSON uses, without
// what no score depends on: a run that has used its budget goes on with a larger one.
// Headers with values of the environment are there by their names.
func settings(n *source.Node) any {
	if n == nil {
		return nil
	}
	all := n.Any()
	config, _ := all.(map[string]any)
	if budget, ok := config["budget"].(map[string]any); ok {
		if delete(budget, "total"); len(budget) == 0 {
			delete(config, "budget")
		}
	}
	headers, _ := config["headers"].(map[string]any)
	for name, value := range headers {
		if text, ok := value.(string); ok && len(access.Header{Name: name, Text: text}.Variables()) > 0 {
			headers[name] = nil
		}
	}
	delete(config, "allow_plain_http")
	delete(config, "max_connections")
	return all
}

// Loaded has nothing to refuse.
func (*configured) Loaded(context.Context, *workload.Workload) error { return nil }

// Close does nothing.
func (*configured) Close() error { return nil }
