package forms

import (
	"context"
	"errors"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/task"
)

// reference returns a row's own solution.
type reference = func(task.EvaluatorView) (family.Solution, bool)

// verifier scores each row with the verifier of its form.
type verifier struct {
	reference reference
	of        map[string]family.Verifier
}

var (
	_ family.Completer  = (*verifier)(nil)
	_ family.Twinner    = (*verifier)(nil)
	_ family.Alternator = (*verifier)(nil)
	_ family.Explainer  = (*verifier)(nil)
)

// NewVerifier returns what makes the family's verifier: inline makes that of
// [Inline] tests.
func NewVerifier(inline func(family.Resources) family.Verifier, ref reference) func(family.Resources) family.Verifier {
	return func(r family.Resources) family.Verifier {
		return &verifier{ref, map[string]family.Verifier{
			Inline: inline(r), casesForm: newCases(r), sharedForm: newShared(r), linkedForm: newLinked(r)}}
	}
}

// verifier returns that of a case.
func (v *verifier) verifier(c family.Case) family.Verifier { return v.of[Of(c.Sandbox)] }

// Open implements [family.Verifier].
func (v *verifier) Open(ctx context.Context, c family.Case) family.Session {
	return v.verifier(c).Open(ctx, c)
}

// Complete implements [family.Completer]. The references of a form that does not
// are complete as they are.
func (v *verifier) Complete(ctx context.Context, c family.Case) (candidate.Candidate, bool, error) {
	if full, ok := v.verifier(c).(family.Completer); ok {
		return full.Complete(ctx, c)
	}
	sol, ok := v.reference(c.Evaluator)
	return sol.Candidate, ok, nil
}

// Twins implements [family.Twinner].
func (v *verifier) Twins(ctx context.Context, c family.Case) ([]family.Twin, error) {
	if twinner, ok := v.verifier(c).(family.Twinner); ok {
		return twinner.Twins(ctx, c)
	}
	return nil, nil
}

// Explain implements [family.Explainer].
func (v *verifier) Explain(ctx context.Context, c family.Case, got family.Verdict) ([]string, error) {
	if explainer, ok := v.verifier(c).(family.Explainer); ok {
		return explainer.Explain(ctx, c, got)
	}
	return nil, nil
}

// Alternatives implements [family.Alternator]: tests that share a process with the
// candidate where they could be split from it, or the reverse.
func (v *verifier) Alternatives(c family.Case, passed bool) []family.Alternative {
	switch form := Of(c.Sandbox); {
	case form == Inline && !passed:
		return []family.Alternative{{Verifier: v.of[sharedForm],
			Advice: `the tests cannot be split from the candidate, but pass in one process with it: set eval.tests.containment to "shared"`}}
	case form == sharedForm && passed && !isFolder(c.Sandbox): // which cannot be split
		return []family.Alternative{{Verifier: v.of[Inline],
			Advice: "the tests can be split from the candidate: remove eval.tests.containment"}}
	}
	return nil
}

// Close closes all verifiers.
func (v *verifier) Close(ctx context.Context) error {
	var errs []error
	for _, form := range v.of {
		errs = append(errs, form.Close(ctx))
	}
	return errors.Join(errs...)
}
