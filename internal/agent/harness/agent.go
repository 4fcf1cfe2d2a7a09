package harness

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"securebench/internal/agent/events"
	"securebench/internal/lazyregexp"
	"securebench/internal/source"
	"securebench/internal/task"
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

// program is what the harnesses of agent programs differ in.
type program struct {
	name    string   // of the harness and its program
	api     string   // of the provider
	baseURL string   // of the provider, unless it is configured
	keys    []string // the variables that may name the provider's key, the usual one first
	overlay string   // where the program is mounted
	home    string
	output  events.Format
	argv    func(a *agent, prompt string) []string
	env     func(a *agent) []string
}

// agent is the harness of an agent program. Its requests to the provider go
// through the relay, which keeps the key.
type agent struct {
	program
	relay    Relay
	alias    string // the model as configured, once another name is pinned
	version  string
	env      []string // names that are forwarded
	taskFile string
	inside   bool // the task file is in the workspace, because the configuration says where
	timeout  time.Duration
	domains  []string
	private  []string // of the domains
}

// agent reads the configuration of a program. more are the keys that only this program
// has.
func (p *parser) agent(of program, defaultModel string, more ...string) *agent {
	p.closed(append([]string{"model", "version", "task_file", "timeout_seconds", "allowed_domains", "allow_private",
		"budget", "prices", "allow_external_tools"}, append(addressKeys(), more...)...)...)
	small := ""
	if slices.Contains(more, "small_model") {
		small = p.smallModel()
	}
	a := &agent{program: of, relay: *p.relay(of.api, of.baseURL, defaultModel, small)}
	a.version, a.taskFile = p.version(), p.path("task_file", workspace.DefaultTaskFile)
	a.inside = p.given("task_file")
	a.timeout, a.domains = p.timeout(), p.domains()
	a.private = p.private(a.domains)
	env, key := p.forwarded(of.keys...)
	a.env = env
	p.credential(&a.relay.Address, of.keys[0], key)
	return a
}

// relay reads what there is to say about a provider, its model and what may be used
// of it.
func (p *parser) relay(api, baseURL, defaultModel, small string) *Relay {
	r := &Relay{Address: p.address(api, baseURL), Model: p.model("model", defaultModel), SmallModel: small}
	source.Optional(&p.ps, p.cfg, "harness.config.allow_external_tools", &r.AllowExternalTools, (*source.Node).Boolean)
	p.budget(r)
	p.prices(r)
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

// version reads the version of an agent program.
func (p *parser) version() string {
	n, what := p.get("version")
	if n == nil {
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

// Name returns the harness's type.
func (a *agent) Name() string { return a.name }

// Needs returns what the run prepares for the agent. Its arguments depend on the
// task, and the variables are without those that name the provider's key.
func (a *agent) Needs() Needs {
	r := a.relay
	r.Prices = maps.Clone(r.Prices)
	return Needs{Argv: []string{a.overlays()[0].Binary()}, Env: slices.Clone(a.env), Overlays: a.overlays(), Relay: &r, Domains: slices.Clone(a.domains), Private: slices.Clone(a.private), Output: a.output}
}

func (a *agent) overlays() []Overlay {
	return []Overlay{{Program: a.name, Version: a.version, Target: a.overlay}}
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
		err = checkRow(v, true)
	}
	if err != nil {
		return Plan{}, fmt.Errorf("planning task %s: %w", v.ID(), err)
	}
	p.Extract = v.Extraction() // an agent is not told to print a patch
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
		"harness":                     a.name,
		"task_file":                   a.taskFile,
		"allowed_domains":             append([]string{}, a.domains...),
		"benchmark_environment_image": v.Environment().Image,
		a.name + "_model":             a.relay.Model,
		a.name + "_version":           a.version,
	}
	if a.alias != "" {
		p.Metadata[a.name+"_model_alias"] = a.alias
	}
	return p, nil
}

// run sets what the agent's program needs.
func (a *agent) run(p *Plan, prompt string) {
	n := a.Needs()
	p.Overlays, p.Relay, p.Domains, p.Private = n.Overlays, n.Relay, n.Domains, n.Private
	p.Argv, p.Home, p.TokenEnv, p.Output = a.argv(a, prompt), a.home, a.keys[0], n.Output
	p.Env = slices.Concat(p.Env, []string{"HOME=" + a.home}, a.program.env(a), gatewayVariables(a.domains, true))
}
