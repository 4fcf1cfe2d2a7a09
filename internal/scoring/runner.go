package scoring

import (
	"securebench/internal/candidate"
	"securebench/internal/config"
	"securebench/internal/pipeline/agent"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox"
	"securebench/internal/workload"
)

// Runner returns what runs agents, and solutions that are programs, in
// sandboxes of the operator's configuration. It forwards no variable of the
// environment. The engine must be open, and users looked up.
func (s *Scorer) Runner(w *workload.Workload, cfg *config.Tester, runID string) *agent.Runner {
	limits := Limits(cfg.Limits)
	limits.Timeout = cfg.Limits.Produce
	audited := sandbox.WithPolicy(s.Engine, Policy(cfg.Sandbox))
	return &agent.Runner{
		Producer: &produce.Producer{Engine: audited, Assets: s.Files.Public, Granted: cfg.Sandbox.Capabilities,
			Env: func(string) (string, bool) { return "", false }},
		Users: func(image, name string) (sandbox.User, bool) {
			u, ok := s.Users[workload.User{Image: image, Name: name}]
			return u, ok
		},
		Limits: limits, Expect: w.PublicFiles, RunID: runID, Bounds: Bounds(cfg.Limits),
		Audit: func(taskID string, attempt int) (allowed, denied int) {
			a := audited.Take(taskID, attempt)
			return a.Allowed, a.Denied
		},
	}
}

// Bounds are the configured bounds of candidates.
func Bounds(l config.Limits) agent.Bounds {
	return agent.Bounds{Bytes: l.Candidate, Tree: candidate.Bounds{Bytes: l.Disk, Files: l.Files}}
}

// Policy is the configured policy for the commands of agents.
func Policy(c config.Sandbox) sandbox.Policy { return sandbox.Policy{Allow: c.Allow, Deny: c.Deny} }
