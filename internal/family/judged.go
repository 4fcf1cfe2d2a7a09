package family

import (
	"maps"

	"securebench/internal/judge"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Judged returns the verdict of a judge's decision.
func Judged(d judge.Decision) Verdict {
	return Verdict{Outcome: d.Outcome, Reason: d.Reason, Message: d.Message, Containment: verdict.Passive, Basis: verdict.Judged,
		Labels: d.Labels, Judge: &d}
}

// WithJudge returns a registry for a run that has a judge. ready returns why it decides
// nothing more, a reason and one line; "" is that it does.
func (r Registry) WithJudge(ready func() (verdict.Reason, string)) Registry {
	out := maps.Clone(r)
	for name, f := range out {
		f.ready = ready
		out[name] = f
	}
	return out
}

// needsJudge says why a rubric in words has no verdict.
const needsJudge = "scoring a text rubric requires a judge"

// unjudged says why a task stays pending that a judge decides, or "".
func (f Family) unjudged(v task.EvaluatorView) (verdict.Reason, string) {
	switch {
	case f.Judged == nil || !f.Judged(v):
		return "", ""
	case f.ready == nil:
		return verdict.NoJudge, needsJudge
	}
	return f.ready()
}
