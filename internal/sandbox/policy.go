package sandbox

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Policy restricts which executables may be the command of a sandbox.
//
// It is an audit aid, not a boundary: it compares only the first word of the
// command, exactly as written. /bin/rm is not rm, and sh -c hides everything.
// What confines a command is its sandbox.
type Policy struct {
	// Allow lists the names that may run; empty allows all.
	Allow []string
	// Deny lists names that may not run; it wins over Allow, and "*" is
	// every name.
	Deny []string
}

// The reasons of a [Decision].
const (
	ReasonAllowed    = "allowed"
	ReasonDenied     = "denied by the deny list"
	ReasonNotAllowed = "not on the allow list"
)

// Decision is the answer of a policy to one command.
type Decision struct {
	Command []string `json:"command"`
	Name    string   `json:"command_name"`
	Allowed bool     `json:"allowed"`
	Reason  string   `json:"reason"`
}

// Decide applies the policy to a command.
func (p Policy) Decide(command []string) Decision {
	d := Decision{Command: slices.Clone(command), Reason: ReasonAllowed}
	if len(command) > 0 {
		d.Name = command[0]
	}
	switch {
	case slices.Contains(p.Deny, d.Name), slices.Contains(p.Deny, "*"):
		d.Reason = ReasonDenied
	case len(p.Allow) > 0 && !slices.Contains(p.Allow, d.Name):
		d.Reason = ReasonNotAllowed
	default:
		d.Allowed = true
	}
	return d
}

// PolicyError is returned by [PolicyEngine.Open] for a command that the
// policy blocks. Nothing was made for it.
type PolicyError struct{ Decision Decision }

// Error names the command and the reason.
func (e *PolicyError) Error() string {
	return fmt.Sprintf("command %q is blocked by the command policy: %s", e.Decision.Name, e.Decision.Reason)
}

// maxDecisions is how many decisions an audit keeps in full.
const maxDecisions = 64

// Audit is what a policy decided in one attempt.
type Audit struct {
	Allowed int `json:"allowed"`
	Denied  int `json:"denied"`
	// Decisions are the first 64; the counts cover all.
	Decisions []Decision `json:"decisions"`
}

// PolicyEngine is an [Engine] that applies a policy to each command before
// its sandbox is made, and counts the decisions.
type PolicyEngine struct {
	Engine
	policy Policy

	mu     sync.Mutex
	audits map[attempt]*Audit
}

// attempt is the key of an audit.
type attempt struct {
	task   string
	number int
}

// WithPolicy puts a policy in front of an engine. The zero policy blocks
// nothing but still counts.
func WithPolicy(e Engine, p Policy) *PolicyEngine {
	p.Allow, p.Deny = slices.Clone(p.Allow), slices.Clone(p.Deny)
	return &PolicyEngine{Engine: e, policy: p, audits: make(map[attempt]*Audit)}
}

// Open makes a sandbox unless the policy blocks its command; the error is a
// [*PolicyError] then. The commands of a sandbox with an init are for the caller
// to [PolicyEngine.Admit].
func (e *PolicyEngine) Open(ctx context.Context, spec Spec) (Box, error) {
	if !spec.Init {
		if err := e.Admit(spec.Labels, spec.Command); err != nil {
			return nil, err
		}
	}
	return e.Engine.Open(ctx, spec)
}

// Admit counts a command of a sandbox with these labels. The error is a
// [*PolicyError] if the policy blocks it.
func (e *PolicyEngine) Admit(labels Labels, command []string) error {
	d := e.policy.Decide(command)
	e.note(attempt{labels.Task, labels.Attempt}, d)
	if !d.Allowed {
		return &PolicyError{d}
	}
	return nil
}

func (e *PolicyEngine) note(at attempt, d Decision) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.audits[at]
	if a == nil {
		a = &Audit{}
		e.audits[at] = a
	}
	if d.Allowed {
		a.Allowed++
	} else {
		a.Denied++
	}
	if len(a.Decisions) < maxDecisions {
		a.Decisions = append(a.Decisions, d)
	}
}

// Take returns the audit of an attempt and drops it. Task and attempt are
// those of the sandboxes' labels; sandboxes that serve several tasks have the
// task "".
func (e *PolicyEngine) Take(task string, number int) Audit {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := attempt{task, number}
	a := e.audits[at]
	if a == nil {
		return Audit{}
	}
	delete(e.audits, at)
	return *a
}
