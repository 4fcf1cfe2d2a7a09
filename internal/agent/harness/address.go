package harness

import (
	"cmp"
	"strings"

	"securebench/internal/gateway/access"
	"securebench/internal/source"
)

// addressKeys are those of a provider's address, whoever asks it.
func addressKeys() []string { return []string{"base_url", "headers", "allow_plain_http", "auth"} }

// address reads where a provider is. def is its address unless there is another.
func (p *parser) address(api, def string) access.Address {
	a := access.Address{API: api, BaseURL: def, Headers: p.headers()}
	source.Optional(&p.ps, p.cfg, p.section+".allow_plain_http", &a.PlainHTTP, (*source.Node).Boolean)
	n, what := p.get("base_url")
	if n == nil {
		return a
	}
	text, problem := n.Str(what)
	if problem != nil {
		p.ps.Note(problem)
		return a
	}
	clean, fault := access.Clean(api, strings.TrimSpace(text))
	if fault != "" {
		p.ps.Add(n.Pos, "write one such as "+def, "%s %s", what, fault)
	}
	a.BaseURL = clean
	return a
}

// headers reads the headers of the operator. Their texts are not quoted.
func (p *parser) headers() (out []access.Header) {
	n, what := p.get("headers")
	if n == nil {
		return nil
	}
	const fix = "write one such as api-key: ${MY_KEY}, with the name of a variable"
	if n.Kind != source.Map {
		p.ps.Add(n.Pos, fix, "%s must be an object, not %s", what, n.Kind)
		return nil
	}
	seen := map[string]bool{}
	for _, f := range n.Fields {
		name := what + "." + f.Name
		text, problem := f.Value.Str(name)
		if problem != nil {
			p.ps.Note(problem)
			continue
		}
		h := access.Header{Name: f.Name, Text: strings.TrimSpace(text)}
		fault := h.Fault()
		if lower := strings.ToLower(h.Name); fault == "" && seen[lower] {
			fault = "is there twice"
		} else {
			seen[lower] = true
		}
		if fault != "" {
			p.ps.Add(f.Pos, fix, "%s %s", name, fault)
			continue
		}
		out = append(out, h)
	}
	return out
}

// credential reads how a provider is paid: by the key in the variable that is named, else
// in the usual one; not by a key if a header of the operator's holds one, or auth says
// so. Then it sees that no key is sent where it must not go.
func (p *parser) credential(a *access.Address, usual, named string) {
	a.KeyEnv, a.KeyNamed = cmp.Or(named, usual), named != ""
	for _, h := range a.Headers {
		if h.Credential() && !a.KeyNamed {
			a.KeyEnv = ""
		}
	}
	switch n, what := p.get("auth"); {
	case n == nil:
	case n.Kind == source.String && strings.TrimSpace(n.Text) == "none":
		if a.KeyNamed {
			p.ps.Add(n.Pos, "remove one of the two", "%s is none, and %s is named as the variable of the key", what, named)
		}
		a.KeyEnv = ""
	case n.Kind != source.String || strings.TrimSpace(n.Text) != "api_key":
		p.ps.Add(n.Pos, "write auth: api_key and set the key in the environment or the env file; subscription logins are not supported", "%s must be api_key or none", what)
	}
	if fault := a.Fault(); fault != "" {
		at, what := p.get("base_url")
		p.ps.Add(at.Pos, "allow_plain_http: true sends keys to addresses of a private network; without a key, http goes anywhere", "%s %s", what, fault)
	}
}
