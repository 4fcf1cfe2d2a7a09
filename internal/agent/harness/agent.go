package harness

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"securebench/internal/agent/catalogue"
	"securebench/internal/agent/events"
	"securebench/internal/config"
	"securebench/internal/gateway/access"
	"securebench/internal/lazyregexp"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/verdict"
	"securebench/internal/workspace"
)

var (
	// anyModel matches the names that servers of models use, such as Qwen/Qwen3-8B,
	// llama3.2:3b or /models/qwen.gguf.
	anyModel = lazyregexp.New(`^[^\p{C}]+$`)
	// modelArgument matches those that can be an argument of a command, where they must not
	// begin like a flag.
	modelArgument  = lazyregexp.New(`^[^\p{C}-][^\p{C}]*$`)
	versionPattern = lazyregexp.New(`^[0-9]+\.[0-9]+\.[0-9]+([.+-][A-Za-z0-9._+-]+)?$`)
)

// modelRule says what [anyModel] matches.
const modelRule = "must be a text without control characters, of at most 256 bytes"

// latest is the version that is resolved once per run.
const latest = "latest"

// agent is the harness of an agent of the catalogue. Its requests to the provider go
// through the relay, which keeps the key.
type agent struct {
	catalogue.Agent
	provider catalogue.Provider
	relay    Relay
	alias    string // the model as configured, once another name is pinned
	version  string
	ran      string   // the version that runs, once that is known
	env      []string // names that are forwarded
	taskFile string
	inside   bool // the task file is in the workspace, because the configuration says where
	timeout  time.Duration
	domains  []string
	private  []string // of the domains
	format   *events.Format
	settings []string // of the configuration, as words of the command
	turns    int64    // that it may take, 0 for any
	added    catalogue.Added
	acp      bool   // it is spoken to with the agent client protocol
	files    *Files // nil for none
}

// The folder of all that securebench brings.
const opt = catalogue.Root

// AgentType is the type of the harness that runs an agent by its name.
const AgentType = "agent"

// ParseAgent reads the section of an agent: one of the catalogue, by its name, or one
// with a type of its own.
func ParseAgent(c config.Harness) (Harness, source.Problems) {
	of, problem := described(c)
	if problem != nil {
		return nil, source.Problems{problem}
	}
	return parse(c, func(p *parser) Harness { return p.agent(of, c) })
}

// Describe gives a section that names an agent the description of it, which is one of
// this program's or the operator's.
func Describe(c *config.Harness, getenv func(string) string) *source.Problem {
	if c.Type != AgentType || c.Name == "" {
		return nil
	}
	a, err := catalogue.Lookup(getenv, c.Name)
	if err != nil {
		return source.Problemf(c.Pos, "harness.name: %v", err)
	}
	c.Name, c.Description = a.Name, a.Text()
	return nil
}

// described returns the description of the agent of a section.
func described(c config.Harness) (catalogue.Agent, *source.Problem) {
	if len(c.Description) > 0 {
		a, err := catalogue.Parse(c.Name+".yaml", c.Description)
		if err != nil {
			return a, source.Problemf(c.Pos, "harness.name: %v", err)
		}
		return a, nil
	}
	name, what := c.Name, "harness.name"
	if c.Type != AgentType {
		name, what = c.Type, "harness.type"
	}
	a, ok := catalogue.Find(name)
	if !ok {
		return a, source.Problemf(c.TypePos, "%s: there is no agent %q, only %s", what, name, strings.Join(catalogue.Names(catalogue.Builtin()), ", "))
	}
	return a, nil
}

// agent reads the configuration of an agent.
func (p *parser) agent(of catalogue.Agent, c config.Harness) Harness {
	named := c.Type == AgentType
	choice := "version" // of the program
	if named {          // which has its version beside its name
		choice = "api"
	}
	acp := named && (of.ACP != nil && len(of.Command) == 0 || p.acp(of.Name, of.ACP != nil))
	known := append([]string{"model", choice, "task_file", "timeout_seconds", "allowed_domains", "allow_private",
		"budget", "prices", "max_connections", "allow_external_tools"}, addressKeys()...)
	known = append(append(known, catalogue.SettingNames()...), "args", "config", "mcp", "files")
	if named {
		known = append(known, "protocol")
	}
	small := ""
	if of.Models.Small {
		known = append(known, "small_model")
		small = p.smallModel(of.Models)
	}
	p.closed(known...)
	p.own = of.Owns
	by := p.speaks(of, named)
	a := &agent{Agent: of, provider: by, relay: *p.relay(by.API, by.BaseURL, of.Models.Default, small), format: of.Format(), acp: acp}
	if acp {
		a.format = catalogue.ACPFormat(of.Name)
	}
	a.version, a.taskFile = p.version(c, named), p.path("task_file", workspace.DefaultTaskFile)
	a.settings, a.files = p.settings(of), p.files()
	if n, _ := p.get("max_turns"); n != nil {
		a.turns, _ = n.Int("", 1, maxTurns) // what is wrong with it was said
	}
	a.added = placed(p.added(of, a.files))
	a.inside = p.given("task_file")
	a.timeout, a.domains = p.timeout(), p.domains()
	a.private = p.private(a.domains)
	env, key := p.forwarded(by.Keys...)
	a.env = env
	p.credential(&a.relay.Address, by.Keys[0], key)
	if of.Models.Names != "" {
		return &aliased{a}
	}
	return a
}

