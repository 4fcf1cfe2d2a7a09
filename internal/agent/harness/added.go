package harness

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/agent/catalogue"
	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

// The bounds of what an operator adds to what an agent is set up with.
const (
	maxArgs    = 256
	maxServers = 32
	maxAdded   = 64 << 10 // bytes of a configuration, which may be a variable
)

// filesWord begins words that name what is in the operator's files.
const filesWord = "{files}"

var (
	serverName   = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$`)
	variableName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)
)

// added reads what an operator adds to what an agent is set up with.
func (p *parser) added(of catalogue.Agent, files *Files) catalogue.Added {
	add := catalogue.Added{Args: p.args(of), Config: p.merged(of), Servers: p.servers(of)}
	if n, what := p.get("files"); n != nil && len(add.Servers) == 0 {
		p.ps.Add(n.Pos, "remove it, or name in "+p.section+".mcp what is started", "%s are for servers of %s.mcp, and there is none", what, p.section)
	}
	if n, what := p.get("mcp"); n != nil && files == nil && slices.ContainsFunc(add.Servers, usesFiles) {
		p.ps.Add(n.Pos, "list in "+p.section+".files what the servers need", "%s names %s, and there are none", what, filesWord)
	}
	return add
}

func usesFiles(s catalogue.Server) bool {
	return slices.ContainsFunc(slices.Concat(s.Command, slices.Collect(maps.Values(s.Env))), func(w string) bool { return strings.Contains(w, filesWord) })
}

// args reads words that the agent's command gets in addition.
func (p *parser) args(of catalogue.Agent) []string {
	n, what := p.get("args")
	switch {
	case n == nil:
		return nil
	case of.Accepts.Args == nil:
		p.ps.Add(n.Pos, "remove it", "%s is not supported by %s", what, of.Name)
		return nil
	}
	list, problem := n.Strings(what)
	p.ps.Note(problem)
	if len(list) > maxArgs {
		p.ps.Add(n.Pos, "", "%s must have at most %d words", what, maxArgs)
	}
	for i, word := range list {
		at := n.Items[i].Pos
		why := of.Accepts.Args.Refuses(word)
		switch {
		case why != "":
			p.ps.Add(at, "", "%s[%d]: %s %s", what, i, shown(word), why)
		case i == 0 && !strings.HasPrefix(word, "-"):
			p.ps.Add(at, "begin with a flag", "%s[0] is no flag", what)
		case len(word) > maxSetting || strings.ContainsRune(word, 0):
			p.ps.Add(at, "", "%s[%d] must have at most %d bytes, and no NUL", what, i, maxSetting)
		}
	}
	return list
}

// shown is the flag of a word, as messages show it.
func shown(word string) string {
	flag, _, _ := strings.Cut(word, "=")
	return strings.ToValidUTF8(flag[:min(len(flag), 40)], "?")
}

// merged reads values of the agent's own configuration.
func (p *parser) merged(of catalogue.Agent) map[string]any {
	n, what := p.get("config")
	switch {
	case n == nil:
		return nil
	case of.Accepts.Config == nil:
		p.ps.Add(n.Pos, "remove it", "%s is not supported by %s", what, of.Name)
		return nil
	case n.Kind != source.Map:
		p.ps.Add(n.Pos, "write names of the agent's own configuration and their values", "%s must be an object, not %s", what, n.Kind)
		return nil
	}
	var config map[string]any
	text := n.JSON()
	if err := json.Unmarshal(text, &config); err != nil || len(text) > maxAdded {
		p.ps.Add(n.Pos, "", "%s must have at most %d bytes in all", what, maxAdded)
		return nil
	}
	if at := of.Refuses(config); at != "" {
		p.ps.Add(n.Pos, "remove it", "%s: %s is not the operator's to set: it is securebench's own, or would open the network, telemetry, updates or tools of the provider", what, at)
		return nil
	}
	return config
}

// servers reads servers of the model context protocol, in the order of their names.
func (p *parser) servers(of catalogue.Agent) (out []catalogue.Server) {
	n, what := p.get("mcp")
	const fix = "write one such as docs: {command: [python3, '{files}/docs.py']}"
	switch {
	case n == nil:
		return nil
	case of.Accepts.MCP == nil:
		p.ps.Add(n.Pos, "remove it", "%s is not supported by %s", what, of.Name)
		return nil
	case n.Kind != source.Map || len(n.Fields) == 0 || len(n.Fields) > maxServers:
		p.ps.Add(n.Pos, fix, "%s must be an object with 1 to %d servers", what, maxServers)
		return nil
	}
	for _, f := range n.Fields {
		here := what + "." + f.Name
		if !serverName.MatchString(f.Name) {
			p.ps.Add(f.Pos, "use letters, digits, - and _", "%s: %q cannot be the name of a server", what, f.Name)
			continue
		}
		if f.Value.Kind != source.Map {
			p.ps.Add(f.Value.Pos, fix, "%s must be an object, not %s", here, f.Value.Kind)
			continue
		}
		p.ps.Closed(f.Value, here, "command", "env")
		s := catalogue.Server{Name: f.Name, Command: p.serverCommand(f.Value, here, fix), Env: p.serverEnv(f.Value, here)}
		if len(s.Command) > 0 {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b catalogue.Server) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// serverCommand reads what starts a server.
func (p *parser) serverCommand(n *source.Node, what, fix string) []string {
	c := n.Given("command")
	if c == nil || c.Kind != source.List || len(c.Items) == 0 {
		p.ps.Add(n.Pos, fix, "%s.command must be a non-empty list of strings", what)
		return nil
	}
	words, problem := c.Strings(what + ".command")
	p.ps.Note(problem)
	if size := len(strings.Join(words, "")); size > maxAdded || slices.ContainsFunc(words, func(w string) bool { return strings.ContainsRune(w, 0) }) {
		p.ps.Add(c.Pos, "", "%s.command must have at most %d bytes, and no NUL", what, maxAdded)
	}
	return words
}

// serverEnv reads variables of a server.
func (p *parser) serverEnv(n *source.Node, what string) map[string]string {
	e := n.Given("env")
	if e == nil {
		return nil
	}
	what += ".env"
	if e.Kind != source.Map {
		p.ps.Add(e.Pos, "map names to values", "%s must be an object, not %s", what, e.Kind)
		return nil
	}
	env := map[string]string{}
	for _, f := range e.Fields {
		value, problem := f.Value.Str(what + "." + f.Name)
		p.ps.Note(problem)
		if !variableName.MatchString(f.Name) || strings.ContainsRune(value, 0) || len(value) > maxSetting {
			p.ps.Add(f.Pos, "", "%s: %q is not a variable, or its value is too long or has a NUL", what, f.Name)
		}
		env[f.Name] = value
	}
	return env
}

// placed returns what an operator adds, with the place of the files.
func placed(add catalogue.Added) catalogue.Added {
	place := func(w string) string { return strings.ReplaceAll(w, filesWord, FilesDir) }
	servers := make([]catalogue.Server, len(add.Servers))
	for i, s := range add.Servers {
		servers[i] = catalogue.Server{Name: s.Name, Env: map[string]string{}}
		for _, w := range s.Command {
			servers[i].Command = append(servers[i].Command, place(w))
		}
		for name, value := range s.Env {
			servers[i].Env[name] = place(value)
		}
	}
	add.Servers = servers
	return add
}
