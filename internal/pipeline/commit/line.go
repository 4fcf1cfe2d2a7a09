package commit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"securebench/internal/family"
	"securebench/internal/gateway/relay"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// failure is why an attempt has no verdict.
type failure struct {
	outcome verdict.Outcome
	reason  verdict.Reason
	phase   verdict.Phase
	message string
}

// record computes the record of the attempt from what is known of it, and from why
// there is no verdict if there could be one.
func (d *Draft) record(fail *failure) *record.Line {
	p := d.produced
	if p == nil {
		p = &attempt.Produced{}
	}
	basis := d.c.Families[d.Task.Family()].Basis(d.Task.Evaluator())
	line := &record.Line{
		RunID: d.c.RunID, TaskID: d.Task.ID(), BenchmarkID: d.Task.Pack().ID, TaskType: d.Task.Family(),
		ProducerMetadata: verdict.Metadata{}, ProducerStdout: p.Stdout, ProducerStderr: p.Stderr, Summary: d.Task.Result().Summary(),
		Index: d.Task.Index(), Attempt: d.Number, Agent: d.c.Agent, Retries: d.retries,
		Containment: verdict.Passive, Basis: basis, Labels: d.labels(p),
		Digests: d.c.Digests.Digests(d.Task, d.Image), Timings: d.took, Usage: record.SumUsage(d.spent, p.Usage), Restricted: d.raw, Workers: d.by,
	}
	maps.Copy(line.ProducerMetadata, p.Metadata)
	switch {
	case p.Limit != "":
		limited(line, p)
	case p.Rejection != nil:
		rejected(line, p)
	case p.Candidate != nil:
		d.stored(line, p)
	}
	switch {
	case fail != nil:
		line.Status, line.Outcome = verdict.StatusPending, fail.outcome
		line.FailureReason, line.FailurePhase, line.FailureMessage = fail.reason, fail.phase, fail.message
	case d.verdict != nil:
		d.judged(line, *d.verdict)
		if d.verdict.Outcome == verdict.Pending && d.verdict.Reason == verdict.Budget {
			line.Produced = d.durable // which a resume verifies
		}
	}
	if line.Basis == verdict.Judged {
		line.Labels = append(line.Labels, verdict.JudgedLabel)
	}
	slices.Sort(line.Labels)
	line.Labels = slices.Compact(line.Labels)
	return line
}

// UnpinnedImage labels records whose image is named by a tag: the image is the
// same for the whole run, but the tag may move later.
const UnpinnedImage = "unpinned_image"

// CustomLimits labels records of runs with non-default limits: more time or
// memory can improve the score.
const CustomLimits = "custom_limits"

// SocketsUnbounded labels records of runs whose engine does not bound the memory of
// sockets: a sandbox could take more of the machine's than its limit, and disturb others.
const SocketsUnbounded = "sockets_unbounded"

// candidateRedacted labels a candidate from which a secret was removed.
const candidateRedacted = "candidate_redacted"

// ScoredTimeout labels records of agents that ran out of time and whose work was
// scored all the same.
const ScoredTimeout = "scored_timeout"

// Adapted labels records of rows that differ from what their data set has.
const Adapted = "adapted"

// CapabilityLabel is the prefix of the labels for the capabilities granted to
// the agent's sandbox.
const CapabilityLabel = "capability_"

// ImageLabel returns the label of records that depend on img, or "".
func ImageLabel(img sandbox.Image) string {
	if img.ID != "" && !strings.Contains(img.Ref, "@sha256:") {
		return UnpinnedImage
	}
	return ""
}

// labels returns the record's labels before a verdict.
func (d *Draft) labels(p *attempt.Produced) []string {
	labels := append(slices.Clone(d.c.Labels), p.Labels...)
	if l := ImageLabel(d.Image); l != "" {
		labels = append(labels, l)
	}
	if p.DiskSampled {
		labels = append(labels, family.DiskSampled)
	}
	if d.Task.Adapted() {
		labels = append(labels, Adapted)
	}
	if d.Task.Environment().OldLayout {
		labels = append(labels, produce.OldLayout)
	}
	for _, c := range p.Capabilities {
		labels = append(labels, CapabilityLabel+strings.ToLower(string(c)))
	}
	return labels
}

// stored adds the stored candidate.
func (d *Draft) stored(line *record.Line, p *attempt.Produced) {
	line.Candidate, line.Digests.Candidate, line.Digests.Extracted = d.shown, p.Candidate.Digest, d.extracted
	line.ProducerMetadata.Set(record.OriginKey, p.Candidate.Origin)
	if p.Path != "" {
		line.ProducerMetadata.Set("candidate_path", p.Path)
	}
	if p.Candidate.Redacted {
		line.Labels = append(line.Labels, candidateRedacted)
	}
	if p.End == sandbox.TimedOut { // what it left counts all the same
		timedOut(line, p)
		line.Labels = append(line.Labels, ScoredTimeout)
	}
}