// maxSetting bounds the text of a setting, which is a word of a command, and maxTurns the
// number of turns.
const (
	maxSetting = 64 << 10
	maxTurns   = 100_000
)

// settings reads what the agent's program is told beside its model, as words of the
// command.
func (p *parser) settings(of catalogue.Agent) (out []string) {
	for _, name := range catalogue.SettingNames() {
		n, what := p.get(name)
		if n == nil {
			continue
		}
		if len(of.Settings[name]) == 0 {
			p.ps.Add(n.Pos, "remove it", "%s is not supported by %s", what, of.Name)
			continue
		}
		value := n.Text
		var problem *source.Problem
		switch name {
		case "max_turns":
			_, problem = n.Int(what, 1, maxTurns)
		case "reasoning_effort":
			value = p.token(n, what, effort, "must be a word of small letters", "write one such as high")
		default:
			if value, problem = n.Str(what); problem == nil && (len(value) > maxSetting || strings.ContainsRune(value, 0)) {
				problem = source.Problemf(n.Pos, "%s must have at most %d bytes, and no NUL", what, maxSetting)
			}
		}
		p.ps.Note(problem)
		out = append(out, of.Set(name, value)...)
	}
	return out
}

// effort matches a word for how much a model reasons.
var effort = lazyregexp.New(`^[a-z]{1,20}$`)

// speaks returns the provider of an agent that the configuration chooses.
func (p *parser) speaks(of catalogue.Agent, choice bool) catalogue.Provider {
	n, what := p.get("api")
	if n == nil || !choice {
		return of.Providers[0]
	}
	var all []string
	for _, by := range of.Providers {
		if name := strings.TrimSpace(n.Text); n.Kind == source.String && (name == by.API || name == access.Short(by.API)) {
			return by
		}
		all = append(all, by.API)
	}
	p.ps.Add(n.Pos, "", "%s must be one of: %s", what, strings.Join(all, ", "))
	return of.Providers[0]
}

// relay reads what there is to say about a provider, its model and what may be used
// of it.
func (p *parser) relay(api, baseURL, defaultModel, small string) *Relay {
	r := &Relay{Address: p.address(api, baseURL), Model: p.model("model", defaultModel), SmallModel: small}
	source.Optional(&p.ps, p.cfg, "harness.config.allow_external_tools", &r.AllowExternalTools, (*source.Node).Boolean)
	p.budget(r)
	p.prices(r)
	p.connections(r)
	return r
}

// model reads the name of a model.
func (p *parser) model(key, def string) string {
	n, what := p.get(key)
	if n == nil {
		if def == "" && key == "model" {
			p.ps.Add(p.cfg.Pos, "", "%s is required", what)
		}
		return def
	}
	if p.typ == "command" { // which does not get it as an argument
		return p.token(n, what, anyModel, modelRule, "")
	}
	return p.token(n, what, modelArgument, modelRule+", and not begin with a hyphen", "")
}

// version reads the version of an agent: beside its name, or in the configuration.
func (p *parser) version(c config.Harness, named bool) string {
	n, what := p.get("version")
	if named {
		n, what = c.Version, "harness.version"
	}
	if n == nil || n.Kind == source.Null {
		return latest
	}
	if n.Kind == source.String && strings.TrimSpace(n.Text) == latest {
		return latest
	}
	return p.token(n, what, versionPattern, "must be latest or an exact version", "write one such as 1.2.3")
}

// token reads a text that must match a pattern, without blanks around it.
func (p *parser) token(n *source.Node, what string, want *lazyregexp.Regexp, rule, fix string) string {
	s, problem := n.Str(what)
	p.fixed(problem, fix)
	s = strings.TrimSpace(s)
	if problem == nil && (!want.MatchString(s) || len(s) > 256) {
		p.ps.Add(n.Pos, fix, "%s %s", what, rule)
	}
	return s
}

// Name returns the agent's name.
func (a *agent) Name() string { return a.Agent.Name }

// Needs returns what the run prepares for the agent. Its arguments depend on the
// task, and the variables are without those that name the provider's key.
func (a *agent) Needs() Needs {
	r := a.relay
	r.Prices = maps.Clone(r.Prices)
	v := a.values("")
	return Needs{Argv: v.Expand(a.start()[:1]), Env: slices.Clone(a.env), Overlays: a.overlays(), Version: v.Expand(a.Version),
		Relay: &r, Domains: slices.Clone(a.domains), Private: slices.Clone(a.private), Output: a.format, Files: a.files}
}

