package record

import "cmp"

// AttemptKey identifies an attempt of a run. Attempts count from 1.
type AttemptKey struct {
	Task    string
	Attempt int
}

// Key returns the key of the record's attempt.
func (l *Line) Key() AttemptKey { return AttemptKey{l.TaskID, l.Attempt} }

// InOrder sorts records as they are planned.
func InOrder(a, b *Line) int {
	return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Attempt, b.Attempt))
}
