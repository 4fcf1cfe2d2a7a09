package pipeline

import (
	"context"
	"fmt"
	"iter"
	"time"

	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Unscored returns why a task cannot be scored, or "".
func Unscored(t task.Task, fam family.Family, v family.Verifier) (verdict.Reason, string) {
	return unscored(t, fam, v)
}

// VerifyCase is what a verifier gets of an attempt. A timeout of 0 is the
// family's own.
func VerifyCase(t task.Task, fam family.Family, n int, img sandbox.Image, limits sandbox.Limits, timeout time.Duration) family.Case {
	return verifyCase(t, fam, n, img, limits, timeout)
}

// Reference returns a row's own solution as a candidate that stands alone;
// false where the row has none.
func Reference(ctx context.Context, v family.Verifier, fam family.Family, c family.Case) (family.Candidate, bool, error) {
	return reference(ctx, v, fam, c)
}

// readPack says of an error of tasks where it comes from.
func readPack(tasks iter.Seq2[task.Task, error]) iter.Seq2[task.Task, error] {
	return func(yield func(task.Task, error) bool) {
		for t, err := range tasks {
			if err != nil {
				err = fmt.Errorf("reading the pack: %w", err)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}
