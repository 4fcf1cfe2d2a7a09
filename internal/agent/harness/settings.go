package harness

import (
	"strconv"
	"strings"

	"securebench/internal/gateway/access"
	"securebench/internal/source"
)

// The bounds of amounts, which keep sums of them exact enough.
const (
	maxCount  = 1 << 53
	minCost   = 0.000001 // USD; costs are counted in millionths
	maxAmount = 1e6      // USD
)

// budget reads the bounds on what one attempt, and all of a run together, may use of
// their provider.
func (p *parser) budget(r *Relay) {
	n, what := p.object("budget", "requests", "tokens", "cost", "total")
	if n == nil {
		return
	}
	b := p.bounds(n, what, r)
	r.Requests, r.Tokens, r.Cost = b.Requests, b.Tokens, b.Cost
	total := n.Get("total")
	if total == nil {
		return
	}
	const known = "requests, tokens, cost"
	if what += ".total"; total.Kind != source.Map {
		p.ps.Add(total.Pos, "known: "+known, "%s must be an object, not %s", what, total.Kind)
		return
	}
	p.ps.Closed(total, what, strings.Split(known, ", ")...)
	r.Total = p.bounds(total, what, r)
}

// bounds reads one budget. A cost can be counted only if every model has a price.
func (p *parser) bounds(n *source.Node, what string, r *Relay) (b Budget) {
	if len(n.Fields) == 0 {
		p.ps.Add(n.Pos, "set requests, tokens or cost, or leave "+what[strings.LastIndex(what, ".")+1:]+" out", "%s sets no bound", what)
	}
	const fix = "leave it out for no bound"
	count := func(key string) int64 {
		v := n.Get(key)
		if v == nil {
			return 0
		}
		i, problem := v.Int(what+"."+key, 1, maxCount)
		p.fixed(problem, fix)
		return i
	}
	b.Requests, b.Tokens = count("requests"), count("tokens")
	cost := n.Get("cost")
	if cost == nil {
		return b
	}
	f, problem := cost.Positive(what + ".cost")
	if problem == nil && (f < minCost || f > maxAmount) {
		problem = source.Problemf(cost.Pos, "%s.cost must be from 0.000001 to 1000000 USD", what)
	}
	p.fixed(problem, fix)
	b.Cost = f
	if !p.given("prices") && r.Prices == nil && problem == nil && r.Model != "" {
		p.ps.Add(cost.Pos, "add "+p.section+".prices, or bound requests or tokens instead", "%s.cost needs the price of model %q", what, r.Model)
	}
	return b
}

// maxConnections bounds max_connections.
const maxConnections = 10_000

// connections reads how many requests may be under way at the provider.
func (p *parser) connections(r *Relay) {
	if n, what := p.get("max_connections"); n != nil {
		i, problem := n.Int(what, 1, maxConnections)
		r.Connections = int(i)
		p.fixed(problem, "leave it out for no bound")
	}
}

// prices reads what models cost. Every model of the configuration must be there;
// others may be, so that tester files can share one list.
func (p *parser) prices(r *Relay) {
	n, what := p.get("prices")
	if n == nil {
		return
	}
	if n.Kind != source.Map {
		p.ps.Add(n.Pos, "map a model to its input, cached_input, cache_write and output", "%s must be an object, not %s", what, n.Kind)
		return
	}
	r.Prices = map[string]Price{}
	for _, f := range n.Fields {
		r.Prices[f.Name] = p.price(f.Value, what+"."+f.Name, cacheWrite(r.API))
	}
	for _, model := range []string{r.Model, r.SmallModel} {
		if _, ok := r.Prices[model]; !ok && model != "" {
			p.ps.Add(n.Pos, "add its price in USD per million tokens", "%s has no price of model %q", what, model)
		}
	}
}

// cacheWrite is what a token costs that is written to a cache, in tokens of input.
func cacheWrite(api string) float64 {
	if api == access.Messages {
		return 1.25
	}
	return 1
}

// price reads one entry. Tokens that are read from a cache cost what others cost
// if nothing is said about them, and those written to one a multiple of that.
func (p *parser) price(n *source.Node, what string, write float64) (out Price) {
	const fix = "write USD per million tokens, such as {input: 1.25, cached_input: 0.125, output: 10}"
	if n.Kind != source.Map {
		p.ps.Add(n.Pos, fix, "%s must be an object, not %s", what, n.Kind)
		return out
	}
	p.ps.Closed(n, what, "input", "cached_input", "cache_write", "output")
	part := func(key string, required bool) float64 {
		v := n.Get(key)
		if v == nil {
			if required {
				p.ps.Add(n.Pos, fix, "%s.%s is required", what, key)
			}
			return 0
		}
		f, problem := amount(v, what+"."+key)
		p.fixed(problem, fix)
		return f
	}
	out = Price{Input: part("input", true), CachedInput: part("cached_input", false), CacheWrite: part("cache_write", false), Output: part("output", true)}
	if n.Get("cached_input") == nil {
		out.CachedInput = out.Input
	}
	if n.Get("cache_write") == nil {
		out.CacheWrite = write * out.Input
	}
	return out
}

// amount reads a number of USD, which may be 0.
func amount(n *source.Node, what string) (float64, *source.Problem) {
	if f, err := strconv.ParseFloat(n.Text, 64); n.Kind == source.Number && err == nil && f == 0 {
		return 0, nil
	}
	f, problem := n.Positive(what)
	switch {
	case problem == nil && f > maxAmount:
		return 0, source.Problemf(n.Pos, "%s is above 1000000 USD", what)
	case problem != nil && strings.HasPrefix(n.Text, "-"):
		return 0, source.Problemf(n.Pos, "%s must be 0 or more", what)
	}
	return f, problem
}

// object reads a closed object, nil if it is not set.
func (p *parser) object(key string, known ...string) (*source.Node, string) {
	n, what := p.get(key)
	if n == nil {
		return nil, what
	}
	if n.Kind != source.Map {
		p.ps.Add(n.Pos, "known: "+strings.Join(known, ", "), "%s must be an object, not %s", what, n.Kind)
		return nil, what
	}
	p.ps.Closed(n, what, known...)
	return n, what
}

// fixed adds a problem, and says what to do about it unless it does.
func (p *parser) fixed(problem *source.Problem, fix string) {
	if problem != nil && problem.Fix == "" {
		problem.Fix = fix
	}
	p.ps.Note(problem)
}
