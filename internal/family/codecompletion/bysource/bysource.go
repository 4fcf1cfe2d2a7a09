// Package bysource chooses the verifier of a row of code by the form of its tests.
package bysource

import (
	"context"
	"errors"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/task"
)

// Verifiers make the verifier of each form of tests, by name.
type Verifiers map[string]func(family.Resources) family.Verifier

// Rule says when another form is worth trying for a row.
type Rule struct {
	From, To string // the row's form, and the other
	// Passed says whether the row's own solution passes as the row is.
	Passed bool
	Advice string // see [family.Alternative]
}

// Verifier scores each row with the verifier of its form.
type Verifier struct {
	of        func(task.SandboxView) string
	reference func(task.EvaluatorView) (family.Solution, bool)
	forms     map[string]family.Verifier
	rules     []Rule
}

var (
	_ family.Completer  = (*Verifier)(nil)
	_ family.Twinner    = (*Verifier)(nil)
	_ family.Alternator = (*Verifier)(nil)
	_ family.Explainer  = (*Verifier)(nil)
)

// New makes the verifier of a family. of names the form of a row's tests, which
// has to be one of those in forms; reference returns a row's own solution.
func New(of func(task.SandboxView) string, reference func(task.EvaluatorView) (family.Solution, bool), forms Verifiers, rules ...Rule) func(family.Resources) family.Verifier {
	return func(r family.Resources) family.Verifier {
		v := &Verifier{of, reference, make(map[string]family.Verifier, len(forms)), rules}
		for name, open := range forms {
			v.forms[name] = open(r)
		}
		return v
	}
}

func (v *Verifier) verifier(c family.Case) family.Verifier { return v.forms[v.of(c.Sandbox)] }

// Open implements [family.Verifier].
func (v *Verifier) Open(ctx context.Context, c family.Case) family.Session {
	return v.verifier(c).Open(ctx, c)
}

// Complete implements [family.Completer]. The references of a form that does not
// are complete as they are.
func (v *Verifier) Complete(ctx context.Context, c family.Case) (candidate.Candidate, bool, error) {
	if full, ok := v.verifier(c).(family.Completer); ok {
		return full.Complete(ctx, c)
	}
	sol, ok := v.reference(c.Evaluator)
	return sol.Candidate, ok, nil
}

// Twins implements [family.Twinner].
func (v *Verifier) Twins(ctx context.Context, c family.Case) ([]family.Twin, error) {
	if twinner, ok := v.verifier(c).(family.Twinner); ok {
		return twinner.Twins(ctx, c)
	}
	return nil, nil
}

// Explain implements [family.Explainer].
func (v *Verifier) Explain(ctx context.Context, c family.Case, got family.Verdict) ([]string, error) {
	if explainer, ok := v.verifier(c).(family.Explainer); ok {
		return explainer.Explain(ctx, c, got)
	}
	return nil, nil
}

// Alternatives implements [family.Alternator].
func (v *Verifier) Alternatives(c family.Case, passed bool) (out []family.Alternative) {
	form := v.of(c.Sandbox)
	for _, r := range v.rules {
		if r.From == form && r.Passed == passed {
			out = append(out, family.Alternative{Verifier: v.forms[r.To], Advice: r.Advice})
		}
	}
	return out
}

// Close closes all verifiers.
func (v *Verifier) Close(ctx context.Context) error {
	var errs []error
	for _, form := range v.forms {
		errs = append(errs, form.Close(ctx))
	}
	return errors.Join(errs...)
}
