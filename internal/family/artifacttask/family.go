// Package artifacttask is the family whose answers are files: tables, workbooks, documents,
// pictures, data. The candidate is the files that the row names, as the agent left them. They
// are read in a sandbox that has nothing else, and what they say is compared in this process
// with what the row's own files say.
package artifacttask

import (
	"context"
	_ "embed" // the schemas
	"errors"
	"maps"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/family/sandboxed"
	"securebench/internal/family/terminaltask"
	"securebench/internal/task"
	"securebench/internal/verdict"
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
			keyChecker:           task.EvaluationInputs,
			keyConverter:         task.EvaluationInputs,
		},
		EvalFiles:      [][]string{{keyReference, "path"}, {"solution", "path"}, {keyChecker, "path"}},
		Checkers:       []string{keyChecker},
		Extraction:     task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace},
		Submission:     submission,
		VerifySeconds:  300,
		NeedsEngine:    true,
		Boxed:          boxed,
		BoxedBy:        keyChecker,
		Images:         images,
		Footprint:      footprint,
		TimeLimit:      timeLimit,
		Reference:      solution,
		PublicMetadata: append(terminaltask.Family().PublicMetadata, keyOfficial, keyTypes, keyConverter),
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

// footprint is what reads the candidate, what reads references, and what the checker has.
func footprint(v task.SandboxView) capacity.Footprint {
	var f capacity.Footprint
	if _, checked := v.Get(keyChecker); checked {
		f = terminaltask.Family().Footprint(v)
	}
	f.Halves = 2
	if converterOf(v) != "" {
		f.Boxes++
	}
	return f
}

// timeLimit is the checker's.
func timeLimit(v task.SandboxView) time.Duration { return terminaltask.Family().TimeLimit(v) }

// verifier scores files.
type verifier struct {
	files, checker family.Verifier // by a rubric, and by a checker
	resources      family.Resources
	references     references
	images         sandboxed.Images
}

// newVerifier makes the family's verifier. Sandboxes that read files are made while the
// agent works.
func newVerifier(r family.Resources) family.Verifier {
	v := &verifier{resources: r, images: sandboxed.Images{Engine: r.Engine}, checker: terminaltask.Family().NewVerifier(r)}
	v.references.known.Max = maxKept
	v.files = sandboxed.NewVerifier(r, sandboxed.Options{Ahead: true, Begin: v.begin})
	return v
}

// Close implements [family.Verifier].
func (v *verifier) Close(ctx context.Context) error {
	return errors.Join(v.files.Close(ctx), v.checker.Close(ctx))
}

// begin makes the scorer of a case.
func (v *verifier) begin(c family.Case) (sandboxed.Scorer, *family.Failure) {
	s := &scorer{verifier: v, c: c, restricted: map[string][]byte{}}
	var refused *family.Failure
	if s.row, refused = readRow(c.Evaluator); refused == nil {
		refused = s.row.unknown(converterOf(c.Sandbox) != "")
	}
	return s, refused
}

// Open implements [family.Verifier].
func (v *verifier) Open(ctx context.Context, c family.Case) family.Session {
	files := v.files.Open(ctx, c)
	if _, checked := c.Sandbox.Get(keyChecker); !checked {
		return files
	}
	return &both{files, v.checker.Open(ctx, c)}
}

// both has files scored by a checker once they are what output_spec and the rubric, if the
// row has one, ask for.
type both struct{ files, checker family.Session }

// Verify implements [family.Session].
func (b *both) Verify(ctx context.Context, c candidate.Candidate) (family.Verdict, error) {
	first, err := b.files.Verify(ctx, c)
	if err != nil || first.Outcome != verdict.Passed {
		return first, err
	}
	v, err := b.checker.Verify(ctx, c)
	if err != nil {
		return v, err
	}
	v.Waited += first.Waited
	v.Metadata = joined(v.Metadata, first.Metadata)
	v.Restricted = joined(v.Restricted, first.Restricted)
	if v.Measure == nil {
		v.Measure = first.Measure
	}
	if first.Basis == verdict.Judged {
		v.Basis, v.Judge = first.Basis, first.Judge
	}
	v.Labels = append(v.Labels, first.Labels...)
	return v, nil
}

// joined returns what either map has; both have no name in common.
func joined[V any](a, b map[string]V) map[string]V {
	if a == nil {
		return b
	}
	maps.Copy(a, b)
	return a
}

// Close implements [family.Session].
func (b *both) Close(ctx context.Context) error {
	return errors.Join(b.files.Close(ctx), b.checker.Close(ctx))
}
