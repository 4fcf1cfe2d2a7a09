package harness

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"securebench/internal/config"
	"securebench/internal/source"
	"securebench/internal/workspace"
)

// Parse reads a harness section. It reports everything that is wrong.
type Parse func(config.Harness) (Harness, source.Problems)

// parse reads a section with the function that reads its configuration.
func parse(c config.Harness, read func(*parser) Harness) (Harness, source.Problems) {
	if c.Config == nil {
		c.Config = &source.Node{Kind: source.Map, Pos: c.Pos}
	}
	if c.Config.Kind != source.Map {
		return nil, source.Problems{source.Problemf(c.Config.Pos, "harness.config must be an object, not %s", c.Config.Kind)}
	}
	p := &parser{section: "harness.config", typ: c.Title(), env: c.Env, envPos: c.EnvPos, at: c.Pos, cfg: c.Config}
	h := read(p)
	if len(p.ps) > 0 {
		return nil, p.ps
	}
	return h, nil
}

// parser reads a configuration and collects its problems.
type parser struct {
	section string // the name of cfg in messages
	typ     string
	own     []string // prefixes of the variables that set the agent up
	env     []string
	envPos  []source.Pos
	at      source.Pos // of the harness section
	cfg     *source.Node
	ps      source.Problems
}

func (p *parser) closed(known ...string) { p.ps.Closed(p.cfg, p.section, known...) }

// get returns the value of a key that is set, and its name in messages.
func (p *parser) get(key string) (*source.Node, string) {
	return p.cfg.Given(key), p.section + "." + key
}

// path reads a workspace path.
func (p *parser) path(key, def string) string {
	n, what := p.get(key)
	if n == nil {
		return def
	}
	s, problem := n.Str(what)
	if problem != nil {
		p.ps.Note(problem)
		return def
	}
	c, err := workspace.CleanPath(s)
	if err != nil {
		p.ps.Add(n.Pos, "", "%s %q: %v", what, s, err)
		return def
	}
	return c
}

// given reports whether the configuration has a key.
func (p *parser) given(key string) bool { return p.cfg.Given(key) != nil }

func (p *parser) timeout() (d time.Duration) {
	source.Optional(&p.ps, p.cfg, p.section+".timeout_seconds", &d, config.Seconds)
	return d
}

func (p *parser) domains() []string {
	n, what := p.get("allowed_domains")
	if n == nil {
		return nil
	}
	list, ps := config.ParseDomains(n, what)
	p.ps = append(p.ps, ps...)
	return list
}

// private reads which of the domains may have private addresses, and at which port beside
// the usual ones.
func (p *parser) private(domains []string) (out []string) {
	n, what := p.get("allow_private")
	if n == nil {
		return nil
	}
	list, problem := n.Strings(what)
	if problem != nil {
		p.ps.Note(problem)
		return nil
	}
	for i, name := range list {
		host, port, named := strings.Cut(strings.ToLower(strings.TrimSpace(name)), ":")
		host = strings.TrimRight(host, ".")
		number, err := strconv.ParseUint(port, 10, 16)
		switch {
		case !slices.Contains(domains, host) || strings.HasPrefix(host, "*"):
			p.ps.Add(n.Items[i].Pos, "name a host of "+p.section+".allowed_domains in full, such as mirror.example.org or mirror.example.org:8443", "%s[%d] is not one of the allowed hosts", what, i)
			continue
		case named && (err != nil || number == 0 || strconv.FormatUint(number, 10) != port):
			p.ps.Add(n.Items[i].Pos, "write one such as mirror.example.org:8443", "%s[%d] has a port that is not from 1 to 65535", what, i)
			continue
		case named:
			host += ":" + port
		}
		out = append(out, host)
	}
	return out
}
