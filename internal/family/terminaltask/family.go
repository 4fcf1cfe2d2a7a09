// Package terminaltask is the family in which the agent works on a file tree
// and the tree is the candidate. It has no verifier yet: tasks stay pending.
package terminaltask

import (
	_ "embed" // the schemas
	"time"

	"securebench/internal/family"
	"securebench/internal/task"
)

//go:embed schema/input.json
var inputSchema []byte

//go:embed schema/eval.json
var evalSchema []byte

// Family describes terminal_task.
func Family() family.Family {
	return family.Family{
		Name:        "terminal_task",
		InputSchema: inputSchema,
		EvalSchema:  evalSchema,
		Lanes: map[string]task.Lane{
			"checker":         task.EvaluationInputs,
			"needed_commands": task.EvaluationInputs,
			"run_tests":       task.EvaluationInputs,
			"test_files":      task.EvaluationInputs,
			"expected_state":  task.Hidden,
		},
		EvalFiles:  [][]string{{"checker", "path"}},
		Extraction: task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace},
		Instruction: "Do the task with the files in the current directory. Its state when you end is what counts; " +
			"processes that still run are stopped.",
		NeedsImage:    true,
		TimeLimit:     timeLimit,
		VerifySeconds: 300,
	}
}

// timeLimit is the checker's, or else that of the row's environment.
func timeLimit(v task.SandboxView) time.Duration {
	r, _ := v.Get("checker")
	if t := family.Seconds(r, "timeout_seconds"); t > 0 {
		return t
	}
	return v.Environment().Timeout
}
