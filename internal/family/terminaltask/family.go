// Package terminaltask is the family in which the agent works on the files of a
// system and what it changed is the candidate. Verification makes the changes in
// a fresh sandbox, where nothing of the agent's runs, and starts the row's
// checker there: a command, a script or tests of the pack's. What the row names
// as a service runs from the same files in a sandbox beside it.
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
		Check:       check,
		Lanes: map[string]task.Lane{
			"checker":         task.EvaluationInputs,
			"capture":         task.EvaluationInputs,
			"start":           task.EvaluationInputs,
			"needed_commands": task.EvaluationInputs,
			"run_tests":       task.EvaluationInputs,
			"test_files":      task.EvaluationInputs,
			"solution":        task.Hidden,
			"expected_state":  task.Hidden,
		},
		EvalFiles:  [][]string{{"checker", "path"}, {"solution", "path"}},
		Captured:   capturedOf,
		Checkers:   []string{"checker", "run_tests", "test_files"},
		Extraction: task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace},
		Instruction: "Do the task in the current directory. Only the files that you leave count; " +
			"processes that are still running are stopped.",
		NeedsImage:    true,
		Images:        images,
		Footprint:     footprint,
		TimeLimit:     timeLimit,
		VerifySeconds: 300,
		Reference:     solution,
		PublicMetadata: []string{"image", "checker_image", "workdir", "phase", keyEvidence, keyLeftCount,
			"denied_command", "denied_commands", "denial_reason", "needed_commands",
			"tester_disallow_dangerous_commands", "tester_denied_commands"},
		NewVerifier: newVerifier,
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
