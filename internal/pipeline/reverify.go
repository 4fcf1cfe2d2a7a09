package pipeline

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Recorded is a verdict that a run recorded of a stored candidate. Without
// one it is that the task cannot be scored.
type Recorded struct {
	Attempt   int
	Candidate func() ([]byte, error)
	Said      bool // the candidate is what an agent said
	Verdict   Judged
}

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
		return s == CustomLimits || s == UnpinnedImage || s == candidateRedacted || strings.HasPrefix(s, capabilityLabel) // not the verdict's
	})
	return Judged{l.Status, l.Outcome, l.FailureReason, l.Containment, strings.Join(labels, " "), l.Extraction(), l.Digests.Extracted}
}

// judged is what a record will say of a verdict.
func judged(v family.Verdict) Judged {
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

// Rederived is a verdict that was derived anew.
type Rederived struct {
	TaskID  string `json:"task_id"`
	Index   int    `json:"index"`
	Attempt int    `json:"attempt"`
	Was     Judged `json:"recorded"`
	Is      Judged `json:"derived"`
}

// Equal reports whether the verdict is the recorded one. A record that does
// not say how the candidate was taken, as those of earlier builds, is compared
// in the rest: the verdict hangs on what is taken now.
func (r Rederived) Equal() bool {
	is := r.Is
	if r.Was.Extraction == "" && r.Was.Extracted == "" {
		is.Extraction, is.Extracted = "", ""
	}
	return r.Was == is
}

// ReverifyConfig is what [Reverify] needs.
type ReverifyConfig struct {
	Families  family.Registry
	Tasks     iter.Seq2[task.Task, error]
	Verifiers map[string]family.Verifier
	Images    map[string]sandbox.Image
	Verify    sandbox.Limits
	// VerifyTimeout is a family's time limit; 0 is the family's default.
	VerifyTimeout func(fam string) time.Duration
	Workers       int
	Retries       int
	// Recorded returns the verdicts of a task that are to be derived anew.
	Recorded func(task.Task) ([]Recorded, error)
	// Done is told of every verdict as soon as it is known, one at a time.
	Done func(Rederived)
}

// Reverify derives recorded verdicts anew from their candidates, through the
// same verifiers as a run and in fresh sandboxes. It does so from the last row
// to the first: a verdict that hung on the rows before it is another then.
func Reverify(ctx context.Context, cfg ReverifyConfig) error {
	var mu sync.Mutex
	return atOnce(ctx, cfg.Workers, cfg.verdicts(), func(ctx context.Context, v recordedVerdict) error {
		r, err := cfg.rederive(ctx, v.task, v.rec)
		if err != nil {
			return fmt.Errorf("verifying %s again: %w", v.task.ID(), err)
		}
		mu.Lock()
		defer mu.Unlock()
		cfg.Done(r)
		return nil
	})
}

type recordedVerdict struct {
	task task.Task
	rec  Recorded
}

// block is how many rows are turned round at once: a pack can be larger than
// what fits in memory.
const block = 4096

// verdicts yields the recorded verdicts against pack order, block by block.
func (cfg ReverifyConfig) verdicts() iter.Seq2[recordedVerdict, error] {
	return func(yield func(recordedVerdict, error) bool) {
		rows, kept := 0, []recordedVerdict(nil)
		turn := func() bool {
			for _, v := range slices.Backward(kept) {
				if !yield(v, nil) {
					return false
				}
			}
			rows, kept = 0, nil
			return true
		}
		for t, err := range readPack(cfg.Tasks) {
			var recs []Recorded
			if err == nil {
				recs, err = cfg.Recorded(t)
			}
			if err != nil {
				yield(recordedVerdict{}, err)
				return
			}
			for _, rec := range recs {
				kept = append(kept, recordedVerdict{t, rec})
			}
			if rows++; rows == block && !turn() {
				return
			}
		}
		turn()
	}
}

// rederive scores one stored candidate, again after an error that is ours.
func (cfg ReverifyConfig) rederive(ctx context.Context, t task.Task, rec Recorded) (Rederived, error) {
	r := Rederived{TaskID: t.ID(), Index: t.Index(), Attempt: rec.Attempt, Was: rec.Verdict}
	v, fam := cfg.Verifiers[t.Family()], cfg.Families[t.Family()]
	if reason, _ := unscored(t, fam, v); reason != "" {
		r.Is = judged(family.Verdict{Outcome: verdict.Pending, Reason: reason, Containment: verdict.Passive})
		return r, nil
	}
	if rec.Candidate == nil {
		r.Is = Judged{Outcome: "scorable"}
		return r, nil
	}
	data, err := rec.Candidate()
	if err != nil {
		return r, err
	}
	c := verifyCase(t, fam, rec.Attempt, cfg.Images[t.Environment().Image], cfg.Verify, cfg.VerifyTimeout(t.Family()))
	p := probe{cand: &family.Candidate{Kind: t.Extraction().Kind, Data: data, Said: rec.Said}}
	got, err := p.score(ctx, v, c, p.open(ctx, v, c), cfg.Retries)
	r.Is = judged(got)
	return r, err
}
