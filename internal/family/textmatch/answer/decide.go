package answer

import (
	"cmp"

	"securebench/internal/family/textmatch"
	"securebench/internal/verdict"
)

// A Finding says what a reader found in a statement.
type Finding uint8

// The findings.
const (
	Nothing    Finding = iota // no value, so that it states none
	Stated                    // one value, and all around it is understood
	Unclear                   // a value, and something that may change it
	Several                   // values that differ
	Unexpected                // one that is understood, but not among those that are accepted
)

// A Reading is what a statement gives to a reader of values.
type Reading[T any] struct {
	Finding Finding
	Value   T
	Speaks  bool   // one that is [Unclear] speaks of the value
	Why     string // names the rule, of one that is not [Stated]
	Line    bool   // the rest of its line belongs to it
}

// A Reader understands statements in one way: as a number, a choice, a text.
type Reader[T any] interface {
	// Read reads what a mark leads to, or a form encloses.
	Read(q *Question, st Statement) Reading[T]
	// Unmarked reads a reply without marks; the line is the one that decides.
	Unmarked(r *Reply) (reading Reading[T], line int)
	// Join returns what two values say together if they are the same answer.
	Join(a, b T) (T, bool)
	// Other reports whether a sentence after the answer gives another one. Near says that
	// the sentence is on the line of the answer, so that a short one is an answer.
	Other(q *Question, s Sentence, value T, near bool) bool
}

// maxDissent is the most words of an unclear statement that voids the others of its
// rank; a longer one is prose.
const maxDissent = 8

// Decide returns what a reply states: of the highest rank at which something is stated,
// all of it the same, the last statement clear, and nothing after it that takes it back.
// It never looks at what is accepted. Cut says that the reply was cut off, so that only
// marks count.
func Decide[T any](r *Reply, reader Reader[T], cut bool) (Reading[T], verdict.Reason, string) {
	if r.Blank {
		return Reading[T]{}, verdict.EmptyCandidate, "the candidate is blank"
	}
	got, last := highest(r, reader)
	var line int
	switch {
	case last >= 0:
		line = r.Statements[last].Line
	case cut:
		return got, verdict.WrongAnswer, "the reply was cut off before it marked an answer"
	default:
		got, line = reader.Unmarked(r)
	}
	switch got.Finding {
	case Nothing:
		return got, verdict.WrongAnswer, cmp.Or(got.Why, "the reply does not state an answer")
	case Unexpected:
		return got, verdict.WrongAnswer, cmp.Or(got.Why, "the answer is not the expected one")
	case Several:
		return got, verdict.AmbiguousAnswer, cmp.Or(got.Why, "the reply states several answers")
	case Unclear:
		return got, verdict.AmbiguousAnswer, cmp.Or(got.Why, "the reply does not state one answer clearly")
	}
	if takenBack(r, reader, got, line, last) {
		return got, verdict.AmbiguousAnswer, "the reply takes back the answer that it states"
	}
	return got, "", ""
}

// Silent reports whether a reply states no answer by rule: no mark leads to anything that
// could be one, and without marks no answer is clear. A reply that was cut off is not: it
// might have gone on.
func Silent[T any](r *Reply, reader Reader[T]) bool {
	if _, last := highest(r, reader); last >= 0 || r.Blank {
		return false
	}
	got, line := reader.Unmarked(r)
	if got.Finding == Unexpected || got.Finding == Stated && got.Line { // all that a line says, unless it is prose
		return textmatch.CountWords(r.Lines[line].Text, maxAnswerWords+1) > maxAnswerWords
	}
	return got.Finding != Stated
}

// maxAnswerWords is the most words of a line that is an answer as a whole.
const maxAnswerWords = 12

// maxDistinct is the most statements of one rank that are read, the same ones once.
const maxDistinct = 256

// highest reads the statements of the highest rank at which something is stated, and
// returns their common reading and the last of them, or -1.
func highest[T any](r *Reply, reader Reader[T]) (got Reading[T], last int) {
	for rank := Boxed; rank > Unmarked; rank-- {
		readings, at := ranked(r, reader, rank)
		if len(at) > 0 {
			return agreed(r, reader, readings, at), at[len(at)-1]
		}
	}
	return got, -1
}

// ranked reads the statements of a rank that state something, and returns their places.
func ranked[T any](r *Reply, reader Reader[T], rank Rank) (readings []Reading[T], at []int) {
	known := map[Statement]Reading[T]{}
	for i, st := range r.Statements {
		if st.Rank != rank {
			continue
		}
		st.Line, st.sentence = 0, 0
		reading, ok := known[st]
		if !ok {
			if len(known) == maxDistinct {
				return []Reading[T]{{Finding: Several, Why: "the reply marks more answers than are read"}}, []int{i}
			}
			reading = reader.Read(r.Question, st)
			known[st] = reading
		}
		if reading.Finding != Nothing {
			readings, at = append(readings, reading), append(at, i)
		}
	}
	return readings, at
}

// agreed returns the common reading of the statements of a rank, at their places: that of
// the last, unless another one differs.
func agreed[T any](r *Reply, reader Reader[T], readings []Reading[T], at []int) Reading[T] {
	got := readings[len(readings)-1]
	if got.Finding != Stated {
		return got
	}
	for n, reading := range readings[:len(readings)-1] {
		stated, both, same := reading.Finding == Stated, got.Value, false
		if stated || reading.Speaks {
			both, same = reader.Join(got.Value, reading.Value)
		}
		switch {
		case stated && !same, !stated && r.dissents(at[n], at[n+1], same):
			return Reading[T]{Finding: Several, Why: "the reply marks different answers"}
		case stated:
			got.Value = both
		}
	}
	return got
}

// dissents reports whether an unclear statement voids the next of its rank: one of the
// same sentence, or a short one that neither denies nor doubts what it says, nor speaks of
// the same.
func (r *Reply) dissents(at, next int, agrees bool) bool {
	st := r.Statements[at]
	if st.Line == r.Statements[next].Line && st.sentence == r.Statements[next].sentence {
		return true
	}
	words := r.Question.Words(st.Text)
	return Spoken(words) <= maxDissent && !agrees && !r.Question.Opposes(nil, words)
}

// takenBack reports whether a sentence after the deciding statement gives another
// answer: one that begins as a second thought, or a short one on the same line.
func takenBack[T any](r *Reply, reader Reader[T], got Reading[T], line, last int) bool {
	q := r.Question
	for n := line; n < len(r.Lines); n++ {
		for i, s := range r.Lines[n].Sentences {
			if n == line && (last < 0 || got.Line || i <= r.Statements[last].sentence) {
				continue
			}
			if (q.Retracts(s.Words) || n == line) && reader.Other(q, s, got.Value, n == line) {
				return true
			}
		}
	}
	return false
}

// Stated returns what a reply states as text, for a judge of the pack: what the statements
// of the highest rank have in common, or its only line. It is false for one that states
// nothing, or several things; and for the only line of one that was cut off.
func (r *Reply) Stated(cut bool) (string, bool) {
	text, ok, top := "", false, Unmarked
	for _, st := range r.Statements {
		switch {
		case st.Rank < top || st.Rank == Unmarked || st.Text == "":
		case st.Rank > top:
			text, ok, top = st.Text, true, st.Rank
		case textmatch.Normalize(st.Text) != textmatch.Normalize(text):
			ok = false
		}
	}
	if top > Unmarked || cut || len(r.Lines) != 1 {
		return text, ok
	}
	return r.Lines[0].Text, true
}
