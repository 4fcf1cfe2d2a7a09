package catalogue

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/lazyregexp"
)

// Accepts says what operators may add to what an agent is set up with, beside its
// settings. What is not there is not supported.
type Accepts struct {
	Args   *Args   `json:"args"`
	Config *Config `json:"config"`
	MCP    *MCP    `json:"mcp"`
}

// Args are words that stand at the end of those of {settings}.
type Args struct {
	// Refuse are flags that operators may not give, as the program spells them: those that
	// would open the network, telemetry, updates or tools of the provider, or change what
	// the description says.
	Refuse []string `json:"refuse"`
}

// Config are values of the agent's own configuration. What the description's own has is
// never replaced.
type Config struct {
	// Refuse are paths of names with dots between them that operators may not set, nor what
	// is below them; * is any name.
	Refuse []string `json:"refuse"`
	// Allow are paths below those that operators may set all the same.
	Allow []string `json:"allow"`
	// Each are the words that set one value, with {path} and {value} (in JSON), or Words
	// those that set all, with {values}, in the place of {settings}; without either, the
	// values are in {config}.
	Each  []string `json:"each"`
	Words []string `json:"words"`
}

// MCP says how an agent is told of servers of the model context protocol that it starts.
type MCP struct {
	At     string         `json:"at"`     // the path of the servers in the agent's configuration
	Server jsontext.Value `json:"server"` // one of them: texts are {program}, {args}, {command} (both) and {env} alone, or themselves
	// Words tell of all servers, with {servers}, in the place of {settings}; without them
	// the servers are in the configuration.
	Words []string `json:"words"`
}

// Server is a server of the model context protocol, which the agent starts in its
// sandbox.
type Server struct {
	Name    string
	Command []string
	Env     map[string]string
}

// Added is what an operator adds to what an agent is set up with.
type Added struct {
	Args    []string
	Config  map[string]any
	Servers []Server
}

var (
	flagPattern  = lazyregexp.New(`^--?[A-Za-z][A-Za-z0-9-]*$`)
	pathPattern  = lazyregexp.New(`^([A-Za-z0-9_-]+|\*)(\.([A-Za-z0-9_-]+|\*))*$`)
	plainPattern = lazyregexp.New(`^[A-Za-z0-9_-]+$`)
)

func (c Accepts) check() error {
	if c.Args != nil {
		for _, flag := range c.Args.Refuse {
			if !flagPattern.MatchString(flag) {
				return fmt.Errorf("args: refuse: %q is not a flag", flag)
			}
		}
	}
	if c.Config != nil {
		if err := checkPaths("refuse", c.Config.Refuse); err != nil {
			return err
		}
		if err := checkPaths("allow", c.Config.Allow); err != nil {
			return err
		}
	}
	if c.MCP == nil {
		return nil
	}
	if !pathPattern.MatchString(c.MCP.At) || strings.Contains(c.MCP.At, "*") {
		return errors.New("mcp: at: want a path of names with dots between them")
	}
	if _, err := c.MCP.server(Server{Command: []string{"x"}}); err != nil {
		return fmt.Errorf("mcp: server: %w", err)
	}
	return nil
}

func checkPaths(list string, paths []string) error {
	for _, p := range paths {
		if !pathPattern.MatchString(p) {
			return fmt.Errorf("config: %s: %q is not a path of names with dots between them", list, p)
		}
	}
	return nil
}

// settable reports whether operators can add words to the command.
func (a Agent) settable() bool {
	c := a.Accepts
	return len(a.Settings) > 0 || c.Args != nil || c.Config != nil && len(c.Config.Each)+len(c.Config.Words) > 0 || c.MCP != nil && len(c.MCP.Words) > 0
}

// inConfig reports whether something that operators add is in {config}.
func (c Accepts) inConfig() bool {
	told := c.Config != nil && len(c.Config.Each)+len(c.Config.Words) > 0
	return c.Config != nil && !told || c.MCP != nil && len(c.MCP.Words) == 0 && !told
}

// Refuses says why an operator may not add a word to the command, "" if they may. Values
// of flags are words of their own, or follow the whole flag and an equals sign.
func (c Args) Refuses(word string) string {
	if !strings.HasPrefix(word, "-") || word == "-" {
		return ""
	}
	name, _, _ := strings.Cut(word, "=")
	switch {
	case !flagPattern.MatchString(name):
		return "is not a flag by itself"
	case !strings.HasPrefix(name, "--") && len(name) > 2:
		return "may be several short flags, or one with a value: write each of them as a word of its own"
	}
	for _, flag := range c.Refuse {
		if fold := foldFlag(name); fold == foldFlag(flag) || fold == "no"+foldFlag(flag) {
			return "is not the operator's to give"
		}
	}
	return ""
}

// foldFlag is a long flag as parsers of commands compare them: --max-turns is
// --maxTurns. Short ones differ by their case.
func foldFlag(flag string) string {
	if name, long := strings.CutPrefix(flag, "--"); long {
		return strings.ToLower(strings.ReplaceAll(name, "-", ""))
	}
	return flag
}

// Refuses returns the path of the first value that an operator may not set, "" if there is
// none: one that the description's own configuration has, or that it names as refused.
func (a Agent) Refuses(config map[string]any) string {
	var own any
	if len(a.Config) > 0 {
		_ = json.Unmarshal(a.Config, &own) // it was read once
	}
	return a.Accepts.Config.refuses(config, own, nil)
}

