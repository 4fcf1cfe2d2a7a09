package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"securebench/internal/family"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// line begins the attempt's record with what is known before a verdict.
func (a *attempt) line(out Produced) *record.Line {
	stdout, _ := redact.EscapedExcerpt(out.Stdout, record.ExcerptLimit)
	stderr, _ := redact.EscapedExcerpt(out.Stderr, record.ExcerptLimit)
	return &record.Line{
		RunID: a.r.RunID, TaskID: a.task.ID(), BenchmarkID: a.task.Pack().ID, TaskType: a.task.Family(),
		ProducerStdout: stdout, ProducerStderr: stderr, ProducerMetadata: out.Metadata,
		Summary: a.task.Result().Summary(),
		Index:   a.task.Index(), Attempt: a.number, Retries: a.retries, Agent: a.r.Agent.Name(),
		Containment: verdict.Passive, Labels: a.labels(),
		Digests: a.r.Digests.Digests(a.task, a.image), Timings: a.timings, Usage: out.Usage,
	}
}

// UnpinnedImage labels what depends on a tag: the image is the same for the
// whole run, and another one tomorrow.
const UnpinnedImage = "unpinned_image"

// CustomLimits labels what was run under other limits than the defaults: more
// time or memory can be the better score.
const CustomLimits = "custom_limits"

// candidateRedacted labels a candidate that a secret was taken out of.
const candidateRedacted = "candidate_redacted"

// ImageLabel is the label of records that depend on img, or "".
func ImageLabel(img sandbox.Image) string {
	if img.ID != "" && !strings.Contains(img.Ref, "@sha256:") {
		return UnpinnedImage
	}
	return ""
}

func (a *attempt) labels() []string {
	labels := slices.Clone(a.r.Labels)
	if l := ImageLabel(a.image); l != "" {
		labels = append(labels, l)
	}
	slices.Sort(labels)
	return labels
}

// candidate publishes the candidate: whole when it is short, else an excerpt
// that names its digest.
func (a *attempt) candidate(line *record.Line, out Produced) {
	c := out.Candidate
	line.Digests.Candidate = c.Digest
	if c.Redacted {
		line.Labels = append(line.Labels, candidateRedacted)
		slices.Sort(line.Labels)
	}
	text := record.Inline(c.Data)
	if c.Kind == task.Patch {
		line.Candidate.Patch = &text
	} else {
		line.Candidate.Text = &text
	}
}

// judge writes the verdict into the line.
func (a *attempt) judge(line *record.Line, out Produced, v family.Verdict) {
	j := JudgedVerdict(v)
	line.Status, line.Outcome, line.FailureReason, line.Containment = j.Status, j.Outcome, j.Reason, j.Containment
	line.Passed = v.Outcome == verdict.Passed
	line.Verified = v.Outcome != verdict.Pending
	line.Labels = append(line.Labels, v.Labels...)
	slices.Sort(line.Labels)
	line.Labels = slices.Compact(line.Labels)
	if v.Outcome != verdict.Passed {
		line.FailurePhase, line.FailureMessage = cmp.Or(v.Phase, phaseVerify), v.Message
	}
	if v.Reason == verdict.EmptyCandidate {
		line.FailureMessage += exitHint(out)
	}
	line.VerifierMetadata, _ = a.published(v)
	if v.Extraction != "" {
		line.VerifierMetadata[record.ExtractionKey] = v.Extraction
	}
	line.VerifierMetadata["verifier"] = a.task.Family()
	line.VerifierStderr = v.Message
}

// published parts a verdict's metadata: what the record shows, and what is
// held back of a candidate that did not pass.
func (a *attempt) published(v family.Verdict) (shown, held map[string]any) {
	shown, held = map[string]any{}, map[string]any{}
	for k, val := range v.Metadata {
		if v.Outcome == verdict.Passed || slices.Contains(a.family.PublicMetadata, k) {
			shown[k] = val
		} else {
			held[k] = val
		}
	}
	return shown, held
}

// limited is the line of an agent that ran into a limit of its sandbox.
// Partial work is never scored.
func (a *attempt) limited(line *record.Line, out Produced) {
	o := out.Limit
	line.Status, line.Outcome = verdict.StatusFailed, verdict.Limit
	line.FailurePhase = phaseProduce
	line.ProducerMetadata["exit_code"] = o.ExitCode
	line.FailureReason = limitReason(o.End)
	if o.End != sandbox.TimedOut {
		line.FailureMessage = "the agent's sandbox ran into its limit: " + string(o.End)
		return
	}
	line.Outcome = verdict.AgentTimeout
	line.FailureMessage = fmt.Sprintf("candidate production timed out after %s seconds", seconds(out.Timeout))
	line.ProducerMetadata["timed_out"] = true
	line.ProducerMetadata["timeout_seconds"] = out.Timeout.Seconds()
	line.ProducerMetadata["command"] = out.Argv
	line.ProducerMetadata["phase"] = phaseProduce
}

// limitReason names a limit as records do.
func limitReason(end sandbox.End) verdict.Reason {
	if end == sandbox.TimedOut {
		return verdict.ProducerTimeout
	}
	return verdict.Reason(end)
}

// seconds renders a duration as the reference does, with C's %g.
func seconds(d time.Duration) string { return fmt.Sprintf("%.6g", d.Seconds()) }

// rejected is the line of an agent that left no acceptable candidate.
func (a *attempt) rejected(line *record.Line, out Produced) {
	line.Status, line.Outcome = verdict.StatusFailed, verdict.NoCandidate
	if out.Rejection.Reason == verdict.CandidateTooLarge {
		line.Outcome = verdict.Limit
	}
	line.FailureReason, line.FailurePhase, line.FailureMessage = out.Rejection.Reason, phaseCapture, out.Rejection.Message+exitHint(out)
}

// exitHint points to an agent that most likely failed to run at all.
func exitHint(out Produced) string {
	if out.ExitCode == 0 {
		return ""
	}
	return fmt.Sprintf(" (the command exited with %d)", out.ExitCode)
}

// pending is the line of a task that nothing here can score; its agent is not
// run.
func (a *attempt) pending(reason verdict.Reason, message string) *record.Line {
	line := a.line(Produced{Metadata: map[string]any{}})
	line.Status, line.Outcome = verdict.StatusPending, verdict.Pending
	line.FailureReason, line.FailurePhase, line.FailureMessage = reason, phaseVerify, message
	return line
}
