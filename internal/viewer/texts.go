package viewer

import (
	"strings"

	"securebench/internal/pipeline/record"
	"securebench/internal/transcript"
)

// texts are what was asked and what was answered in an attempt, in lower case. They are
// searched and never shown, and hold nothing that the agent did not see.
type texts [2]string

// The bounds of the texts that are kept of a run to be searched, of one and of all, in
// bytes.
const (
	mostSearched = 64 << 10
	maxSearched  = 64 << 20
)

// perRow is how many bytes of texts take about as much as a row.
const perRow = 512

// index keeps the texts of attempts.
type index struct {
	limit int // of each, which falls as there are more
	most  int // of all
	total int
	cut   bool // some were
}

// add keeps the texts of a record.
func (x *index) add(lines Lines, e record.Entry) {
	asked, answered := transcript.Texts(e.Line)
	x.keep(lines, e.Number, texts{strings.ToLower(asked), strings.ToLower(answered)})
	for x.total > x.most {
		x.limit /= 2
		x.total = 0
		for n, at := range lines {
			x.keep(lines, n, at.texts)
		}
	}
}

// keep keeps texts of a line.
func (x *index) keep(lines Lines, n int, all texts) {
	at := lines[n]
	for i, text := range all {
		if len(text) > x.limit {
			x.cut, text = true, text[:x.limit]
		}
		at.texts[i] = strings.Clone(text) // not what it is a part of
		x.total += len(text)
	}
	lines[n] = at
}

// have reports whether a word occurs in a text.
func (t *texts) have(word string) bool {
	return strings.Contains(t[0], word) || strings.Contains(t[1], word)
}

// weight is how many rows take as much memory as the run does.
func (r *Run) weight() int {
	bytes := 0
	for i := range r.lines {
		bytes += len(r.lines[i].texts[0]) + len(r.lines[i].texts[1])
	}
	return len(r.Rows) + bytes/perRow
}
