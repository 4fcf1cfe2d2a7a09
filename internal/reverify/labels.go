package reverify

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"securebench/internal/agent/kinds"
	"securebench/internal/evidence"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/produce"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// wrongLabel returns which label of a record does not follow from its row, or "".
// Those that need no pack were compared when the run was verified, those of verdicts
// are derived with them.
func (r *Review) wrongLabel(rec recorded, t task.Task) string {
	has := func(label string) bool { return slices.Contains(rec.labels, label) }
	if t.Adapted() != has(commit.Adapted) {
		return wrong(commit.Adapted)
	}
	if t.Environment().OldLayout && r.otherBuild == "" && !has(produce.OldLayout) { // which builds before did not say
		return wrong(produce.OldLayout)
	}
	if !r.sandboxed(rec) {
		return ""
	}
	env := t.Environment()
	if env.WritableRoot && evidence.EngineSamples(r.Result.Manifest) && !has(family.DiskSampled) {
		return wrong(family.DiskSampled)
	}
	for _, name := range env.Capabilities { // without which no agent of the row is run
		if label := commit.CapabilityLabel + strings.ToLower(name); !has(label) {
			return wrong(label)
		}
	}
	for _, label := range rec.labels {
		if name, ok := strings.CutPrefix(label, commit.CapabilityLabel); ok && !slices.Contains(env.Capabilities, strings.ToUpper(name)) {
			return wrong(label)
		}
	}
	return ""
}

func wrong(label string) string { return "its label " + label + " is wrong" }

// sandboxed reports whether the candidate of a record is what an agent left in its
// sandbox.
func (r *Review) sandboxed(rec recorded) bool {
	return rec.stored != "" && rec.verdict.Outcome != verdict.Pending && kinds.Sandboxed(r.Result.Manifest.Agent)
}

// labelledLimits returns an error if the limits of the run are not the defaults and
// the run does not say so. Of a partial review, which fails anyway, that is a notice,
// as is a time limit of verifications that may have been another build's default.
func (r *Review) labelledLimits() error {
	m := r.Result.Manifest
	if slices.Contains(m.Labels, commit.CustomLimits) {
		return nil
	}
	for _, remark := range evidence.LimitRemarks(m.Limits, r.Work.Families) {
		what := fmt.Sprintf("the run lacks the label %s: %s", commit.CustomLimits, remark)
		if !r.Partial && (r.otherBuild == "" || !strings.HasPrefix(remark, "limit verify_seconds")) {
			return fault.As(fault.Integrity, errors.New(what))
		}
		r.Notice(what)
	}
	return nil
}
