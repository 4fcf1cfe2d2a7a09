package commit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// begin returns the attempt's record with everything that is known before a
// verdict.
func (d *Draft) begin(out produce.Result, own ...string) *record.Line {
	metadata := maps.Clone(out.Metadata)
	if metadata == nil {
		metadata = verdict.Metadata{}
	}
	return &record.Line{
		RunID: d.c.RunID, TaskID: d.Task.ID(), BenchmarkID: d.Task.Pack().ID, TaskType: d.Task.Family(),
		ProducerMetadata: metadata, Summary: d.Task.Result().Summary(),
		Index: d.Task.Index(), Attempt: d.Number, Agent: d.c.Agent,
		Containment: verdict.Passive, Labels: d.labels(out, own),
		Digests: d.c.Digests.Digests(d.Task, d.Image), Usage: record.SumUsage(d.spent, out.Usage),
	}
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

// labels returns the record's labels before a verdict; own are those of the
// production.
func (d *Draft) labels(out produce.Result, own []string) []string {
	labels := append(slices.Clone(d.c.Labels), own...)
	if l := ImageLabel(d.Image); l != "" {
		labels = append(labels, l)
	}
	if out.DiskSampled {
		labels = append(labels, family.DiskSampled)
	}
	if d.Task.Adapted() {
		labels = append(labels, Adapted)
	}
	if d.Task.Environment().OldLayout {
		labels = append(labels, produce.OldLayout)
	}
	labels = append(labels, out.Labels...)
	for _, c := range out.Capabilities {
		labels = append(labels, CapabilityLabel+strings.ToLower(string(c)))
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

// ownIn returns the labels of the production in a former record.
func ownIn(labels []string) (own []string) {
	for _, l := range labels {
		switch l {
		case ScoredTimeout, family.DiskSampled, produce.NetworkEnabled, produce.ExternalTools, produce.OldLayout:
			own = append(own, l)
		}
	}
	return own
}

// grantedIn is the reverse of labels: what the agent's sandbox of a former
// record was granted.
func grantedIn(labels []string) (granted []sandbox.Capability) {
	for _, l := range labels {
		if name, ok := strings.CutPrefix(l, CapabilityLabel); ok {
			granted = append(granted, sandbox.Capability(strings.ToUpper(name)))
		}
	}
	return granted
}

// candidate publishes the stored candidate: a text whole when it is short,
// else an excerpt that names its digest; of a tree its digest.
func (d *Draft) candidate(c candidate.Candidate) error {
	d.flushes = append(d.flushes, c.Flush())
	d.line.Digests.Candidate = c.Digest
	if c.Redacted {
		d.line.Labels = append(d.line.Labels, candidateRedacted)
		slices.Sort(d.line.Labels)
	}
	if c.IsTree() {
		d.line.Candidate.Workspace = &c.Digest
		d.left = &c
		return nil
	}
	data, err := c.Bytes()
	if err != nil {
		return outputError(err)
	}
	text := record.Inline(data)
	if c.Kind == task.Patch {
		d.line.Candidate.Patch = &text
	} else {
		d.line.Candidate.Text = &text
	}
	d.left = &c
	return nil
}

// limited returns the line of an agent that hit a limit of its sandbox.
func (d *Draft) limited(out produce.Result, end sandbox.End) {
	line := d.line
	line.Status, line.Outcome = verdict.StatusFailed, verdict.Limit
	line.FailurePhase = verdict.PhaseProduce
	line.ProducerMetadata.Set("exit_code", out.Outcome.ExitCode)
	line.FailureReason = LimitReason(end)
	switch end {
	case sandbox.TimedOut:
	case produce.OverBudget:
		line.FailureMessage = "the agent spent its budget at the provider"
		return
	case produce.Broken:
		line.Outcome, line.FailureMessage = verdict.NoCandidate, "the agent ended its sandbox's init, or kept it from answering"
		return
	case produce.Refused:
		line.Outcome, line.FailureMessage = verdict.NoCandidate, cmp.Or(out.Refusal, "the provider rejects what the agent asked for, though it accepts the key and the model")
		return
	default:
		line.FailureMessage = "the agent's sandbox ran into its limit: " + string(end)
		return
	}
	line.Outcome = verdict.AgentTimeout
	line.FailureMessage = fmt.Sprintf("candidate production timed out after %s seconds", seconds(out.Timeout))
	d.timedOut(out)
	line.ProducerMetadata.Set("phase", verdict.PhaseProduce)
}

// timedOut describes an agent that ran out of time.
func (d *Draft) timedOut(out produce.Result) {
	d.line.ProducerMetadata.Set("timed_out", true)
	d.line.ProducerMetadata.Set("timeout_seconds", out.Timeout.Seconds())
	d.line.ProducerMetadata.Set("command", out.Argv)
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

// rejected returns the line of an agent that left no acceptable candidate.
func (d *Draft) rejected(r *candidate.Rejection, stderr []byte) {
	d.line.Status, d.line.Outcome = verdict.StatusFailed, verdict.NoCandidate
	if r.Reason == verdict.CandidateTooLarge {
		d.line.Outcome = verdict.Limit
	}
	d.line.FailureReason, d.line.FailurePhase, d.line.FailureMessage = r.Reason, verdict.PhaseCapture, r.Message+d.exitHint()
	if r.Reason == verdict.AgentFailed {
		d.line.FailurePhase, d.line.FailureMessage = verdict.PhaseProduce, r.Message+lastWords(stderr)
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
func (d *Draft) exitHint() string {
	if d.exit == 0 {
		return ""
	}
	return fmt.Sprintf(" (the command exited with %d)", d.exit)
}

// Pending ends the attempt of a task that cannot be scored; its agent is not
// run.
func (d *Draft) Pending(reason verdict.Reason, message string) *record.Line {
	line := d.begin(produce.Result{})
	line.Status, line.Outcome = verdict.StatusPending, verdict.Pending
	line.FailureReason, line.FailurePhase, line.FailureMessage = reason, verdict.PhaseVerify, message
	line.Timings, line.Retries, line.Restricted = d.Timings, d.retries, d.raw
	return line
}

// PackFault ends an attempt that a pack fault made impossible: it is pending
// and final, because a retry would fail, too.
func (d *Draft) PackFault(err error, phase verdict.Phase) *record.Line {
	line := d.Pending(verdict.PackFault, Line(err))
	line.FailurePhase = phase
	return line
}

// Infrastructure ends an attempt after an infrastructure error: it is pending,
// counted separately, and run again by a later resume.
func (d *Draft) Infrastructure(err error, phase verdict.Phase) *record.Line {
	if d.line == nil {
		d.line = d.begin(produce.Result{})
	}
	line := d.Line()
	// A verdict that could not be stored does not count.
	line.Verified, line.Passed, line.VerifierMetadata = false, false, nil
	line.Status, line.Outcome = verdict.StatusPending, verdict.Infrastructure
	line.FailureReason, line.FailurePhase, line.FailureMessage = verdict.InfrastructureError, phase, Line(err)
	return line
}
