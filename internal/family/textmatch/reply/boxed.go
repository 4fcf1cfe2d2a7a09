package reply

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/number"
)

// FindBoxed returns the number that a box states. What stands before the box in
// its clause, back to a verb or an equals sign, and what follows it in the
// sentence are read with it: -\boxed{25} is -25, and \boxed{25} million is
// unclear.
func FindBoxed(q *number.Question, p Passage, loose bool) (number.Number, number.Finding) {
	before, after := textmatch.Plain(p.Before), textmatch.Plain(p.After)
	n, finding := q.FindNumber(p.Text, loose)
	if finding != number.One {
		return n, finding
	}
	clause := lastClause(before)
	if slices.ContainsFunc(textmatch.Words(clause, -1), func(w string) bool {
		return textmatch.IsDoubt(w) || textmatch.SoftDoubt.Has(w) && !q.Has(w)
	}) {
		return number.Number{}, number.Unclear
	}
	left, ok := boxTail(clause)
	if !ok || after != "" && textmatch.IsDigit(rune(after[0])) {
		return number.Number{}, number.Unclear
	}
	// A space counts also where only the delimiters of a formula part it from the box.
	if left != "" && strings.HasSuffix(strings.TrimRight(p.Before, `$(\[{`), " ") {
		left += " "
	}
	if strings.HasPrefix(strings.TrimLeft(p.After, `$)\]}`), " ") {
		after = " " + after
	}
	return q.FindNumberIn(left+p.Text+after, len(left), len(left)+len(p.Text), loose)
}

// boxTail returns what of a clause before a box belongs to it: what follows its
// last equals sign, verb or number. It reports false where a number would touch
// the box.
func boxTail(clause string) (string, bool) {
	for i := len(clause) - 1; i > 0; i-- {
		if clause[i] == '=' && !strings.ContainsRune("!<>~/", rune(clause[i-1])) {
			clause = clause[i+1:]
			break
		}
	}
	for {
		_, after, word := textmatch.FindWord(clause, "is", "are", "was", "were", "be", "equals", "get", "gives", "have", "obtain", "becomes")
		if word == "" {
			break
		}
		clause = after
	}
	i := strings.LastIndexFunc(clause, textmatch.IsDigit)
	if i < 0 {
		return clause, true
	}
	clause = clause[i+1:]
	r, _ := utf8.DecodeRuneInString(clause)
	return clause, textmatch.CountWords(clause, 1) > 0 && !textmatch.IsLetterOrNumber(r)
}

// joinFormulas replaces line breaks inside boxes and displayed formulas by
// spaces.
func joinFormulas(s string) string {
	if !strings.Contains(s, `\`) && !strings.Contains(s, "$$") {
		return s
	}
	out := []byte(s)
	join := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] < utf8.RuneSelf && textmatch.IsLineBreak(rune(out[i])) {
				out[i] = ' '
			}
		}
	}
	end := 0 // of what is joined
	for _, b := range findBoxes(s) {
		if b.end > end {
			join(b.start, b.end)
			end = b.end
		}
	}
	for _, pair := range [...][2]string{{`\[`, `\]`}, {`\(`, `\)`}, {"$$", "$$"}} {
		for at := 0; ; {
			i := strings.Index(s[at:], pair[0])
			if i < 0 {
				break
			}
			from := at + i + len(pair[0])
			j := strings.Index(s[from:], pair[1])
			if j < 0 {
				break
			}
			if at = from + j + len(pair[1]); j <= maxFormula {
				join(from, from+j)
			}
		}
	}
	return string(out)
}

// maxFormula is the most bytes of a formula whose lines are joined.
const maxFormula = 4096

// A box is a \boxed{…} in a text.
type box struct{ start, open, end int } // of the whole; its content is s[open:end-1]

// findBoxes returns the boxes of s that are closed and lie in no other.
func findBoxes(s string) []box {
	var out []box
	var braces []box
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if n := boxStart(s[i:]); n > 0 {
				braces = append(braces, box{start: i, open: i + n})
				i += n - 1
			} else {
				i++ // an escaped brace does not count
			}
		case '{':
			braces = append(braces, box{start: -1})
		case '}':
			if len(braces) == 0 {
				continue
			}
			b := braces[len(braces)-1]
			braces = braces[:len(braces)-1]
			if b.start < 0 {
				continue
			}
			for len(out) > 0 && out[len(out)-1].start > b.start {
				out = out[:len(out)-1]
			}
			b.end = i + 1
			out = append(out, b)
		}
	}
	return out
}

// boxStart returns the length of the \boxed{ that s begins with, or 0.
func boxStart(s string) int { return len(boxOpening.FindString(s)) }

var boxOpening = regexp.MustCompile(`^\\(boxed|fbox) *\{`)
