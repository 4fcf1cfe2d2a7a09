// Package harness turns the agent's view of a task into a plan: which command
// runs where, for how long, and where its candidate is taken from.
//
// It does no I/O. A plan names the operator's environment variables, never
// their values.
package harness

import (
	"fmt"
	"time"

	"securebench/internal/agent/catalogue"
	"securebench/internal/agent/events"
	"securebench/internal/gateway/access"
	"securebench/internal/redact"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// DefaultTimeout limits an agent's time if neither the row, the harness nor the
// operator does.
const DefaultTimeout = 900 * time.Second

// The addresses at which an agent finds the gateway, on its own loopback. They
// lie above the ports that kernels hand out.
const (
	ProxyAddress = "127.0.0.1:61080"
	RelayAddress = "127.0.0.1:61081"
)

// Overlay is a program that is mounted read-only: the agent's, or what runs that. Its
// release is chosen once per run.
type Overlay struct {
	Program string // its name
	Version string // exact, or a word of the registry's such as "latest"
	Target  string // absolute
	Package catalogue.Package
	// Hidden keeps the programs in its folder bin off the PATH of the agent's commands.
	Hidden bool
}

// Relay says which provider an agent talks to, and as what.
type Relay struct {
	access.Address              // API is [access.Responses], [access.Chat], [access.Messages] or [access.Gemini]
	Also               []string // further ones that the agent may speak
	Model              string   // as configured; an alias is resolved at preflight
	SmallModel         string   // "" is Model
	AllowExternalTools bool
	Requests, Tokens   int64   // budget; 0 is none
	Cost               float64 // budget in USD; 0 is none
	Total              Budget  // of all attempts of a run together
	Prices             map[string]Price
	Connections        int // requests under way at the provider; 0 is no bound
}

// Budget bounds what may be used of a provider; a zero field is no bound.
type Budget struct {
	Requests int64   `json:"requests,omitzero"`
	Tokens   int64   `json:"tokens,omitzero"`
	Cost     float64 `json:"cost_usd,omitzero"`
}

// Price is what a model costs, in USD per million tokens.
type Price struct{ Input, CachedInput, CacheWrite, Output float64 }

// Plan says how a candidate is produced.
type Plan struct {
	Argv     []string
	EnvNames []string // variables whose values the parent forwards
	Env      []string // NAME=VALUE; set above all others, and no secrets
	// TokenEnv is the variable that gets the token that the relay knows the agent
	// by, "" without a relay.
	TokenEnv string
	Workdir  string // absolute
	Target   string // where the workspace is mounted; absolute
	// Checkout is where the task's repository is mounted, "" if it has none.
	Checkout string
	// Timeout is the smaller of the row's and the harness's, 0 if neither sets
	// one. [Plan.TimeLimit] is the limit to enforce.
	Timeout time.Duration
	// TaskFile is relative to taskDir, where securebench's own files are mounted
	// read-only, or to the workspace, if taskDir is "".
	TaskFile string
	TaskDir  string
	// OldLayout says that such files are in a workspace that is the candidate.
	OldLayout bool
	// ArtifactPath is the file in which the configuration, not the family,
	// expects the candidate; "" is none. No asset may have this path.
	ArtifactPath string
	Extract      task.Extraction
	// Home is where an empty folder of the agent's user lies, "" if none does.
	Home string
	// Overlays are mounted read-only; each one's folder bin begins the PATH, unless it
	// is hidden.
	Overlays []Overlay
	// Files are written before the command starts, by its own user. Their paths are
	// absolute and lie below Home.
	Files []catalogue.File
	// FilesDir is where the operator's files are mounted read-only, "" if the agent
	// has none.
	FilesDir string
	// Relay is nil if the agent has no provider.
	Relay *Relay
	// Domains are those that the agent may reach through the proxy, and Private those of
	// them that may have private addresses, with a port of their own or none.
	Domains, Private []string
	// Question is asked of a model instead of running a command, which then there
	// is none; nil for all other harnesses.
	Question *Question
	// Output is how the agent's standard output is read. Unless it is plain, a
	// candidate from standard output is the agent's last message.
	Output *events.Format
	// Metadata begins the record's producer_metadata.
	Metadata map[string]any
}

// TimeLimit returns the time limit to enforce: the smaller of the plan's and
// the operator's, or [DefaultTimeout] if neither is set. 0 means not set.
func (p Plan) TimeLimit(operator time.Duration) time.Duration {
	if t := shorter(p.Timeout, operator); t > 0 {
		return t
	}
	return DefaultTimeout
}

// shorter returns the smaller of two limits; 0 means no limit.
func shorter(a, b time.Duration) time.Duration {
	if a <= 0 || b <= 0 {
		return max(a, b, 0)
	}
	return min(a, b)
}

// Needs is what a run prepares once for a harness, whatever the task.
type Needs struct {
	Argv     []string // of the command, or as much of it as every task has; nil for none
	Env      []string // variables of the operator's environment that the agent gets
	Overlays []Overlay
	Version  []string // prints the version of the first overlay, in a sandbox that has all
	Relay    *Relay   // nil if the agent has no relay
	Model    *Model   // nil unless a model is asked from this process
	Domains  []string
	Private  []string // of the domains, that may have private addresses
	Output   *events.Format
	Files    *Files // nil for none
	// Requirements is a file of Python's requirements, below the tester YAML; "" for none.
	Requirements string
	Image        string // of the agent, instead of the rows' own; "" is theirs
}

// Provider returns who serves the models, for the relay or for this process; nil
// if nothing else does.
func (n Needs) Provider() *Relay {
	if n.Model != nil {
		return &n.Model.Relay
	}
	return n.Relay
}

// Harness plans the production of candidates. It is immutable and safe for
// concurrent use. A harness may be an [Aliaser] as well.
type Harness interface {
	// Name is the harness's type as configured.
	Name() string
	// Needs returns what is in every plan of the harness.
	Needs() Needs
	// Check returns the error that Plan would return: the task and the
	// configuration don't fit each other. Every task is checked before the
	// first one runs. It also returns how the workspace is laid out.
	Check(v task.AgentView) (workspace.Options, error)
	// Plan plans one task.
	Plan(v task.AgentView) (Plan, error)
}

// Versioned is a harness whose program has a version that its records name.
type Versioned interface {
	// Ran returns the same harness with the version that runs.
	Ran(version string) Harness
}

// Aliaser is a harness whose model can be an alias, which the agent's program
// turns into a name.
type Aliaser interface {
	// Alias returns the alias, "" if the model is a name.
	Alias() string
	// Probe plans a run without a task, in an empty sandbox: the model in its
	// requests, unless it is [ProbeSmallModel], is what the alias means.
	Probe() Plan
	// Means reports whether the alias can mean a model. The program says which one
	// in the pack's image, which may have changed it.
	Means(model string) bool
	// Pinned returns the same harness with the name in place of the alias.
	Pinned(model string) Harness
}

// ProbeSmallModel is the model of requests of a probe that have nothing to do
// with the alias.
const ProbeSmallModel = "securebench-small-model"

// Warnings lists what a harness's configuration may contain but likely should
// not, one line each.
func Warnings(h Harness) []string {
	var out []string
	for _, name := range h.Needs().Env {
		if redact.NamesSecret(name) {
			out = append(out, fmt.Sprintf("harness.env forwards %s, which looks like a secret, "+
				"into the agent's sandbox: the agent can read, print and record it", name))
		}
	}
	return out
}
