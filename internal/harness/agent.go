package harness

import (
	"regexp"
	"strings"

	"securebench/internal/task"
	"securebench/internal/workspace"
)

// modelPattern matches a model or version: it becomes part of a command.
var modelPattern = regexp.MustCompile(`^[A-Za-z0-9._+-]+$`)

// agent is the configuration of an agent CLI. To run one, a gateway must keep
// the provider's key away from it; until there is one, the configuration is
// checked and then refused.
type agent struct{ name string }

// parseAgent checks a configuration.
func parseAgent(p *parser, needsModel bool) Harness {
	p.closed("model", "version", "task_file", "timeout_seconds", "allowed_domains")
	if n, what := p.get("model"); n == nil && needsModel {
		p.ps.Add(p.cfg.Pos, "", "%s is required", what)
	}
	p.token("model")
	p.token("version")
	p.path("task_file", workspace.DefaultTaskFile)
	p.timeout()
	p.domains()
	return &agent{name: p.typ}
}

// token checks a model or version.
func (p *parser) token(key string) {
	n, what := p.get(key)
	if n == nil {
		return
	}
	s, problem := n.Str(what)
	p.add(problem)
	if problem == nil && !modelPattern.MatchString(strings.TrimSpace(s)) {
		p.ps.Add(n.Pos, "", "%s may have only letters, digits and . _ + -", what)
	}
}

// Name returns the harness's type.
func (a *agent) Name() string { return a.name }

// Ready always returns a [*NotYetError].
func (a *agent) Ready() error { return &NotYetError{Harness: a.name} }

// Check always returns a [*NotYetError].
func (a *agent) Check(task.AgentView) (workspace.Options, error) {
	return workspace.Options{}, a.Ready()
}

// Plan always returns a [*NotYetError].
func (a *agent) Plan(task.AgentView) (Plan, error) { return Plan{}, a.Ready() }