// limited adds that the agent hit a limit of its sandbox.
func limited(line *record.Line, p *attempt.Produced) {
	line.Status, line.Outcome = verdict.StatusFailed, verdict.Limit
	line.FailurePhase = verdict.PhaseProduce
	line.ProducerMetadata.Set("exit_code", p.ExitCode)
	line.FailureReason = LimitReason(p.Limit)
	switch p.Limit {
	case sandbox.TimedOut:
	case produce.OverBudget:
		line.FailureMessage = "the agent spent its budget at the provider"
		return
	case produce.Broken:
		line.Outcome, line.FailureMessage = verdict.NoCandidate, "the agent ended securebench's process in its sandbox, or kept it from answering"
		return
	case produce.Refused:
		line.Outcome, line.FailureMessage = verdict.NoCandidate, cmp.Or(p.Refusal, "the provider rejects what the agent asked for, though it accepts the key and the model")
		return
	default:
		line.FailureMessage = "the agent's sandbox ran into its limit: " + string(p.Limit)
		return
	}
	line.Outcome = verdict.AgentTimeout
	line.FailureMessage = fmt.Sprintf("candidate production timed out after %s seconds", seconds(p.Timeout))
	timedOut(line, p)
	line.ProducerMetadata.Set("phase", verdict.PhaseProduce)
}

// timedOut describes an agent that ran out of time.
func timedOut(line *record.Line, p *attempt.Produced) {
	line.ProducerMetadata.Set("timed_out", true)
	line.ProducerMetadata.Set("timeout_seconds", p.Timeout.Seconds())
	line.ProducerMetadata.Set("command", p.Argv)
}

// LimitReason returns the recorded reason for a limit.
func LimitReason(end sandbox.End) verdict.Reason {
	if end == sandbox.TimedOut {
		return verdict.ProducerTimeout
	}
	return verdict.Reason(end)
}

// seconds formats a duration as the reference does, with C's %g.
func seconds(d time.Duration) string { return fmt.Sprintf("%.6g", d.Seconds()) }

// rejected adds that the agent left no acceptable candidate.
func rejected(line *record.Line, p *attempt.Produced) {
	r := p.Rejection
	line.Status, line.Outcome = verdict.StatusFailed, verdict.NoCandidate
	if r.Reason == verdict.CandidateTooLarge {
		line.Outcome = verdict.Limit
	}
	line.FailureReason, line.FailurePhase, line.FailureMessage = r.Reason, verdict.PhaseCapture, r.Message+exitHint(p)
	if turns := p.Metadata.Int(verdict.TurnsKey); r.Reason == verdict.AgentFailed && turns > 0 && p.Usage[relay.Answers] >= turns {
		line.Outcome, line.FailureReason, line.FailurePhase = verdict.Limit, verdict.TurnLimit, verdict.PhaseProduce
		line.FailureMessage = fmt.Sprintf("the agent took all of its %d turns (max_turns) and left no candidate", turns)
		return
	}
	if r.Reason == verdict.AgentFailed {
		line.FailurePhase, line.FailureMessage = verdict.PhaseProduce, r.Message+lastWords(p.Raw["stderr"])
	}
}

// maxLastWords bounds what a failure message quotes of an agent's standard error,
// in characters.
const maxLastWords = 300

// lastWords quotes the end of what an agent that failed wrote to its standard
// error, on one line.
func lastWords(stderr []byte) string {
	lines := strings.FieldsFunc(string(stderr[max(0, len(stderr)-16<<10):]), func(r rune) bool { return r == '\n' || r == '\r' })
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" })
	if len(lines) == 0 {
		return "; its standard error is empty"
	}
	return "; its standard error ends with: " + redact.EscapeShort(strings.TrimSpace(lines[len(lines)-1]), maxLastWords)
}

// exitHint points out an agent that most likely did not run at all.
func exitHint(p *attempt.Produced) string {
	if p.ExitCode == 0 {
		return ""
	}
	return fmt.Sprintf(" (the command exited with %d)", p.ExitCode)
}

// phaseTotal is the whole attempt, in timings.
const phaseTotal verdict.Phase = "total"

// Line returns the record of an attempt whose calls have ended.
func (d *Draft) Line() *record.Line { return d.whole(nil) }

// whole returns a record with the time of the whole attempt.
func (d *Draft) whole(fail *failure) *record.Line {
	d.took[phaseTotal] = cmp.Or(d.total, time.Since(d.turn)).Milliseconds()
	return d.record(fail)
}

// Pending ends the attempt of a task that cannot be scored; its agent is not
// run.
func (d *Draft) Pending(reason verdict.Reason, message string) *record.Line {
	return d.pending(reason, verdict.PhaseVerify, message)
}

// PackFault ends an attempt that a pack fault made impossible: it is pending
// and final, because a retry would also fail.
func (d *Draft) PackFault(err error, phase verdict.Phase) *record.Line {
	return d.pending(verdict.PackFault, phase, Line(err))
}

func (d *Draft) pending(reason verdict.Reason, phase verdict.Phase, message string) *record.Line {
	d.produced = nil // nothing of it counts
	return d.record(&failure{verdict.Pending, reason, phase, message})
}

// Infrastructure ends an attempt after an infrastructure error: it is pending,
// counted separately, and run again by a later resume, which verifies a stored
// candidate alone. A verdict that could not be stored does not count.
func (d *Draft) Infrastructure(err error, phase verdict.Phase) *record.Line {
	d.verdict = nil
	line := d.whole(&failure{verdict.Infrastructure, verdict.InfrastructureError, phase, Line(err)})
	if d.Candidate() != nil {
		line.Produced = d.durable
	}
	return line
}
