package rubric

import (
	"fmt"

	"securebench/internal/redact"
	"securebench/internal/verdict"
)

// The bounds of what is said about differences.
const (
	maxDifferences = 20
	maxShown       = 80 // characters of a value
)

// differences are those that were found, as far as they are kept.
type differences struct {
	lines []string
	more  bool
}

// add keeps a difference, and reports whether another is of any use.
func (d *differences) add(format string, args ...any) bool {
	if len(d.lines) == maxDifferences {
		d.more = true
		return false
	}
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
	return true
}

// result is a pass without differences.
func (d *differences) result() Result {
	if len(d.lines) == 0 {
		return Result{Pass: true}
	}
	if d.more {
		d.lines = append(d.lines, "and more")
	}
	return Result{Reason: verdict.WrongAnswer, Differences: d.lines}
}

// fail is the result of a candidate with one difference.
func fail(format string, args ...any) Result {
	return Result{Reason: verdict.WrongAnswer, Differences: []string{fmt.Sprintf(format, args...)}}
}

// shown is a text of a file as messages quote it: always in quotes, for "5" is not 5.
func shown(s string) string {
	q := redact.QuoteShort(s, maxShown)
	if q[0] != '"' {
		q = `"` + q + `"`
	}
	return q
}

// longer is a text of several values.
func longer(s string) string { return redact.EscapeShort(s, 4*maxShown) }
