// Package results reads what test runs report: the channel of our own drivers,
// and the text of runners that have nothing else. All of it is untrusted,
// and its reading is kept apart from what grades by it.
package results

import "errors"

// Status is what became of a test.
type Status string

// The statuses of tests.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Error   Status = "error" // it failed outside the test itself, for example in its set-up
	Skipped Status = "skipped"
	XFailed Status = "xfailed" // it failed, as its author expects
	XPassed Status = "xpassed" // it passed, against its author's expectation
)

// Bad reports whether a status makes a run fail.
func (s Status) Bad() bool { return s == Failed || s == Error || s == XPassed }

// Test is a test that a run has collected.
type Test struct {
	ID     string   `json:"id"`
	Names  []string `json:"names,omitempty"` // other names by which a row can mean it
	Status Status   `json:"status"`          // empty without a result
}

// Report is what a run reports.
type Report struct {
	Tests []Test
	// Broken holds what could not be collected: files, packages.
	Broken []string
	// Exit is the exit status that the run would have had without canaries.
	Exit int
}

// Explained reports whether an exit status agrees with the results: one of
// success with no failure, and one of failure with at least one.
func (r *Report) Explained(exit int) bool {
	bad, failed := len(r.Broken) > 0, len(r.Broken) > 0
	for _, t := range r.Tests {
		bad = bad || t.Status.Bad()
		failed = failed || t.Status == Failed || t.Status == Error
	}
	if exit == 0 {
		return !failed
	}
	return bad
}

// Errors of reports that cannot be graded.
var (
	// ErrUnfinished is wrapped by the error for a report without an end.
	ErrUnfinished = errors.New("the report has no end")
	// ErrForm is wrapped by the error for a report that breaks its form.
	ErrForm = errors.New("the report breaks its form")
)

// The bounds of a report.
const (
	maxTests = 1 << 20
	maxLine  = 1 << 20
)
