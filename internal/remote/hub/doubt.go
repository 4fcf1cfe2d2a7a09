package hub

import (
	"errors"
	"io"
	"slices"

	"securebench/internal/candidate"
	"securebench/internal/pipeline/attempt"
)

// doubt takes out of a worker's error what would end the run, unless the run sees it
// itself. A candidate that is damaged on the worker's disk only is an error of that
// machine.
func (h *Hub) doubt(j *job, e *attempt.Error) {
	if e.Class == attempt.Rejected || e.Class == attempt.Spent { // which the relay of the run knows
		e.Class = attempt.Infrastructure
	}
	damaged := slices.Contains(e.Causes, attempt.Damaged) && j.reads != nil && isDamaged(*j.reads)
	e.Causes = nil
	if damaged {
		e.Causes = []attempt.Cause{attempt.Damaged}
	}
}

// isDamaged reports whether a stored candidate is not what was stored.
func isDamaged(c candidate.Candidate) bool {
	in, err := c.Open()
	if err == nil {
		_, err = io.Copy(io.Discard, in)
		err = errors.Join(err, in.Close())
	}
	return errors.Is(err, candidate.ErrDamaged)
}
