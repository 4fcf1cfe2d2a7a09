package harness

import (
	"maps"
	"slices"
	"strings"

	"securebench/internal/agent/catalogue"
)

// aliased is the harness of an agent whose models can be aliases.
type aliased struct{ *agent }

// smallModel reads the model for small matters. It is never resolved, so it cannot be
// an alias.
func (p *parser) smallModel(of catalogue.Models) string {
	s := p.model("small_model", "")
	if n, what := p.get("small_model"); slices.Contains(slices.Concat(of.Aliases, of.Choices), strings.ToLower(s)) {
		p.ps.Add(n.Pos, "write the full name, such as claude-haiku-4-5", "%s is the alias %q", what, s)
	}
	return s
}

// Alias returns the model, if it is not a full name.
func (a *aliased) Alias() string {
	if a.alias != "" || strings.HasPrefix(a.relay.Model, a.Models.Names) {
		return ""
	}
	return a.relay.Model
}

// Means reports whether a model has the name of the alias in its own, as all but
// those have that stand for a choice.
func (a *aliased) Means(model string) bool {
	alias := strings.ToLower(a.relay.Model)
	if slices.Contains(a.Models.Choices, alias) {
		return strings.HasPrefix(model, a.Models.Names)
	}
	return strings.Contains(strings.ToLower(model), alias)
}

// Pinned returns the harness with the full name of its model.
func (a *aliased) Pinned(model string) Harness {
	b := *a.agent
	b.alias, b.relay.Model = b.relay.Model, model
	b.relay.Prices = maps.Clone(b.relay.Prices)
	if price, ok := b.relay.Prices[b.alias]; ok {
		b.relay.Prices[model] = price
	}
	return &aliased{&b}
}

// Ran returns the harness with the version of the program that runs.
func (a *aliased) Ran(version string) Harness {
	b := *a.agent
	b.ran = version
	return &aliased{&b}
}

// Probe plans a run without a task, whose first request names the model.
func (a *aliased) Probe() Plan {
	p := Plan{Workdir: a.home(), Metadata: map[string]any{"harness": a.Name()}}
	b := *a.agent
	b.files, b.added.Servers = nil, nil // which it does not need to name its model
	b.run(&p, "Answer with the word OK.")
	for _, variable := range a.Models.Probe {
		p.Env = append(p.Env, a.values("").Text(variable))
	}
	p.Domains, p.Private = nil, nil
	return p
}
