// Package reverify derives the verdicts of a run again, from its stored
// candidates and the pack.
package reverify

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/judge"
	"securebench/internal/pipeline/commit"
	"securebench/internal/progress"
	"securebench/internal/sandbox"
	"securebench/internal/scoring"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Recorded is the verdict that a run recorded for a stored candidate, or,
// without a candidate, that the task cannot be scored.
type Recorded struct {
	Attempt   int
	Candidate *candidate.Candidate
	Verdict   commit.Judged
}

// Rederived is a verdict that was derived again.
type Rederived struct {
	TaskID  string        `json:"task_id"`
	Index   int           `json:"index"`
	Attempt int           `json:"attempt"`
	Was     commit.Judged `json:"recorded"`
	Is      commit.Judged `json:"derived"`
	// Image is the reference of the one in which the task's row is scored, "" for none.
	Image string `json:"-"`
	// Asked says that the judge was asked anew: it may answer otherwise.
	Asked bool `json:"asked_again,omitzero"`
}

// Equal reports whether the verdict is the recorded one. A record without an
// extraction, a measure or a basis, such as one of an earlier build, is compared in its other
// parts.
func (r Rederived) Equal() bool {
	if r.Asked {
		return r.Was.Outcome == r.Is.Outcome
	}
	is := r.Is
	if r.Was.Extraction == "" && r.Was.Extracted == "" {
		is.Extraction, is.Extracted = "", ""
	}
	if r.Was.Basis == "" {
		is.Basis = ""
	}
	if r.Was.Measure == "" {
		is.Measure = ""
	}
	return r.Was == is
}

// Event is a verdict as progress shows it: passed if it is the recorded one.
func (r Rederived) Event() progress.TaskDone {
	e := progress.TaskDone{TaskID: r.TaskID, Attempt: r.Attempt, Status: verdict.StatusFailed, Outcome: r.Is.Outcome, Reason: r.Is.Reason, Word: "DIFFERENT"}
	if r.Equal() {
		e.Status, e.Score, e.Word = verdict.StatusPassed, 1, "EQUAL"
	}
	return e
}

// Config is what [Run] needs.
type Config struct {
	Families  family.Registry
	Tasks     iter.Seq2[task.Task, error]
	Verifiers map[string]family.Verifier
	Images    map[string]sandbox.Image
	Verify    sandbox.Limits
	// VerifyTimeout is a family's time limit; 0 is the family's default.
	VerifyTimeout func(fam string) time.Duration
	// Derive derives a secret from the salt, for the tests' random numbers.
	Derive  func(label string) [32]byte
	Workers int
	Retries int
	// Asked says that judges are asked anew.
	Asked bool
	// Recorded returns the verdicts of a task that are to be derived again.
	Recorded func(task.Task) ([]Recorded, error)
	// Begin is called before a verdict is derived; nil is not.
	Begin func(t task.Task, attempt int)
	// Done is called with every verdict as soon as it is known, one at a time.
	Done func(Rederived)
}

// Run derives recorded verdicts again from their candidates, through the same
// verifiers as a run and in fresh sandboxes. It does so from the last row to
// the first: a verdict that depended on earlier rows then differs.
func Run(ctx context.Context, cfg Config) error {
	var mu sync.Mutex
	return scoring.Each(ctx, cfg.Workers, cfg.verdicts(), func(ctx context.Context, v recordedVerdict) error {
		if cfg.Begin != nil {
			cfg.Begin(v.task, v.rec.Attempt)
		}
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

// block is how many rows are reversed at a time: a pack can be larger than
// what fits in memory.
const block = 4096

// verdicts yields the recorded verdicts against pack order, block by block.
func (cfg Config) verdicts() iter.Seq2[recordedVerdict, error] {
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
		for t, err := range cfg.Tasks {
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

// rederive scores one stored candidate, again after an infrastructure error.
func (cfg Config) rederive(ctx context.Context, t task.Task, rec Recorded) (Rederived, error) {
	v, fam := cfg.Verifiers[t.Family()], cfg.Families[t.Family()]
	r := Rederived{TaskID: t.ID(), Index: t.Index(), Attempt: rec.Attempt, Was: rec.Verdict, Image: t.Environment().Image,
		Asked: cfg.Asked && rec.Verdict.Basis == verdict.Judged.String() && rec.Candidate != nil}
	if reason, _ := fam.Unscored(t, v); reason != "" {
		r.Is = commit.Judge(family.Verdict{Outcome: verdict.Pending, Reason: reason, Containment: verdict.Passive, Basis: fam.Basis(t.Evaluator())})
		return r, nil
	}
	if rec.Candidate == nil {
		r.Is = commit.Judged{Outcome: "scorable"}
		return r, nil
	}
	cases := family.Cases{Limits: cfg.Verify, Timeout: cfg.VerifyTimeout(t.Family()), Derive: cfg.Derive}
	c := cases.Case(t, fam, rec.Attempt, cfg.Images[t.Environment().Image])
	got, err := scoring.Score(ctx, v, c, *rec.Candidate, nil, cfg.Retries)
	if isUnanswered(err) {
		r.Is = commit.Judged{Status: verdict.StatusPending, Outcome: unanswered}
		return r, nil
	}
	if err == nil && r.Asked && got.Reason == verdict.Budget {
		err = fault.Errorf(fault.Refused, "%w before every verdict was derived (raise judge.budget, or give --sample)", judge.ErrSpent)
	}
	r.Is = commit.Judge(got)
	return r, err
}
