package commit

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"securebench/internal/agent/harness"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/judge"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/verdict"
)

// phaseSandboxes is the wait for the verifier's sandboxes, in timings.
const phaseSandboxes verdict.Phase = "verifier_sandboxes"

// Verdict adds the verdict of a verification that began at start.
func (d *Draft) Verdict(v family.Verdict, start time.Time) error {
	d.took[phaseSandboxes] = v.Waited.Milliseconds()
	d.took[verdict.PhaseVerify] = (time.Since(start) - v.Waited).Milliseconds()
	d.verdict = &v
	if v.Judge != nil && v.Outcome != verdict.Pending { // which is asked again
		if err := d.restrict(judgeSide, map[string][]byte{record.ExchangesName: v.Judge.Exchanges}); err != nil {
			return err
		}
	}
	files := v.Restricted
	if v.Outcome != verdict.Passed {
		var err error
		if files, err = d.withhold(v, start); err != nil {
			return err
		}
	}
	if err := d.restrict(verifierSide, files); err != nil {
		return err
	}
	return d.extract(v)
}

// judged writes a verdict into the line.
func (d *Draft) judged(line *record.Line, v family.Verdict) {
	j := Judge(v)
	line.Status, line.Outcome, line.FailureReason, line.Containment = j.Status, j.Outcome, j.Reason, j.Containment
	line.Basis = max(line.Basis, v.Basis)
	line.Passed = v.Outcome == verdict.Passed
	line.Verified = v.Outcome != verdict.Pending
	line.Labels = append(line.Labels, v.Labels...)
	if v.Outcome == verdict.Passed {
		line.Measure = v.Measure
	} else {
		line.FailurePhase, line.FailureMessage = cmp.Or(v.Phase, verdict.PhaseVerify), v.Message
	}
	if v.Reason == verdict.EmptyCandidate {
		line.FailureMessage += exitHint(d.produced)
	}
	line.VerifierMetadata, _ = d.published(v)
	if v.Extraction != "" {
		line.VerifierMetadata.Set(record.ExtractionKey, v.Extraction)
	}
	line.VerifierMetadata.Set("verifier", d.Task.Family())
	line.VerifierStderr = v.Message
	if v.Judge != nil {
		line.Judge = shownVotes(v)
		line.Usage = record.SumUsage(line.Usage, judge.Prefixed(v.Judge.Usage))
	}
}

// shownVotes returns what a record has of a judge's votes: which criteria are met, only of
// a pass.
func shownVotes(v family.Verdict) *verdict.Judgement {
	if v.Judge.Judgement == nil {
		return nil
	}
	j := *v.Judge.Judgement
	j.Votes = slices.Clone(j.Votes)
	for i := range j.Votes {
		if v.Outcome != verdict.Passed {
			j.Votes[i].Met = nil
		}
	}
	return &j
}

// published splits a verdict's metadata into the part that the record shows
// and the part that is withheld if the candidate did not pass.
func (d *Draft) published(v family.Verdict) (shown, withheld verdict.Metadata) {
	shown, withheld = verdict.Metadata{}, verdict.Metadata{}
	public := d.c.Families[d.Task.Family()].PublicMetadata
	for k, val := range v.Metadata {
		if v.Outcome == verdict.Passed || slices.Contains(public, k) {
			shown[k] = val
		} else {
			withheld[k] = val
		}
	}
	return shown, withheld
}

// withhold moves measures to the restricted output that could reveal a hidden
// value if many failures were published: how close candidates came, and how
// long their verification took, which a candidate can make depend on its
// inputs.
func (d *Draft) withhold(v family.Verdict, start time.Time) (map[string][]byte, error) {
	_, withheld := d.published(v)
	times := map[verdict.Phase]int64{phaseSandboxes: d.took[phaseSandboxes], verdict.PhaseVerify: d.took[verdict.PhaseVerify]}
	delete(d.took, phaseSandboxes)
	delete(d.took, verdict.PhaseVerify)
	d.total = max(start.Sub(d.turn), time.Millisecond)
	if len(withheld) == 0 && v.Measure == nil {
		return v.Restricted, nil
	}
	kept := map[string]any{"verifier_metadata": withheld, "timings_ms": times}
	if v.Measure != nil {
		kept[record.MeasureKey] = v.Measure
	}
	b, err := digest.Canonical(kept)
	if err != nil {
		return nil, fmt.Errorf("encoding the withheld part of a verdict: %w", err)
	}
	files := map[string][]byte{record.WithheldName: append(b, '\n')}
	maps.Copy(files, v.Restricted)
	return files, nil
}

