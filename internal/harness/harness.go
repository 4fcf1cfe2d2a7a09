// Package harness turns the agent's view of a task into a plan: which command
// runs where, for how long, and where its candidate is taken from.
//
// It does no I/O. A plan names the operator's environment variables, never
// their values. To add a harness, write its file and add it to [types].
package harness

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"securebench/internal/task"
	"securebench/internal/workspace"
)

// DefaultTarget is where a workspace is mounted unless a task says otherwise.
const DefaultTarget = "/workspace"

// DefaultTimeout limits an agent's time if neither the row, the harness nor the
// operator does.
const DefaultTimeout = 900 * time.Second

// Plan says how a candidate is produced.
type Plan struct {
	Argv     []string
	EnvNames []string // variables whose values the parent forwards
	Env      []string // NAME=VALUE; set above all others, and no secrets
	Workdir  string   // absolute
	Target   string   // where the workspace is mounted; absolute
	// Checkout is where the task's repository is mounted, "" if it has none.
	Checkout string
	// Timeout is the smaller of the row's and the harness's, 0 if neither sets
	// one. [Plan.TimeLimit] is the limit to enforce.
	Timeout  time.Duration
	TaskFile string // relative to the workspace
	// ArtifactPath is the file in which the configuration, not the family,
	// expects the candidate; "" is none. No asset may have this path.
	ArtifactPath string
	Extract      task.Extraction
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

// Harness plans the production of candidates. It is immutable and safe for
// concurrent use. Optional capabilities are separate interfaces: [Commander]
// and [Forwarder].
type Harness interface {
	// Name is the harness's type as configured.
	Name() string
	// Ready returns a [*NotYetError] if the harness cannot run as it is
	// configured.
	Ready() error
	// Check returns the error that Plan would return: the task and the
	// configuration don't fit each other. Every task is checked before the
	// first one runs. It also returns how the workspace is laid out.
	Check(v task.AgentView) (workspace.Options, error)
	// Plan plans one task.
	Plan(v task.AgentView) (Plan, error)
}

// Commander is a harness that runs the same command for every task.
type Commander interface {
	// Command returns the command's argv.
	Command() []string
}

// Forwarder is a harness that forwards variables of the operator's environment
// into the agent's sandbox.
type Forwarder interface {
	// Forwards returns the names of the variables.
	Forwards() []string
}

// Command returns the argv that a harness runs for every task, nil if it
// depends on the task.
func Command(h Harness) []string {
	if c, ok := h.(Commander); ok {
		return c.Command()
	}
	return nil
}

// NotYetError means that a valid configuration asks for something that this
// version does not support.
type NotYetError struct {
	Harness string
	What    string // what is not supported; "" is the harness itself
}

// Error names what is not supported and the alternative.
func (e *NotYetError) Error() string {
	if e.What == "" {
		return fmt.Sprintf("the %s harness cannot run yet; use harness.type command", e.Harness)
	}
	return fmt.Sprintf("the %s harness cannot run with %s yet; remove it from harness.config", e.Harness, e.What)
}

// Warnings lists what a harness's configuration may contain but likely should
// not, one line each.
func Warnings(h Harness) []string {
	f, ok := h.(Forwarder)
	if !ok {
		return nil
	}
	var out []string
	for _, name := range f.Forwards() {
		if LooksSecret(name) {
			out = append(out, fmt.Sprintf("harness.env forwards %s, which looks like a secret, "+
				"into the agent's sandbox: the agent can read, print and record it", name))
		}
	}
	return out
}

// LooksSecret reports whether a variable's name suggests that it holds a secret.
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
