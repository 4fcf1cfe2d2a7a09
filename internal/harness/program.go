package harness

import (
	"fmt"
	"slices"

	"securebench/internal/task"
	"securebench/internal/workspace"
)

// PlanProgram plans the run of a program that a row brings as its solution:
// in the agent's place, with the family's own way to take the candidate.
func PlanProgram(v task.AgentView, argv []string) (Plan, error) {
	target, err := mountTarget(v)
	if err != nil {
		return Plan{}, fmt.Errorf("planning task %s: %w", v.ID(), err)
	}
	return Plan{
		Argv: slices.Clone(argv), Workdir: target, Target: target, Timeout: v.Environment().Timeout,
		TaskFile: workspace.DefaultTaskFile, Extract: v.Extraction(), Metadata: map[string]any{"harness": "oracle"},
	}, nil
}
