package compare

import (
	"cmp"
	"math/big"
	"slices"
	"strings"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
)

// MaxSet is the most accepted answers of a set: every element of a list may be compared
// with each.
const MaxSet = 256

// A Member is an element of a set that is accepted.
type Member struct {
	Text   Text
	Number *Number // of one that is compared as a number
}

// Members reads statements as a list of every accepted answer, in any order.
type Members struct {
	Texts     *Texts
	Accepted  []Member
	Tolerance *big.Rat
}

// Join returns the first of two values: all that there are are accepted.
func (*Members) Join(a, _ int) (int, bool) { return a, true }

// Read reads what a mark leads to, or a form encloses.
func (m *Members) Read(q *answer.Question, st answer.Statement) answer.Reading[int] {
	if st.Form && q.Around(st.Before, st.After) {
		return answer.Reading[int]{Finding: answer.Unclear, Why: "a word beside the form denies or doubts it"}
	}
	for _, s := range slices.Compact([]string{st.Rest, st.Text, st.Raw}) {
		if m.matches(q, s) {
			return answer.Reading[int]{Finding: answer.Stated, Value: -1}
		}
	}
	return answer.Reading[int]{Finding: answer.Unclear, Why: "the list is not the expected one"}
}

// Unmarked reads the last line, or lines that each hold one element.
func (m *Members) Unmarked(r *answer.Reply) (answer.Reading[int], int) {
	n := len(r.Lines) - 1
	if n < 0 {
		return answer.Reading[int]{}, 0
	}
	for _, s := range []string{r.Lines[n].Source, r.Lines[n].Text} {
		if m.matches(r.Question, s) {
			return answer.Reading[int]{Finding: answer.Stated, Value: -1}, n
		}
	}
	if k := len(m.Accepted); k > 1 && n+1 >= k {
		items := make([]string, k)
		for i, l := range r.Lines[n+1-k:] {
			items[i] = answer.Plain(answer.Bullet.ReplaceAllString(l.Source, ""))
		}
		if m.fit(r.Question, items) && (n+1 == k || strings.HasSuffix(r.Lines[n-k].Text, ":")) {
			return answer.Reading[int]{Finding: answer.Stated, Value: -1}, n
		}
	}
	return answer.Reading[int]{Finding: answer.Nothing, Why: "the list is not the expected one"}, n
}

// Other reports whether a sentence after the list begins as one that takes it back.
func (m *Members) Other(q *answer.Question, s answer.Sentence, _ int, near bool) bool {
	return q.Retracts(s.Words) && near
}

// matches reports whether a text lists every accepted answer once and nothing else.
func (m *Members) matches(q *answer.Question, s string) bool {
	if len(s) > maxStated {
		return false
	}
	if m.fit(q, m.split(m.Texts.fold(s))) {
		return true
	}
	list := answer.Plain(s)
	words := q.Words(list)
	for i := range words {
		if i > maxWords || i > 0 && !q.Closed(words[:i], 0) {
			return false
		}
		if words[i].Kind == vocabulary.Sign && !words[i].OneOf("([{-−\"") {
			continue
		}
		if m.fit(q, m.split(m.Texts.fold(unwrap(list[words[i].Start:])))) {
			return true
		}
	}
	return false
}

// unwrap removes the brackets around a list, as JSON, Python and mathematics write it.
func unwrap(s string) string {
	s = strings.TrimRight(s, " .")
	for _, pair := range [...]string{"[]", "{}", "()"} {
		if len(s) > 2 && s[0] == pair[0] && s[len(s)-1] == pair[1] && !strings.ContainsAny(s[1:len(s)-1], pair) {
			return s[1 : len(s)-1]
		}
	}
	return s
}

// fit reports whether items can be paired with the accepted answers.
func (m *Members) fit(q *answer.Question, items []string) bool {
	if len(items) != len(m.Accepted) {
		return false
	}
	fits := make([][]bool, len(items))
	for i, item := range items {
		fits[i] = m.fits(q, item)
	}
	return pairs(fits)
}

// fits says for each accepted answer whether item gives it. A name may stand before a
// value: "x = 11".
func (m *Members) fits(q *answer.Question, item string) []bool {
	item = assigned(item)
	n, isNumber := ParseNumber(item)
	text := m.Texts.normal(item)
	out := make([]bool, len(m.Accepted))
	for i, a := range m.Accepted {
		if a.Number != nil {
			out[i] = isNumber && a.Number.Matches(n, m.Tolerance, q)
		} else {
			out[i] = a.Text.text != "" && a.Text.text == text || a.Text.formula != "" && sameFormula(canonical(item), a.Text.formula)
		}
	}
	return out
}

// assigned returns what stands after the equals sign of a variable.
func assigned(s string) string {
	if name, value, ok := strings.Cut(s, "="); ok && len(strings.TrimSpace(name)) == 1 && !strings.Contains(value, "=") {
		return strings.TrimSpace(value)
	}
	return s
}