// extract stores what was extracted from the candidate. It is the last step
// that can fail, so no try stores one without a record.
func (d *Draft) extract(v family.Verdict) error {
	if !storable(v.Extracted) {
		return nil
	}
	c, err := d.c.Put(d.produced.Candidate.Kind, d.produced.Candidate.Origin, bytes.NewReader(v.Extracted))
	d.flushes = append(d.flushes, c.Flush())
	d.extracted = c.Digest
	return err
}

// storable reports whether there is something that was taken from a candidate
// and that the store can have a name for.
func storable(extracted []byte) bool {
	return extracted != nil && !candidate.HasTreeDigest(extracted)
}

// Judged is what a record says of a verdict.
type Judged struct {
	Status      verdict.Status      `json:"status"`
	Outcome     verdict.Outcome     `json:"outcome"`
	Reason      verdict.Reason      `json:"reason"`
	Containment verdict.Containment `json:"containment"`
	Basis       string              `json:"basis,omitzero"` // "" where a record does not say it
	Labels      string              `json:"labels"`         // of the verdict, sorted, with spaces between
	// Extraction names how the answer was extracted from the candidate, and
	// Extracted is the digest of the extracted answer.
	Extraction string `json:"extraction,omitzero"`
	Extracted  string `json:"extracted,omitzero"`
	// Judge is what a record says of a judge's votes but their cost, "" for none.
	Judge string `json:"judge,omitzero"`
	// Measure is that of a pass, "" for none.
	Measure string `json:"measure,omitzero"`
}

// JudgedOf returns the verdict in a record.
func JudgedOf(l *record.Line) Judged {
	labels := slices.DeleteFunc(slices.Clone(l.Labels), func(s string) bool {
		return !ofVerdict(s)
	})
	j := Judged{Status: l.Status, Outcome: l.Outcome, Reason: l.FailureReason, Containment: l.Containment, Basis: l.Basis.String(),
		Labels: strings.Join(labels, " "), Extraction: l.Extraction(), Extracted: l.Digests.Extracted, Measure: l.Measure.String()}
	j.Judge = votesOf(l.Judge)
	if l.NoBasis {
		j.Basis = ""
	}
	return j
}

// votesOf describes votes. The cost depends on prices, and on nothing of the candidate.
func votesOf(j *verdict.Judgement) string {
	if j == nil {
		return ""
	}
	votes := *j
	votes.Cost = nil
	b, err := digest.Canonical(votes)
	if err != nil {
		return "unreadable"
	}
	return string(b)
}

// ofVerdict reports whether a label can be a verdict's. The others tell of the
// run, the row, the engine and the production.
func ofVerdict(label string) bool {
	switch label {
	case CustomLimits, UnpinnedImage, candidateRedacted, ScoredTimeout, family.DiskSampled, Adapted,
		verdict.JudgedLabel, // says the basis again
		produce.NetworkEnabled, produce.PrivateNetwork, produce.ExternalTools, produce.OldLayout, SocketsUnbounded,
		produce.Ablated, harness.Likely, harness.LikelyEach:
		return false
	}
	return !strings.HasPrefix(label, CapabilityLabel)
}

// Judge returns how a record describes a verdict.
func Judge(v family.Verdict) Judged {
	labels := slices.DeleteFunc(slices.Sorted(slices.Values(v.Labels)), func(s string) bool { return !ofVerdict(s) })
	j := Judged{Status: verdict.StatusFailed, Outcome: v.Outcome, Reason: v.Reason, Containment: v.Containment, Basis: v.Basis.String(),
		Labels: strings.Join(slices.Compact(labels), " "), Extraction: v.Extraction}
	if storable(v.Extracted) {
		j.Extracted = digest.Bytes(v.Extracted)
	}
	if v.Judge != nil {
		j.Judge = votesOf(shownVotes(v))
	}
	switch {
	case v.Outcome == verdict.Passed:
		j.Status, j.Reason, j.Measure = verdict.StatusPassed, "", v.Measure.String()
	case v.Outcome == verdict.Pending:
		j.Status = verdict.StatusPending
	case v.Reason == verdict.EmptyCandidate:
		j.Outcome = verdict.NoCandidate
	}
	return j
}
