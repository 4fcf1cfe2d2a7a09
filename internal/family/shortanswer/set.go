package shortanswer

import (
	"cmp"
	"slices"
	"strings"

	"securebench/internal/family/textmatch/number"
)

// maxSet is the most accepted answers of a set: every element of a list may be
// compared with each.
const maxSet = 256

// matchSet reports whether the focus lists every accepted answer once and
// nothing else.
func (k *key) matchSet(focus string) bool {
	items := k.split(k.fold(focus))
	if len(items) != len(k.accepted) {
		return false
	}
	fits := make([][]bool, len(items))
	for i, item := range items {
		fits[i] = k.fits(item)
	}
	return pairs(fits)
}

// fits says for each accepted answer whether item gives it.
func (k *key) fits(item string) []bool {
	n, isNumber := number.Parse(item)
	text := k.normalize(item)
	out := make([]bool, len(k.accepted))
	for i, a := range k.accepted {
		if a.isNumber {
			out[i] = isNumber && a.number.Matches(n, k.tolerance, k.question)
		} else {
			out[i] = a.text != "" && a.text == text
		}
	}
	return out
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

// compounds returns the accepted answers that contain a separator of list
// elements, the longest first.
func (k *key) compounds() []string {
	var out []string
	for _, a := range k.accepted {
		if _, end := nextSeparator(a.text, 0); end > 0 && !a.isNumber {
			out = append(out, a.text)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return out
}

// split cuts a folded list into its elements, at most one more than are
// accepted. An accepted answer that contains a separator is not cut where an
// element begins with it: the longest one, and each as often as it is accepted.
func (k *key) split(focus string) []string {
	limit := len(k.accepted)
	focus = strings.TrimRight(focus, " .")
	if strings.Contains(focus, ";") {
		return strings.SplitN(focus, ";", limit+1)
	}
	var out []string
	whole := k.compounds()
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
	const and = " and "
	end := i
	if s[i] == ',' && !inGroup(s, i) {
		end++
	}
	if rest := s[end:]; len(rest) >= len(and) && strings.EqualFold(rest[:len(and)], and) {
		end += len(and)
	}
	return end
}

// inGroup reports whether the comma at s[i] is followed by exactly three
// digits and stands after one.
func inGroup(s string, i int) bool {
	isDigit := func(j int) bool { return j >= 0 && j < len(s) && s[j] >= '0' && s[j] <= '9' }
	return isDigit(i-1) && isDigit(i+1) && isDigit(i+2) && isDigit(i+3) && !isDigit(i+4)
}