// Matches reports whether got, an answer to q, equals the accepted n exactly, or lies
// within tolerance of it where tolerance is not nil; the bound itself is within. A
// percent sign on got must stand on n too, or be what q asks for. A currency sign must
// be that of n, or one that q allows where n has none; it may be left out.
func (n Number) Matches(got Number, tolerance *big.Rat, q *answer.Question) bool {
	if got.percent && !n.percent && !asksPercent(q) {
		return false
	}
	if got.currency != "" && got.currency != n.currency && (n.currency != "" || !(Numbers{}).money(q, got)) {
		return false
	}
	if tolerance == nil {
		return n.value.Cmp(got.value) == 0
	}
	diff := new(big.Rat).Sub(n.value, got.value)
	return diff.Abs(diff).Cmp(tolerance) <= 0
}

// Near reports whether got, an answer to q, lies within a share of the accepted n; the
// bound itself is within. Unlike for [Number.Matches], a percent sign must be on both or on
// neither, unless q asks for a percentage.
func (n Number) Near(got Number, share *big.Rat, q *answer.Question) bool {
	if n.percent && !got.percent && !asksPercent(q) {
		return false
	}
	tolerance := new(big.Rat).Abs(n.value)
	return n.Matches(got, tolerance.Mul(tolerance, share), q)
}

// pairs reports whether every row of a square table can have a column of its
// own in which it is true.
func pairs(fits [][]bool) bool {
	owner := make([]int, len(fits)) // of each column; -1 for none
	for i := range owner {
		owner[i] = -1
	}
	for row := range fits {
		if !claim(fits, row, owner, make([]bool, len(fits))) {
			return false
		}
	}
	return true
}

// claim finds a column for row; owners of columns may be moved to others. No
// column is tried twice.
func claim(fits [][]bool, row int, owner []int, tried []bool) bool {
	for column, fit := range fits[row] {
		if !fit || tried[column] {
			continue
		}
		tried[column] = true
		if owner[column] < 0 || claim(fits, owner[column], owner, tried) {
			owner[column] = row
			return true
		}
	}
	return false
}

// compounds returns the accepted answers that contain a separator of list elements, the
// longest first.
func (m *Members) compounds() []string {
	var out []string
	for _, a := range m.Accepted {
		if _, end := nextSeparator(a.Text.text, 0); end > 0 && a.Number == nil {
			out = append(out, a.Text.text)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return out
}

// split cuts a folded list into its elements, at most one more than are accepted. An
// accepted answer that contains a separator is not cut where an element begins with it:
// the longest one, and each as often as it is accepted.
func (m *Members) split(focus string) []string {
	limit := len(m.Accepted)
	focus = strings.TrimRight(focus, " .")
	if strings.Contains(focus, ";") {
		return strings.SplitN(focus, ";", limit+1)
	}
	var out []string
	whole := m.compounds()
	for len(out) < limit {
		bare := strings.TrimLeft(focus, " "+quotes)
		from, i := 0, slices.IndexFunc(whole, func(c string) bool { return beginsWith(bare, c) })
		if i >= 0 {
			from = len(focus) - len(bare) + len(whole[i])
			whole = slices.Delete(whole, i, i+1)
		}
		start, end := nextSeparator(focus, from)
		if end == 0 {
			break
		}
		out = append(out, focus[:start])
		focus = focus[end:]
	}
	return append(out, focus)
}

// quotes may stand around an element of a list.
const quotes = "\"'`"

// beginsWith reports whether the first element of a list is the text c, closing
// punctuation and quotes after it aside.
func beginsWith(list, c string) bool {
	rest, ok := strings.CutPrefix(list, c)
	rest = strings.TrimLeft(rest, quotes+".:")
	return ok && (rest == "" || separatorEnd(rest, 0) > 0)
}

// nextSeparator returns where the first separator of s from s[i] on begins and
// ends: a comma that is not inside a thousands group, "and", or both. The end is
// 0 if there is none.
func nextSeparator(s string, i int) (start, end int) {
	for ; i < len(s); i++ {
		if end := separatorEnd(s, i); end > i {
			return i, end
		}
	}
	return 0, 0
}

// separatorEnd returns where the separator that begins at s[i] ends, or i.
func separatorEnd(s string, i int) int {
	end := i
	if s[i] == ',' && !inGroup(s, i) {
		end++
	}
	for _, and := range [...]string{" and ", " or ", " as well as ", " und ", " et ", " y ", " e ", "和", "、"} {
		if strings.HasPrefix(s[end:], and) {
			return end + len(and)
		}
	}
	return end
}

// inGroup reports whether the comma at s[i] is followed by exactly three
// digits and stands after one.
func inGroup(s string, i int) bool {
	return i > 0 && textmatch.IsDigit(rune(s[i-1])) && textmatch.DigitsEnd(s, i+1) == i+4
}
