package harness

import (
	"fmt"
	"slices"

	"securebench/internal/task"
	"securebench/internal/workspace"
)

// ProgramDir is where the files of a row's own solution are mounted, read-only,
// while that runs.
const ProgramDir = "/opt/securebench/solution"

// PlanProgram plans the run of a program that a row brings as its solution:
// in the agent's place, with the family's own way to take the candidate.
func PlanProgram(v task.AgentView, argv []string) (Plan, error) {
	p, err := place(v, workspace.DefaultTaskFile, false)
	if err != nil {
		return Plan{}, fmt.Errorf("planning task %s: %w", v.ID(), err)
	}
	p.Argv, p.Timeout = slices.Clone(argv), v.Environment().Timeout
	p.Metadata = map[string]any{"harness": "oracle"}
	return p, nil
}
