package terminaltask

import (
	"context"

	"securebench/internal/family"
	"securebench/internal/family/sandboxed"
	"securebench/internal/testrunner"
)

// verifier scores what agents left by running the rows' checkers.
type verifier struct {
	family.Verifier
	resources family.Resources
	images    sandboxed.Images
}

// newVerifier makes the family's verifier. Sandboxes are made once the candidate is
// there: nothing of them could be used before.
func newVerifier(r family.Resources) family.Verifier {
	v := &verifier{resources: r, images: sandboxed.Images{Engine: r.Engine}}
	v.Verifier = sandboxed.NewVerifier(r, sandboxed.Options{Begin: v.begin})
	return v
}

// begin makes the scorer of a case.
func (v *verifier) begin(c family.Case) (sandboxed.Scorer, *family.Failure) {
	s := &scorer{verifier: v, c: c, phase: phaseFiles, metadata: map[string]any{}, restricted: map[string][]byte{}}
	var refused *family.Failure
	s.row, refused = readRow(c.Sandbox)
	return s, refused
}

// Explain says which tests of the checker did not pass, and what they said.
func (v *verifier) Explain(_ context.Context, _ family.Case, got family.Verdict) ([]string, error) {
	return testrunner.Explain(got.Restricted), nil
}
