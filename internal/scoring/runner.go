package scoring

import (
	"fmt"
	"slices"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/config"
	"securebench/internal/family"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/workload"
)

// Runner returns what runs agents, and solutions that are programs, in
// sandboxes of the operator's configuration. It forwards no variable of the
// environment. The engine must be open, users looked up and verifiers made.
func (s *Scorer) Runner(w *workload.Workload, cfg *config.Tester, runID string) *agent.Runner {
	limits := Limits(cfg.Limits)
	limits.Timeout = cfg.Limits.Produce
	audited := sandbox.WithPolicy(s.Engine, Policy(cfg.Sandbox))
	r := &agent.Runner{
		Producer: &produce.Producer{Engine: audited, Assets: s.Files.Public, Bring: s.Files.Bring, Granted: cfg.Sandbox.Capabilities,
			Env: func(string) (string, bool) { return "", false }},
		Users:  s.User,
		Limits: limits, Expect: w.PublicFiles, RunID: runID, Bounds: Bounds(cfg.Limits),
		Solutions: s.Files.Solution, ScoreTimeouts: cfg.ScoreTimeouts,
		Audit: func(taskID string, attempt int) (allowed, denied int) {
			a := audited.Take(taskID, attempt)
			return a.Allowed, a.Denied
		},
	}
	if s.Checkouts != nil { // else the interface would hold a nil keeper
		r.Checkouts = s.Checkouts
	}
	return r
}

// User returns a user that a row names in an image, if it was looked up.
func (s *Scorer) User(image, name string) (sandbox.User, bool) {
	u, ok := s.Users[workload.User{Image: image, Name: name}]
	return u, ok
}

// Bounds are the configured bounds of candidates.
func Bounds(l config.Limits) agent.Bounds {
	return agent.Bounds{Bytes: l.Candidate, Tree: candidate.Bounds{Bytes: l.Disk, Files: l.Files}}
}

// Policy is the configured policy for the commands of agents.
func Policy(c config.Sandbox) sandbox.Policy { return sandbox.Policy{Allow: c.Allow, Deny: c.Deny} }

// CheckCapabilities refuses a task that asks for a capability that the operator
// does not grant.
func CheckCapabilities(cfg config.Sandbox, v task.AgentView) error {
	for _, name := range v.Environment().Capabilities {
		if !slices.Contains(cfg.Capabilities, sandbox.Capability(name)) {
			return fmt.Errorf("task %q asks for the capability %s (environment.capabilities), which is not granted: add it to sandbox.capabilities in the tester YAML", v.ID(), name)
		}
	}
	return nil
}

// CheckProgram does the same for a task whose reference solution is a program,
// which runs in the agent's sandbox. Other tasks run nothing there.
func CheckProgram(cfg config.Sandbox, fam family.Family, t task.Task) error {
	if !hasProgram(fam, t) {
		return nil
	}
	return CheckCapabilities(cfg, t.Agent())
}

// hasProgram reports whether the reference solution of a task is a program.
func hasProgram(fam family.Family, t task.Task) bool {
	if fam.Reference == nil {
		return false
	}
	sol, ok := fam.Reference(t.Evaluator())
	return ok && sol.Command != nil
}
