package repopatch

import (
	"context"
	"errors"

	"securebench/internal/checkout"
	"securebench/internal/family"
	"securebench/internal/family/sandboxed"
	"securebench/internal/repository"
	"securebench/internal/sandbox"
	"securebench/internal/testrunner"
)

// maxPrepared is how many rows are kept prepared.
const maxPrepared = 32

// verifier scores patches. What does not depend on the candidate is found out
// once per row: the tree with the setup patch, the test files, what the image
// runs tests with.
type verifier struct {
	family.Verifier
	images sandboxed.Images
	// checkout prepares the repository of an image.
	checkout func(ctx context.Context, image sandbox.Image, dir string) (pristine, *repository.Tree, error)
	prepared sandboxed.Known[*prepared]
}

// pristine is an image's checkout without its tree; see [checkout.Checkout].
type pristine interface {
	Head() string
	At(commit string) error
	Content(path string) ([]byte, error)
	Release()
}

var _ pristine = (*checkout.Checkout)(nil)

// newVerifier makes the family's verifier. A sandbox is made once the candidate is
// there: it begins as the image, so there is nothing to do before.
func newVerifier(r family.Resources) family.Verifier {
	v := &verifier{images: sandboxed.Images{Engine: r.Engine}, prepared: sandboxed.Known[*prepared]{Max: maxPrepared}}
	v.Verifier = sandboxed.NewVerifier(r, sandboxed.Options{Begin: v.begin})
	v.checkout = func(ctx context.Context, image sandbox.Image, dir string) (pristine, *repository.Tree, error) {
		if r.Checkouts == nil {
			return nil, nil, errors.New("preparing a checkout: there is no engine")
		}
		c, err := r.Checkouts.Get(ctx, image, dir)
		if err != nil {
			return nil, nil, err
		}
		return c, c.Tree, nil
	}
	return v
}

// begin makes the scorer of a case.
func (v *verifier) begin(c family.Case) (sandboxed.Scorer, *family.Failure) {
	s := &scorer{verifier: v, c: c, phase: phaseBase, restricted: map[string][]byte{}}
	var refused *family.Failure
	s.row, refused = readRow(c)
	return s, refused
}

// Explain says which tests did not pass, and what they said.
func (v *verifier) Explain(_ context.Context, _ family.Case, got family.Verdict) ([]string, error) {
	return testrunner.Explain(got.Restricted), nil
}

// preparedKey returns the key of a row in an image.
func preparedKey(image string, r row) (sandboxed.Key, error) {
	return sandboxed.KeyOf(map[string]any{"image": image, "dir": r.dir, "user": r.user, "setup": r.setup, "tests": r.testPatch,
		"command": r.run.Command, "runner": r.run.Runner, "env": r.run.Env, "named": r.run.Named(), "fail": r.run.FailToPass})
}
