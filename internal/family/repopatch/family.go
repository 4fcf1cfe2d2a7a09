// Package repopatch is the family in which the agent changes a repository and
// the change is the candidate. Verification lays the change over a pristine
// checkout in a fresh sandbox, takes the tests from the pack, and grades what
// they report.
package repopatch

import (
	_ "embed" // the schemas
	"time"

	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/task"
)

//go:embed schema/input.json
var inputSchema []byte

//go:embed schema/eval.json
var evalSchema []byte

// Family describes repo_patch.
func Family() family.Family {
	return family.Family{
		Name:        "repo_patch",
		InputSchema: inputSchema,
		EvalSchema:  evalSchema,
		Check:       check,
		Doubts:      doubtful,
		Lanes: map[string]task.Lane{
			"tests":            task.EvaluationInputs,
			"candidate_policy": task.EvaluationInputs,
			"gold_patch":       task.Hidden,
		},
		Checkout:   checkoutOf,
		Extraction: task.Extraction{Mode: task.FromGitDiff, Kind: task.Patch},
		Instruction: "Change the repository in the current directory. Your changes are collected " +
			"when you finish. Do not edit tests, dependency files, lock files or build configuration unless the task requires it.",
		NeedsImage:    true,
		Footprint:     func(task.SandboxView) capacity.Footprint { return capacity.Footprint{Roots: 1, Spaces: 1} },
		TimeLimit:     timeLimit,
		VerifySeconds: 300,
		Reference:     reference,
		PublicMetadata: []string{"image", "workdir", "base_commit", "image_commit", "phase",
			keyPaths, keyDenied, keyDropped, keyPreserved, keyPathCounts, keyForm},
		NewVerifier: newVerifier,
	}
}

// reference returns the gold patch.
func reference(v task.EvaluatorView) (family.Solution, bool) {
	r, _ := v.Get("gold_patch")
	text, ok := r.Text()
	return family.Solve(task.Patch, text), ok && text != ""
}

// timeLimit is that of each command of the tests.
func timeLimit(v task.SandboxView) time.Duration {
	r, _ := v.Get("tests")
	return family.Seconds(r, "timeout_seconds")
}
