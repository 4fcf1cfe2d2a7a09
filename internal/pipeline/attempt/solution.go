package attempt

import (
	"fmt"

	"securebench/internal/agent"
	"securebench/internal/family"
)

// Solution returns a row's own solution as an agent submits it.
func Solution(sol family.Solution) (*agent.Solution, error) {
	out := &agent.Solution{Command: sol.Command, Path: sol.Path, Files: sol.Files}
	if sol.Command != nil || sol.Files != nil {
		return out, nil
	}
	var err error
	out.Kind = sol.Candidate.Kind
	if out.Data, err = sol.Candidate.Bytes(); err != nil {
		return nil, fmt.Errorf("reading the reference solution: %w", err)
	}
	return out, nil
}
