package pipeline

import (
	"slices"
	"strings"

	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/pipeline/record"
	"securebench/internal/verdict"
)

// Judged is what a record says of a verdict.
type Judged struct {
	Status      verdict.Status      `json:"status"`
	Outcome     verdict.Outcome     `json:"outcome"`
	Reason      verdict.Reason      `json:"reason"`
	Containment verdict.Containment `json:"containment"`
	Labels      string              `json:"labels"` // of the verdict, sorted, with spaces between
	// Extraction is how the candidate was taken from what an agent said, and
	// Extracted the digest of what was taken.
	Extraction string `json:"extraction,omitzero"`
	Extracted  string `json:"extracted,omitzero"`
}

// JudgedOf is the verdict in a record.
func JudgedOf(l *record.Line) Judged {
	labels := slices.DeleteFunc(slices.Clone(l.Labels), func(s string) bool {
		return s == CustomLimits || s == UnpinnedImage || s == candidateRedacted // not the verdict's
	})
	return Judged{l.Status, l.Outcome, l.FailureReason, l.Containment, strings.Join(labels, " "), l.Extraction(), l.Digests.Extracted}
}

// JudgedVerdict is what a record will say of a verdict.
func JudgedVerdict(v family.Verdict) Judged {
	labels := slices.Sorted(slices.Values(v.Labels))
	j := Judged{Status: verdict.StatusFailed, Outcome: v.Outcome, Reason: v.Reason, Containment: v.Containment,
		Labels: strings.Join(slices.Compact(labels), " "), Extraction: v.Extraction}
	if v.Extracted != nil {
		j.Extracted = digest.Bytes(v.Extracted)
	}
	switch {
	case v.Outcome == verdict.Passed:
		j.Status, j.Reason = verdict.StatusPassed, ""
	case v.Outcome == verdict.Pending:
		j.Status = verdict.StatusPending
	case v.Reason == verdict.EmptyCandidate:
		j.Outcome = verdict.NoCandidate
	}
	return j
}
