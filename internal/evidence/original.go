package evidence

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// original says what a changed record said before, if that can be proved: if what
// other evidence holds (the stored candidate, run.json, its own other fields) makes
// up a record that was, by its digest or its MAC, the one of the run. "" is unknown.
func (r *lineCheck) original(e record.Entry, was func(record.Entry) bool) string {
	base := *e.Line
	r.restore(&base)
	for l := range verdicts(base) {
		if before, err := e.With(l); err == nil && was(before) {
			return changes(before.Line, e.Line)
		}
	}
	return ""
}

// restore puts what other files hold into a record.
func (r *lineCheck) restore(l *record.Line) {
	if r.known {
		l.RunID, l.Agent, l.BenchmarkID = r.Manifest.RunID, r.Manifest.Agent, r.Manifest.Pack.ID
	}
	if k := l.Candidate.Kind; k != task.Text && k != task.Patch {
		return
	}
	if stored, err := inlined(r.fsys, l.Digests.Candidate); err == nil {
		l.Candidate.Shown = stored
	}
}

// verdicts yields a record with its own verdict and with every other that it could
// have had: a failure's message is what the verifier said.
func verdicts(base record.Line) iter.Seq[*record.Line] {
	return func(yield func(*record.Line) bool) {
		try := func(status verdict.Status, outcome verdict.Outcome, reason verdict.Reason, phase verdict.Phase, message string) bool {
			l := base
			l.Status, l.Passed, l.Outcome = status, status == verdict.StatusPassed, outcome
			l.FailureReason, l.FailurePhase, l.FailureMessage = reason, phase, message
			return yield(&l)
		}
		if !yield(&base) || !try(verdict.StatusPassed, verdict.Passed, "", "", "") {
			return
		}
		messages := slices.Compact([]string{base.VerifierStderr, base.FailureMessage})
		for _, f := range failures() {
			for _, phase := range []verdict.Phase{verdict.PhaseVerify, "tests", "import", "checks", "candidate_patch", "candidate_policy", verdict.PhaseProduce, verdict.PhaseCapture} {
				for _, message := range messages {
					if !try(f.status, f.outcome, f.reason, phase, message) {
						return
					}
				}
			}
		}
	}
}

type failure struct {
	status  verdict.Status
	outcome verdict.Outcome
	reason  verdict.Reason
}

// failures are the verdicts that records have for a candidate, other than a pass.
func failures() (out []failure) {
	for outcome, reasons := range map[verdict.Outcome][]verdict.Reason{
		verdict.Failed: {verdict.WrongAnswer, verdict.AmbiguousAnswer, verdict.TestsFailed, verdict.WorkerExited, verdict.ProtocolViolation,
			verdict.UnsupportedOperation, verdict.PatchDoesNotApply, verdict.ServiceNotReady, verdict.CommandDenied, verdict.Policy, verdict.CandidateNotRegular},
		verdict.NoCandidate:     {verdict.EmptyCandidate, verdict.CandidateMissing, verdict.CandidateNotRegular, verdict.InvalidUTF8, verdict.Policy},
		verdict.AgentTimeout:    {verdict.ProducerTimeout},
		verdict.VerifierTimeout: {verdict.VerificationTimeout},
		verdict.Limit:           {verdict.CandidateTooLarge, verdict.OutputLimit, verdict.DiskLimit, verdict.OutOfMemory, verdict.PidsLimit, verdict.Budget},
	} {
		for _, reason := range reasons {
			out = append(out, failure{verdict.StatusFailed, outcome, reason})
		}
	}
	return append(out, failure{verdict.StatusPending, verdict.Pending, verdict.NoJudge}, failure{verdict.StatusPending, verdict.Pending, verdict.Media}, failure{verdict.StatusPending, verdict.Pending, verdict.NoVerifier})
}

// changes names the fields in which a record differs from what it was.
func changes(was, is *record.Line) string {
	var out []string
	add := func(name, before, now string) {
		if before != now {
			out = append(out, fmt.Sprintf("%s was %s and is %s", name, redact.QuoteShort(before, maxShown), redact.QuoteShort(now, maxShown)))
		}
	}
	add("run_id", was.RunID, is.RunID)
	add("agent", was.Agent, is.Agent)
	add("benchmark_id", was.BenchmarkID, is.BenchmarkID)
	add("verification_status", string(was.Status), string(is.Status))
	add("outcome", string(was.Outcome), string(is.Outcome))
	add("failure_reason", string(was.FailureReason), string(is.FailureReason))
	add("failure_message", was.FailureMessage, is.FailureMessage)
	add("candidate", was.Candidate.Shown, is.Candidate.Shown)
	return strings.Join(out, ", ")
}
