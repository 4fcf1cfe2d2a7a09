package record

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"securebench/internal/digest"
	"securebench/internal/verdict"
)

// Judge checks the records of a run: each must be intact, in its place in the
// hash chain, and the only one of its attempt, and its raw output and
// candidates must exist. Resume drops the records in which it finds a fault;
// verification reports them.
type Judge struct {
	// FS is the output directory.
	FS fs.FS
	// Salt is nil for a published copy, in which neither MACs nor raw output
	// can be checked.
	Salt *digest.Salt
	// Stored checks a candidate in the store.
	Stored func(sum string) error
	// Only, unless nil, reports whether a record's files are looked at.
	Only func(Entry) bool

	next link // of the next line; prev is "" after a line that cannot be trusted
	last int  // the number of the line that next refers to
	seen map[AttemptKey]int
}

// Fault describes what is wrong with a record.
type Fault struct {
	Reason string // why the line's attempt is run again
	Err    error
	// Forged says that the bytes of Line are not those that the run wrote: its MAC
	// or the line after it says so. Digest is the one that it had, "" if unknown.
	Forged bool
	Digest string
	// Line is the line that the fault is about; 0 is the one that was checked.
	Line int
	// First is the line of the attempt's other record, for [Duplicate].
	First int
	// Gap is the number of lines that are missing before this one, for
	// [Missing].
	Gap int
}

// Next checks the next line of the file. e is the decoded line; err is set if
// it could not be decoded.
func (j *Judge) Next(raw RawLine, e Entry, err error) []Fault {
	if j.seen == nil {
		j.seen, j.next = map[AttemptKey]int{}, link{prev: Genesis}
	}
	var faults []Fault
	add := func(reason, format string, args ...any) {
		faults = append(faults, Fault{Reason: reason, Err: fmt.Errorf(format, args...)})
	}
	if raw.Torn {
		add(Torn, "cut short: its end of line is missing")
	}
	forged := err == nil && j.Salt != nil && !e.Authentic(*j.Salt)
	if forged {
		err = errors.New("its MAC is wrong: this run did not write it")
	}
	if err != nil {
		faults = append(faults, Fault{Reason: Damaged, Err: err, Forged: forged})
		j.next, j.last = link{j.next.seq + 1, ""}, raw.Number
		return faults
	}
	inChain := true
	if f, ok := j.chain(raw.Number, e); ok {
		faults = append(faults, f)
		inChain = f.Reason != OutOfChain
	}
	// A copied line is not a second record of its attempt.
	if first, dup := j.seen[e.Key()]; dup && inChain {
		faults = append(faults, Fault{Reason: Duplicate, First: first,
			Err: fmt.Errorf("row %d, attempt %d already has a record in line %d", e.Index, e.Attempt, first)})
	} else if inChain {
		j.seen[e.Key()] = raw.Number
	}
	for _, err := range e.contradictions() {
		add(Damaged, "%w", err)
	}
	if j.Only != nil && !j.Only(e) {
		return faults
	}
	if j.Salt != nil {
		for _, f := range e.Restricted {
			if err := f.Check(j.FS, *j.Salt, e.TaskID); err != nil {
				add(LostOutput, "%w", err)
			}
		}
	}
	for _, sum := range e.Candidates() {
		if err := j.Stored(sum); err != nil {
			add(LostCandidate, "%w", err)
		}
	}
	return faults
}

// chain checks a record's position in the hash chain.
func (j *Judge) chain(line int, e Entry) (Fault, bool) {
	want, last := j.next, j.last
	broken := func(format string, args ...any) error {
		return fmt.Errorf("hash chain broken between lines %d and %d: %w", last, line, fmt.Errorf(format, args...))
	}
	follows := want.prev == "" || e.Prev == want.prev
	switch {
	case last == 0 && (e.Seq != 0 || !follows):
		broken = func(string, ...any) error {
			return errors.New("the hash chain does not start with this line: it was changed or moved, or lines before it were removed")
		}
	case e.Seq == want.seq && !follows && j.Salt == nil:
		// The line before has no MAC that could be checked; this one says which
		// digest it had.
		j.next, j.last = link{e.Seq + 1, e.Digest}, line
		return Fault{Reason: Damaged, Line: last, Forged: true, Digest: e.Prev, Err: fmt.Errorf("changed since line %d was written: its digest is %s, and was %s", line, want.prev, e.Prev)}, true
	}
	if e.Seq < want.seq || e.Seq == want.seq && !follows {
		return Fault{Reason: OutOfChain, Err: broken("line %d was moved or copied, or is of another run: its seq is %d, want %d", line, e.Seq, want.seq)}, true
	}
	j.next, j.last = link{e.Seq + 1, e.Digest}, line
	if gap := int(e.Seq - want.seq); gap > 0 {
		return Fault{Reason: Missing, Err: broken("missing there: %d, because the seq of line %d is %d, want %d", gap, line, e.Seq, want.seq), Gap: gap}, true
	}
	return Fault{}, false
}

// contradictions returns the inconsistencies among a record's fields.
func (e Entry) contradictions() (out []error) {
	add := func(is bool, text string) {
		if is {
			out = append(out, errors.New(text))
		}
	}
	known := []verdict.Status{verdict.StatusPassed, verdict.StatusFailed, verdict.StatusPending}
	if !slices.Contains(known, e.Status) {
		out = append(out, fmt.Errorf("its status is %q", e.Status))
	}
	passed := e.Status == verdict.StatusPassed
	if passed != e.Passed || passed != (e.Outcome == verdict.Passed) {
		out = append(out, fmt.Errorf("its fields contradict each other: verification_status is %q, passed is %t, outcome is %q", e.Status, e.Passed, e.Outcome))
	}
	add((e.Basis == verdict.Judged) != slices.Contains(e.Labels, verdict.JudgedLabel), "its basis is "+e.Basis.String()+", and its labels say otherwise")
	add(e.Basis == verdict.Computed && (e.Judge != nil || e.JudgeRead()), "its basis is computed, and it has what a judge said")
	add(!slices.IsSorted(e.Labels), "its labels are not sorted")
	shown := e.Candidate != (Candidate{})
	add(e.Digests.Candidate == "" && (shown || e.Passed || e.Digests.Extracted != ""), "it has no digest of a candidate")
	return out
}
