// Package harness turns what an agent may see of a task into a plan: which
// command runs where, for how long, and where its candidate is taken from.
//
// It does no I/O. A plan names environment variables, never their values.
package harness

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"securebench/internal/config"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// DefaultTarget is where a workspace is mounted unless a task says otherwise.
const DefaultTarget = "/workspace"

// DefaultTimeout bounds a production that neither the row, the harness nor
// the operator bounds.
const DefaultTimeout = 900 * time.Second

// Plan says how a candidate is produced.
type Plan struct {
	Argv     []string
	EnvNames []string // variables whose values the parent forwards
	Workdir  string   // absolute
	Target   string   // where the workspace is mounted; absolute
	// Timeout is the smaller of the row's and the harness's; 0 when neither
	// names one. [Plan.TimeLimit] is the limit to enforce.
	Timeout  time.Duration
	TaskFile string // relative to the workspace
	// ArtifactPath is the file that the configuration, not the family, asks
	// for; "" is none. Nothing may be laid there.
	ArtifactPath string
	Extract      task.Extraction
	// Metadata begins the record's producer_metadata.
	Metadata map[string]any
}

// TimeLimit returns the time limit of the production: the smaller of the
// plan's and the operator's where both are given, [DefaultTimeout] if neither
// is. A limit of 0 means that the operator set none.
func (p Plan) TimeLimit(operator time.Duration) time.Duration {
	if t := shorter(p.Timeout, operator); t > 0 {
		return t
	}
	return DefaultTimeout
}

// shorter returns the smaller of two limits, of which 0 is none.
func shorter(a, b time.Duration) time.Duration {
	if a <= 0 || b <= 0 {
		return max(a, b, 0)
	}
	return min(a, b)
}

// Harness plans the production of candidates. It is immutable and safe for
// concurrent use.
type Harness interface {
	// Name is the harness's type as configured.
	Name() string
	// Ready returns a [*NotYetError] if the harness, as it is configured,
	// cannot run, and nil otherwise.
	Ready() error
	// Check reports why a task and the configuration don't fit each other;
	// every task is checked before the first one runs. It returns how the
	// task's workspace is laid out.
	Check(v task.AgentView) (workspace.Options, error)
	// Plan plans one task that has been checked.
	Plan(v task.AgentView) (Plan, error)
}

// NotYetError says that a valid configuration asks for something that this
// version cannot do.
type NotYetError struct {
	Harness string
	What    string // what cannot be done; "" is the harness itself
}

// Error says it in one line.
func (e *NotYetError) Error() string {
	if e.What == "" {
		return fmt.Sprintf("the %s harness cannot run yet; use harness.type command", e.Harness)
	}
	return fmt.Sprintf("the %s harness cannot run with %s yet; remove it from harness.config", e.Harness, e.What)
}

// Parse reads a harness section: its type, the names of the environment
// variables that it forwards, and its configuration, a map or nil. It reports
// everything that is wrong.
func Parse(typ string, env []string, cfg *source.Node) (Harness, source.Problems) {
	if cfg == nil {
		cfg = &source.Node{Kind: source.Map}
	}
	if cfg.Kind != source.Map {
		return nil, source.Problems{source.Problemf(cfg.Pos, "harness.config must be an object, not %s", cfg.Kind)}
	}
	p := &parser{cfg: cfg}
	var h Harness
	switch typ {
	case "command":
		h = p.command(env)
	case "codex":
		h = p.agent(typ, true)
	case "claude_code":
		h = p.agent(typ, false)
	default:
		p.ps.Add(cfg.Pos, "", "harness.type must be one of: claude_code, codex, command")
	}
	if len(p.ps) > 0 {
		return nil, p.ps
	}
	return h, nil
}

// parser reads a configuration and collects its problems.
type parser struct {
	cfg *source.Node
	ps  source.Problems
}

func (p *parser) closed(known ...string) {
	errs, _ := p.cfg.Check("harness.config", false, known...)
	p.ps = append(p.ps, errs...)
}

// get returns the value of a key that is set, and its name in messages.
func (p *parser) get(key string) (*source.Node, string) {
	n := p.cfg.Get(key)
	if n != nil && n.Kind == source.Null {
		n = nil
	}
	return n, "harness.config." + key
}

func (p *parser) add(problem *source.Problem) {
	if problem != nil {
		p.ps = append(p.ps, problem)
	}
}

// path reads a workspace path.
func (p *parser) path(key, def string) string {
	n, what := p.get(key)
	if n == nil {
		return def
	}
	s, problem := n.Str(what)
	if problem != nil {
		p.add(problem)
		return def
	}
	c, err := workspace.CleanPath(s)
	if err != nil {
		p.ps.Add(n.Pos, "", "%s %q: %v", what, s, err)
		return def
	}
	return c
}

func (p *parser) timeout() time.Duration {
	n, what := p.get("timeout_seconds")
	if n == nil {
		return 0
	}
	d, problem := config.Seconds(n, what)
	p.add(problem)
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

// Warnings lists what is allowed in a harness's configuration and still
// likely a mistake, one line each.
func Warnings(h Harness) []string {
	c, ok := h.(*command)
	if !ok {
		return nil
	}
	var out []string
	for _, name := range c.env {
		if LooksSecret(name) {
			out = append(out, fmt.Sprintf("harness.env forwards %s, which looks like a secret, "+
				"into the agent's sandbox: the agent can read, print and record it", name))
		}
	}
	return out
}

// LooksSecret reports whether a variable of that name likely holds a secret.
// It goes by the name alone.
func LooksSecret(name string) bool {
	upper := strings.ToUpper(name)
	for _, part := range []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "APIKEY", "PRIVATE"} {
		if strings.Contains(upper, part) {
			return true
		}
	}
	words := strings.FieldsFunc(upper, func(r rune) bool { return r < '0' || r > '9' && r < 'A' || r > 'Z' })
	return slices.ContainsFunc(words, func(w string) bool {
		return w == "KEY" || w == "KEYS" || w == "AUTH" || w == "PAT" || w == "PASS"
	})
}
