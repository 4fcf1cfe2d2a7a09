package harness

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"securebench/internal/agent/catalogue"
	"securebench/internal/config"
	"securebench/internal/pathname"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// command is the harness that runs the operator's own command.
type command struct {
	argv         []string
	env          []string
	taskFile     string
	inside       bool // the task file is in the workspace, because the configuration names it there
	artifactPath string
	timeout      time.Duration
	domains      []string
	private      []string // of the domains
	files        *Files
	requirements string // a file of Python's requirements, "" for none
	image        string // instead of the rows' image
	relay        *Relay // nil without a provider
	key          string // the variable that gets the relay's token
	acp          bool   // it speaks the agent client protocol
}

// ParseCommand reads the section of the operator's own command.
func ParseCommand(c config.Harness) (Harness, source.Problems) { return parse(c, parseCommand) }

func parseCommand(p *parser) Harness {
	p.closed("command", "artifact_path", "task_file", "timeout_seconds", "allowed_domains", "allow_private", "files", "requirements", "image",
		"model", "api", "base_url", "headers", "allow_plain_http", "auth", "budget", "prices", "max_connections", "allow_external_tools", "protocol")
	c := &command{
		argv:         p.argv(),
		taskFile:     p.path("task_file", workspace.DefaultTaskFile),
		artifactPath: p.path("artifact_path", ""),
		timeout:      p.timeout(),
		domains:      p.domains(),
		files:        p.files(),
		requirements: p.requirements(),
		image:        p.image(),
	}
	c.private = p.private(c.domains)
	c.inside = p.given("task_file") || namesOwn(c.argv)
	if apis := p.apis(); apis != nil {
		api := apis[0]
		c.relay, c.key = p.relay(api.name, api.baseURL, "", ""), api.key
		for _, more := range apis[1:] {
			c.relay.Also = append(c.relay.Also, more.name)
		}
		env, key := p.forwarded(api.key)
		c.env = env
		p.credential(&c.relay.Address, api.key, key)
	} else {
		c.env, _ = p.forwarded()
	}
	if c.acp = p.acp("command", true); c.acp && c.relay == nil {
		n, what := p.get("protocol")
		p.ps.Add(n.Pos, "add harness.config.model, with which the command has a provider", "%s is for agents with a provider", what)
	}
	if overlap(c.taskFile, c.artifactPath) {
		n, what := p.get("artifact_path")
		p.ps.Add(n.Pos, "", "%s collides with harness.config.task_file", what)
	}
	return c
}

// argv reads the command: a string is run by a login shell, a list directly.
func (p *parser) argv() []string {
	n, what := p.get("command")
	if n == nil {
		p.ps.Add(p.cfg.Pos, "", "%s is required", what)
		return nil
	}
	argv := []string{"sh", "-lc", n.Text}
	var problem *source.Problem
	switch {
	case n.Kind == source.List && len(n.Items) > 0:
		argv, problem = n.Strings(what)
	case n.Kind == source.String && strings.TrimSpace(n.Text) != "":
		problem = n.OddText(what)
	default:
		problem = source.Problemf(n.Pos, "%s must be a non-empty string or a non-empty list of strings", what)
	}
	if problem == nil && slices.ContainsFunc(argv, func(s string) bool { return strings.ContainsRune(s, 0) }) {
		problem = source.Problemf(n.Pos, "%s contains a NUL character", what)
	}
	p.ps.Note(problem)
	return argv
}

// overlap reports whether two clean paths are equal or one is below the other;
// an empty path overlaps nothing.
func overlap(a, b string) bool {
	return a != "" && b != "" && pathname.Overlap(a, b)
}

// Name returns "command".
func (c *command) Name() string { return "command" }

// Needs returns the command, and what it has beside it.
func (c *command) Needs() Needs {
	n := Needs{Argv: slices.Clone(c.argv), Env: slices.Clone(c.env), Domains: slices.Clone(c.domains), Private: slices.Clone(c.private), Files: c.files, Requirements: c.requirements, Image: c.image}
	if c.relay != nil {
		r := *c.relay
		r.Prices, r.Also = maps.Clone(r.Prices), slices.Clone(r.Also)
		n.Relay = &r
	}
	if c.acp {
		n.Output = catalogue.ACPFormat("agent")
	}
	return n
}

// Check refuses a task whose workspace cannot be mounted where the row wants
// it, or whose candidate cannot be taken from the configured artifact.
func (c *command) Check(v task.AgentView) (workspace.Options, error) {
	_, err := c.check(v)
	return workspace.Options{TaskFile: c.taskFile, ArtifactPath: c.artifactPath}, err
}

// check returns the parts of the plan that can be impossible.
func (c *command) check(v task.AgentView) (Plan, error) {
	p, err := place(v, c.taskFile, c.inside)
	if err == nil && (len(c.domains) > 0 || c.relay != nil) {
		err = checkRow(v, c.relay != nil)
	}
	if err == nil {
		p.Extract, err = c.extraction(p.Extract)
	}
	if err != nil {
		return Plan{}, fmt.Errorf("planning task %s: %w", v.ID(), err)
	}
	return p, nil
}

// Plan plans one task.
func (c *command) Plan(v task.AgentView) (Plan, error) {
	p, err := c.check(v)
	if err != nil {
		return Plan{}, err
	}
	var artifact any
	if c.artifactPath != "" {
		artifact = c.artifactPath
	}
	n := c.Needs()
	p.Argv, p.EnvNames, p.ArtifactPath = n.Argv, n.Env, c.artifactPath
	p.Domains, p.Private, p.Relay, p.Output = n.Domains, n.Private, n.Relay, n.Output
	if c.acp {
		p.Argv = client(prompt(v, p), n.Argv)
	}
	if c.files != nil {
		p.FilesDir, p.Env = FilesDir, append(p.Env, filesVar+"="+FilesDir)
	}
	if c.requirements != "" {
		p.Overlays = []Overlay{Requirements()}
		p.Env = append(p.Env, "PYTHONPATH="+Requirements().Target+"/lib")
	}
	if c.relay != nil {
		p.TokenEnv, p.Env = c.key, append(p.Env, modelVar+"="+c.relay.Model)
		p.Env = append(p.Env, baseURLs()...)
	}
	p.Env = append(p.Env, gatewayVariables(c.domains, c.relay != nil)...)
	p.Timeout = shorter(v.Environment().Timeout, c.timeout)
	p.Metadata = map[string]any{
		"harness":         c.Name(),
		"task_file":       c.taskFile,
		"artifact_path":   artifact,
		"allowed_domains": append([]string{}, c.domains...),
	}
	if c.relay != nil {
		p.Metadata["command_model"] = c.relay.Model
	}
	if c.image != "" {
		p.Metadata["agent_image"] = c.image
	}
	return p, nil
}

// extraction adapts the default: a command prints its candidate unless
// artifact_path names a file, the family takes the workspace or the checkout,
// or the family itself falls back to standard output.
func (c *command) extraction(def task.Extraction) (task.Extraction, error) {
	switch {
	case c.artifactPath != "" && def.Kind == task.Workspace:
		return def, errors.New("harness.config.artifact_path names a file, but this task's candidate is the whole workspace")
	case c.artifactPath != "":
		return task.Extraction{Mode: task.FromFile, Kind: def.Kind, Path: c.artifactPath}, nil
	case def.Kind == task.Workspace, def.Mode == task.FromStdout, def.OrStdout: // a checkout's difference as well
		return def, nil
	}
	return task.Extraction{Mode: task.FromStdout, Kind: def.Kind}, nil
}
