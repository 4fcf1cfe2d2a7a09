// Package repopatch is the family in which the agent changes a repository and
// the change is the candidate. It has no verifier yet: tasks stay pending.
package repopatch

import (
	_ "embed" // the schemas
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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
		Lanes: map[string]task.Lane{
			"tests":            task.EvaluationInputs,
			"candidate_policy": task.EvaluationInputs,
			"gold_patch":       task.Hidden,
		},
		Extraction: task.Extraction{Mode: task.FromGitDiff, Kind: task.Patch},
		Instruction: "Change the repository in the current directory; the difference to its first state is collected " +
			"afterwards. Do not edit tests, dependency files, lock files or build configuration unless the task requires it.",
		NeedsImage:    true,
		TimeLimit:     timeLimit,
		VerifySeconds: 300,
		Reference:     reference,
	}
}

// testSpec is the part of eval.tests that the schema cannot check.
type testSpec struct {
	Workdir string         `json:"workdir"`
	Policy  jsontext.Value `json:"candidate_policy"`
}

// check refuses a row that does not say where the repository is, or that states
// its policy twice.
func check(row family.Row) (out []family.Problem) {
	var spec testSpec
	if err := json.Unmarshal(row.Eval["tests"], &spec); err != nil {
		return []family.Problem{{Path: []string{"eval", "tests"}, Message: "cannot be read"}}
	}
	if spec.Workdir == "" && row.Environment["workdir"] == nil {
		out = append(out, family.Problem{Path: []string{"eval", "tests"}, Message: "does not set a workdir",
			Fix: "set environment.workdir to the path of the repository in the image"})
	}
	if spec.Policy != nil && row.Eval["candidate_policy"] != nil {
		out = append(out, family.Problem{Path: []string{"eval", "candidate_policy"},
			Message: "is already set in eval.tests", Fix: "remove one of the two"})
	}
	return out
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