func (c Config) refuses(config map[string]any, own any, above []string) string {
	ours, _ := own.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(config)) {
		here := slices.Concat(above, []string{name})
		below, isMap := config[name].(map[string]any)
		mine, set := ours[name]
		_, mineIsMap := mine.(map[string]any)
		switch at := strings.Join(here, "."); {
		case slices.ContainsFunc(c.Refuse, func(p string) bool { return covers(strings.Split(p, "."), here, isMap) }) && !c.allows(at, isMap),
			set && (!isMap || !mineIsMap), len(c.Each) > 0 && !plainPattern.MatchString(name),
			slices.Contains([]string{"__proto__", "constructor", "prototype"}, name): // which JavaScript would merge into everything
			return at
		}
		if isMap {
			if at := c.refuses(below, mine, here); at != "" {
				return at
			}
		}
	}
	return ""
}

// allows reports whether a path is listed, or is below one that is, or an object above one.
func (c Config) allows(at string, isMap bool) bool {
	return slices.ContainsFunc(c.Allow, func(p string) bool {
		return at == p || strings.HasPrefix(at, p+".") || isMap && strings.HasPrefix(p, at+".")
	})
}

// covers reports whether a refused path is here, or above, or below a value that is no
// object and so would replace it.
func covers(refused, here []string, isMap bool) bool {
	n := min(len(refused), len(here))
	for i := range n {
		if refused[i] != "*" && refused[i] != here[i] {
			return false
		}
	}
	return len(refused) <= len(here) || !isMap
}

// With returns the words that what an operator adds becomes, and the agent's
// configuration with it. own is that of the description, with its placeholders replaced.
func (a Agent) With(add Added, own string) (words []string, config string, err error) {
	tree := map[string]any{}
	if own != "" {
		if err := json.Unmarshal([]byte(own), &tree); err != nil {
			return nil, "", err
		}
	}
	more, apart, err := a.Accepts.parts(add)
	if err != nil {
		return nil, "", err
	}
	c := a.Accepts.Config
	switch {
	case a.Accepts.inConfig():
		merge(tree, more)
	case c == nil:
	case len(c.Each) > 0:
		words, err = c.each(more, "")
	case len(more) > 0:
		words, err = inJSON(c.Words, "values", more)
	}
	if err == nil && len(apart) > 0 {
		var told []string
		told, err = inJSON(a.Accepts.MCP.Words, "servers", apart)
		words = append(words, told...)
	}
	if err != nil {
		return nil, "", err
	}
	text, err := json.Marshal(tree, json.Deterministic(true))
	return append(words, add.Args...), string(text), err
}

// parts returns what is added to the agent's configuration, and the servers, if it is told
// of them apart from that.
func (c Accepts) parts(add Added) (more, apart map[string]any, err error) {
	more = map[string]any{}
	merge(more, add.Config)
	if len(add.Servers) == 0 {
		return more, nil, nil
	}
	servers, err := c.MCP.servers(add.Servers)
	if err != nil || len(c.MCP.Words) > 0 {
		return more, servers, err
	}
	merge(more, servers)
	return more, nil, nil
}

// inJSON returns words in which a placeholder is a value in JSON.
func inJSON(of []string, placeholder string, value any) ([]string, error) {
	text, err := json.Marshal(value, json.Deterministic(true))
	return Values{Words: map[string]string{placeholder: string(text)}}.Expand([]Item{{Then: of}}), err
}

// merge adds values to an object, in which objects are merged.
func merge(into, from map[string]any) {
	for name, value := range from {
		below, isMap := value.(map[string]any)
		there, both := into[name].(map[string]any)
		switch {
		case isMap && both:
			merge(there, below)
		case isMap:
			there = map[string]any{}
			merge(there, below)
			into[name] = there
		default:
			into[name] = value
		}
	}
}

// each returns the words for all values, in the order of their paths.
func (c Config) each(config map[string]any, above string) (words []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if below, ok := config[name].(map[string]any); ok && len(below) > 0 {
			more, err := c.each(below, above+name+".")
			if err != nil {
				return nil, err
			}
			words = append(words, more...)
			continue
		}
		text, err := json.Marshal(config[name], json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		v := Values{Words: map[string]string{"path": above + name, "value": string(text)}}
		words = append(words, v.Expand([]Item{{Then: c.Each}})...)
	}
	return words, nil
}

// servers returns what an agent's configuration has of servers, from its root.
func (m MCP) servers(of []Server) (map[string]any, error) {
	all := map[string]any{}
	for _, s := range of {
		one, err := m.server(s)
		if err != nil {
			return nil, err
		}
		all[s.Name] = one
	}
	path := strings.Split(m.At, ".")
	for _, name := range slices.Backward(path) {
		all = map[string]any{name: all}
	}
	return all, nil
}

// server returns what an agent's configuration has of a server.
func (m MCP) server(s Server) (any, error) {
	var form map[string]any
	if err := json.Unmarshal(m.Server, &form); err != nil {
		return nil, errors.New("want an object")
	}
	env := map[string]any{}
	for name, value := range s.Env {
		env[name] = value
	}
	for name, value := range form {
		text, _ := value.(string)
		switch text {
		case "{program}":
			form[name] = s.Command[0]
		case "{args}":
			form[name] = words(s.Command[1:])
		case "{command}":
			form[name] = words(s.Command)
		case "{env}":
			if form[name] = env; len(env) == 0 {
				delete(form, name)
			}
		}
	}
	return form, nil
}

func words(of []string) []any {
	out := make([]any, len(of))
	for i, w := range of {
		out[i] = w
	}
	return out
}