// start is what an attempt starts.
func (a *agent) start() []catalogue.Item {
	if a.acp {
		return a.ACP.Command
	}
	return a.Command
}

// target is where the agent's program is mounted.
func (a *agent) target() string { return opt + strings.ReplaceAll(a.Agent.Name, "_", "-") }

// home is the agent's own.
func (a *agent) home() string { return a.target() + "-home" }

// overlays are the agent's program, and what runs it.
func (a *agent) overlays() []Overlay {
	out := []Overlay{{Program: a.Agent.Name, Version: a.version, Target: a.target(), Package: a.Program}}
	for _, by := range a.Program.Runtimes() {
		out[0].Hidden = true // its folder bin, if there is one, has no commands
		out = append(out, Overlay{Program: by.Name, Version: by.Exact, Target: opt + by.Name, Package: by, Hidden: true})
	}
	return out
}

// values are what the placeholders of the description stand for.
func (a *agent) values(prompt string) catalogue.Values {
	v := catalogue.Values{Words: map[string]string{
		"program": a.target() + "/" + a.Program.Start, "model": a.relay.Model, "small_model": cmp.Or(a.relay.SmallModel, a.relay.Model),
		"relay": "http://" + RelayAddress, "home": a.home(), "key": a.provider.Keys[0], "prompt": prompt, "probe": ProbeSmallModel,
	}, Holds: map[string]bool{
		catalogue.ExternalTools: a.relay.AllowExternalTools,
		catalogue.NamedModel:    a.alias != "" || strings.HasPrefix(a.relay.Model, a.Models.Names),
	}}
	maps.Copy(v.Words, a.provider.Words)
	if by := a.Program.Runner(a.target()); by != "" {
		v.Words["runtime"] = by
	}
	own := ""
	if len(a.Config) > 0 {
		own, _ = v.JSON(a.Config) // which was read once
	}
	words, config, _ := a.With(a.added, own) // likewise
	v.Words["config"], v.Lists = config, map[string][]string{"settings": slices.Concat(a.settings, words)}
	return v
}

// Check refuses a task whose mounts don't fit, or whose row would set up the
// agent.
func (a *agent) Check(v task.AgentView) (workspace.Options, error) {
	_, err := a.place(v)
	return workspace.Options{TaskFile: a.taskFile}, err
}

// place returns the parts of the plan that can be impossible.
func (a *agent) place(v task.AgentView) (Plan, error) {
	p, err := place(v, a.taskFile, a.inside)
	if err == nil {
		err = checkRow(v, true, a.Owns...)
	}
	if err != nil {
		return Plan{}, fmt.Errorf("planning task %s: %w", v.ID(), err)
	}
	p.Extract = v.Extraction() // an agent is not told to print a patch
	if len(p.Extract.Files) > 0 {
		p.Extract.OrStdout = false // its last message is about the file
	}
	if p.Checkout != "" {
		p.Workdir = p.Checkout
	}
	return p, nil
}

// Plan plans one task.
func (a *agent) Plan(v task.AgentView) (Plan, error) {
	p, err := a.place(v)
	if err != nil {
		return Plan{}, err
	}
	p.Domains = a.domains
	a.run(&p, prompt(v, p))
	p.EnvNames, p.Timeout = slices.Clone(a.env), shorter(v.Environment().Timeout, a.timeout)
	p.Metadata = map[string]any{
		"harness":                     a.Name(),
		"task_file":                   a.taskFile,
		"allowed_domains":             append([]string{}, a.domains...),
		"benchmark_environment_image": v.Environment().Image,
		a.Name() + "_model":           a.relay.Model,
		a.Name() + "_version":         cmp.Or(a.ran, a.version),
	}
	if a.alias != "" {
		p.Metadata[a.Name()+"_model_alias"] = a.alias
	}
	if a.turns > 0 {
		p.Metadata[verdict.TurnsKey] = a.turns
	}
	return p, nil
}

// Ran returns the harness with the version of the program that runs.
func (a *agent) Ran(version string) Harness {
	b := *a
	b.ran = version
	return &b
}

// run sets what the agent's program needs.
func (a *agent) run(p *Plan, prompt string) {
	n, v := a.Needs(), a.values(prompt)
	p.Overlays, p.Relay, p.Domains, p.Private = n.Overlays, n.Relay, n.Domains, n.Private
	if a.files != nil {
		p.FilesDir, p.Env = FilesDir, append(p.Env, filesVar+"="+FilesDir)
	}
	p.Argv, p.Home, p.TokenEnv, p.Output = v.Expand(a.start()), a.home(), a.provider.Keys[0], n.Output
	if a.acp {
		p.Argv = client(prompt, p.Argv)
	}
	p.Env = slices.Concat(p.Env, []string{"HOME=" + a.home()}, v.Expand(a.Env), gatewayVariables(a.domains, true))
	for _, f := range a.Files {
		p.Files = append(p.Files, catalogue.File{Path: v.Text(f.Path), Text: v.Text(f.Text)})
	}
}
