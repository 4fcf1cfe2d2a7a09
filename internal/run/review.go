package run

import (
	"cmp"
	"fmt"
	"securebench/internal/fault"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/workload"
)

// review decides which records of the earlier part are kept: none of an agent that
// failed if the run stopped for that, unless they are to be scored.
func (r *Run) review(former *record.Former) (*record.Review, error) {
	if r.KeepGoing || former.Sealed || !former.Manifest.AgentsFailed {
		return r.reviewOnce(former, nil)
	}
	return r.reviewOnce(former, func(e record.Entry) string {
		if e.AgentFailed() {
			return record.AgentsFailed
		}
		return ""
	})
}

// reviewOnce decides with one more reason to drop a record, unless it is nil.
func (r *Run) reviewOnce(former *record.Former, besides func(record.Entry) string) (*record.Review, error) {
	rows, err := r.work.Open()
	if err != nil {
		return nil, fault.As(fault.Pack, err)
	}
	defer rows.Close()
	j := inputs{run: r, former: former, rows: rows, images: r.imageNames(), byID: make(map[string]workload.Row, len(r.work.Rows))}
	for _, row := range r.work.Rows {
		j.byID[row.ID] = row
	}
	if besides == nil {
		besides = func(record.Entry) string { return "" }
	}
	review, err := former.Review(former.Stored, func(e record.Entry) string { return cmp.Or(j.reason(e), besides(e)) })
	if err != nil {
		return nil, fmt.Errorf("%w: %w", record.ErrIntegrity, err)
	}
	return review, j.err
}

// inputs compares records with the inputs of the resumed run.
type inputs struct {
	run    *Run
	former *record.Former
	rows   *pack.Reader
	byID   map[string]workload.Row
	images map[string]string // names in run.json, by reference
	err    error             // of reading the pack
}

// reason returns why a record cannot be kept, or "".
func (j *inputs) reason(e record.Entry) string {
	row, planned := j.byID[e.TaskID]
	switch {
	case !planned || e.Attempt < 1 || e.Attempt > j.run.Config.Attempts || e.RunID != j.run.Config.RunID || !j.run.mine(row, e.Attempt):
		return record.NotPlanned
	case e.Index != row.Index, !j.bound(e, row):
		return record.InputsChanged
	}
	return ""
}

// bound reports whether a record is bound to the run's current row, images,
// configuration and build.
func (j *inputs) bound(e record.Entry, row workload.Row) bool {
	raw, err := j.rows.Whole(row.Ref)
	if err != nil {
		j.err = fault.As(fault.Refused, err)
		return false
	}
	for _, ref := range row.CheckedIn {
		if j.former.Manifest.Images[j.images[ref]] != j.run.scorer.Images[ref].ID {
			return false
		}
	}
	b, d := j.run.binding, e.Digests
	return d.Row == b.Salt.Keyed("row", row.ID, raw) && d.Image == j.run.scorer.Images[row.Image].ID &&
		d.Config == b.Config && d.Verifier == b.Verifier && d.Assets == b.Assets &&
		j.former.Manifest.Bound(d.Pack, j.run.manifest.Digests.Manifest)
}

// maxReported is how many dropped records are reported one by one.
const maxReported = 10

// reportDropped reports which records are not kept, and why.
func (r *Run) reportDropped(review *record.Review) {
	for _, d := range review.Dropped[:min(len(review.Dropped), maxReported)] {
		what := "a record of an unknown task"
		if d.TaskID != "" {
			what = "the record of " + redact.Quote(d.TaskID)
		}
		r.warn(fmt.Sprintf("line %d is not kept: %s: %s", d.Line, what, DropReason(d.Reason)))
	}
	if n := len(review.Dropped) - maxReported; n > 0 {
		r.warn(fmt.Sprintf("more lines that are not kept: %d", n))
	}
	if n := review.Rerun[record.Missing]; n > 0 {
		r.warn(fmt.Sprintf("missing lines (gaps in the numbering): %d", n))
	}
}

// DropReason explains why a record is not kept.
func DropReason(reason string) string {
	switch reason {
	case record.Torn:
		return "its write was cut short"
	case record.Damaged:
		return "it is damaged, or another run wrote it"
	case record.OutOfChain:
		return "the hash chain is broken before it"
	case record.Duplicate:
		return "its attempt has two records"
	case record.Unfinished:
		return "it ended in an infrastructure error"
	case record.LostCapture:
		return "it ended in an infrastructure error, and " + record.CapturedName + " does not have its candidate: its agent runs again"
	case record.LostCandidate:
		return "its candidate is missing or damaged"
	case record.LostOutput:
		return "its raw output is missing or damaged"
	case record.InputsChanged:
		return "its inputs changed"
	case record.AgentsFailed:
		return "its agent failed like all others, so the run stopped"
	}
	return "its attempt is not planned"
}
