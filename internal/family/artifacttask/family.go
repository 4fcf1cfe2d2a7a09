// Package artifacttask is the family whose answers are files: tables, workbooks, documents,
// pictures, data. The candidate is the files that the row names, as the agent left them. They
// are read in a sandbox that has nothing else, and what they say is compared in this process
// with what the row's own files say.
package artifacttask

import (
	_ "embed" // the schemas

	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/family/sandboxed"
	"securebench/internal/task"
)

//go:embed schema/input.json
var inputSchema []byte

//go:embed schema/eval.json
var evalSchema []byte

// Family describes artifact_task.
func Family() family.Family {
	return family.Family{
		Name:        "artifact_task",
		InputSchema: inputSchema,
		EvalSchema:  evalSchema,
		Check:       check,
		Lanes: map[string]task.Lane{
			"reference_artifact": task.Hidden,
			"rubric":             task.Hidden,
			"solution":           task.Hidden,
			"canaries":           task.Hidden,
		},
		EvalFiles:     [][]string{{keyReference, "path"}, {"solution", "path"}},
		Extraction:    task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace},
		Submission:    submission,
		VerifySeconds: 300,
		NeedsEngine:   true,
		Boxed:         boxed,
		Footprint: func(task.SandboxView) capacity.Footprint {
			return capacity.Footprint{Halves: 2} // what reads the candidate, and what reads references
		},
		Reference:      solution,
		PublicMetadata: []string{keyOfficial, keyLeftCount, keyTypes},
		Pending:        pending,
		Judged:         asksJudge,
		Canaries:       canaries,
		NewVerifier:    newVerifier,
	}
}

// boxed reports whether a row needs its image, whatever its agent: for its solution.
func boxed(v task.EvaluatorView) bool {
	sol, ok := solution(v)
	return ok && sol.Command != nil
}

// verifier scores files.
type verifier struct {
	family.Verifier
	resources  family.Resources
	references references
}

// newVerifier makes the family's verifier. Sandboxes are made while the agent works.
func newVerifier(r family.Resources) family.Verifier {
	v := &verifier{resources: r}
	v.Verifier = sandboxed.NewVerifier(r, sandboxed.Options{Ahead: true, Begin: v.begin})
	return v
}

// begin makes the scorer of a case.
func (v *verifier) begin(c family.Case) (sandboxed.Scorer, *family.Failure) {
	s := &scorer{verifier: v, c: c, restricted: map[string][]byte{}}
	var refused *family.Failure
	s.row, refused = readRow(c.Evaluator)
	return s, refused
}
