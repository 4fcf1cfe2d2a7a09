package answer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/vocabulary"
	"securebench/internal/lazyregexp"
)

// lines returns the lines of a text that are not blank and do not fence code.
func lines(s string) []string {
	var out []string
	for line := range strings.FieldsFuncSeq(s, textmatch.IsLineBreak) {
		if line = textmatch.Strip(line); line != "" && !isFence(line) && !isRule(line) {
			out = append(out, line)
		}
	}
	return out
}

// isRule reports whether a line only draws a rule, as between the rows of a table.
func isRule(line string) bool {
	return len(line) >= 3 && strings.Trim(line, "|-: ") == "" && strings.Contains(line, "--")
}

// isFence reports whether a line begins or ends a block of code.
func isFence(line string) bool {
	rest := strings.TrimLeft(line, "`")
	return len(line)-len(rest) >= 3 && !strings.ContainsAny(rest, " `")
}

// cutHeading removes the # of a Markdown heading from a line, and how many there are;
// four are a mark.
func cutHeading(line string) (rest string, level int) {
	rest = strings.TrimLeft(strings.TrimLeft(line, textmatch.Markup), "#")
	level = strings.Count(line[:len(line)-len(rest)], "#")
	if level == 0 || level != 4 && !strings.HasPrefix(rest, " ") {
		return line, 0
	}
	rest = strings.TrimLeft(rest, " ")
	if level == 4 && !startsValue(rest) {
		return rest, 0 // a heading of that level
	}
	return rest, level
}

// startsValue reports whether what follows #### is an answer rather than the title of
// a section: a number, a formula, a name or label that is short.
func startsValue(s string) bool {
	s = strings.TrimLeft(s, "*_` ")
	r, n := utf8.DecodeRuneInString(s)
	if unicode.IsDigit(r) {
		rest := strings.TrimLeft(s, "0123456789")
		return !strings.HasPrefix(rest, ". ") && !strings.HasPrefix(rest, ") ")
	}
	return n > 0 && (!unicode.IsLetter(r) || textmatch.CountWords(s, 2) < 2)
}

// cutBullet removes the bullet or the number of an item of a list from a line. A hyphen
// before a number may be its sign and stays.
func cutBullet(line string) string {
	mark := Bullet.FindString(line)
	r, _ := utf8.DecodeRuneInString(strings.TrimLeft(line[len(mark):], " *_`\"'“‘([{"))
	if unicode.IsLetter(r) || unicode.Is(unicode.Co, r) && mark != "- " {
		return line[len(mark):]
	}
	return line
}

// Bullet is the bullet or the number of an item of a list at the start of a line.
var Bullet = lazyregexp.New(`^([*•–‣▪-]|[0-9]{1,2}[.)]) `)

// sentences returns where the sentences of a plain line begin and end. A sentence ends
// after . ! ? and what closes with them, before a space, and does not end within a form.
// A full stop does not end one before a small letter or after an abbreviation, nor,
// unless letters are labels, after an initial as in "J. Smith".
func sentences(line string, labels bool) []textmatch.Span {
	if !strings.ContainsFunc(line, func(r rune) bool { return unform(r) < 0 }) {
		return textmatch.Sentences(line, labels)
	}
	masked, depth := []byte(line), 0
	for i, r := range line {
		_, opens := formRank[r]
		_, closes := formRank[r-1]
		switch {
		case opens:
			depth++
		case closes:
			depth--
		}
		if depth > 0 || closes {
			for j := range utf8.RuneLen(r) {
				masked[i+j] = 'x'
			}
		}
	}
	return textmatch.Sentences(string(masked), labels)
}

// join puts lines together that make sense only so: one that ends in a mark or a link
// and what follows it, one that ends in a word that denies or a sign, one that begins
// with a word that goes on.
func join(q *Question, list []string, o Options) []string {
	var out []string
	var open []string
	for i, line := range list {
		open = append(open, line)
		if i+1 == len(list) || !joined(q, open, list[i:], o) {
			out, open = append(out, strings.Join(open, " ")), nil
		}
	}
	return out
}

// joined reports whether the second of the lines belongs to the first, which is the last of
// the open ones: it goes on with it, or the first only leads to it. One that leads ends in a
// colon then, and what it leads to has no bullet.
func joined(q *Question, open, lines []string, o Options) bool {
	line, next := lines[0], lines[1]
	if continued(q, next) {
		return true
	}
	lead, unfinished := leads(q, line)
	if unfinished && beginsWithMark(q, next, o) || lead && !headed(line) && marksItself(q, next) {
		return false
	}
	if lead {
		if !strings.HasSuffix(strings.TrimRight(line, " *_`"), ":") {
			open[len(open)-1] = strings.TrimRight(line, " *_`#") + ":"
		}
		lines[1] = cutBullet(next)
	}
	return lead || unfinished
}

// maxLead is how many bytes a line has at most that only leads to the next one.
const maxLead = 200

// leads reports whether a line only leads to the next one, because it ends in a mark or
// its link, and whether it ends in a word or sign that needs one.
func leads(q *Question, line string) (lead, unfinished bool) {
	if end := strings.TrimRight(line, " *_`"); end != "" && strings.IndexByte(".!?", end[len(end)-1]) >= 0 {
		return false, false // a whole sentence
	}
	body, _ := cutHeading(line)
	tail := Plain(body[max(0, len(body)-maxLead):])
	words := Words(tail)
	n := len(words)
	for n > 0 && words[n-1].OneOf(":#*") {
		n--
	}
	if n == 0 {
		return false, false
	}
	colon := n < len(words)
	last := words[n-1]
	switch {
	case q.Is(last, vocabulary.Answer):
		if len(body) > maxLead || last.Text == "a" {
			return false, false
		}
		return colon || n <= 3 && !strings.ContainsAny(tail, ".!?"), false
	case colon && q.Is(last, vocabulary.Option) && n <= 3:
		return !strings.HasSuffix(last.Text, "s"), false
	case q.Is(last, vocabulary.Link) && (len(last.Text) > 1 || last.Kind == vocabulary.Sign): // no label
		return slices.ContainsFunc(words[:n-1], func(w Word) bool { return q.Is(w, vocabulary.Answer) }), false
	case !colon && (last.restricts(q, vocabulary.Negator|vocabulary.Or|vocabulary.Limit|vocabulary.Except) && !q.Is(last, vocabulary.Frame)):
		return false, true
	case !colon && last.Kind == vocabulary.Sign:
		return false, last.OneOf("-−+×÷*/<>≠≤≥≈~√^") || IsDash(last.Sign())
	}
	return false, false
}

// restricts reports whether a word has one of the classes wherever it stands.
func (w Word) restricts(q *Question, c vocabulary.Class) bool {
	return slices.ContainsFunc(w.Meanings, func(m vocabulary.Meaning) bool {
		return m.Class&c != 0 && !m.Near && m.Languages&q.In != 0
	})
}

// IsDash reports whether r may be meant as a minus sign: also the hyphen is a dash.
func IsDash(r rune) bool {
	return strings.ContainsRune("˗⁻₋➖⁃", r) || unicode.Is(unicode.Pd, r)
}

// continued reports whether a line goes on with the one before.
func continued(q *Question, line string) bool {
	head := strings.TrimLeft(line[:min(len(line), 64)], textmatch.Markup)
	r, _ := utf8.DecodeRuneInString(head)
	if strings.ContainsRune("^!%±×", r) {
		return true
	}
	if !unicode.IsLower(r) && !unicode.Is(unicode.Lo, r) {
		return false
	}
	words := Words(head)
	return len(words) > 0 && q.Is(words[0], vocabulary.Or|vocabulary.Scale) && !q.Is(words[0], vocabulary.Frame|vocabulary.Conclusion|vocabulary.Retract)
}

// headed reports whether a line ends as one that announces the next.
func headed(line string) bool {
	return strings.HasSuffix(strings.TrimRight(line, " *_`"), ":") || textmatch.CountWords(line, 5) < 5
}

// marksItself reports whether a line has a mark that leads on.
func marksItself(q *Question, line string) bool {
	words := Words(Plain(line[:min(len(line), maxLead)]))
	for i, w := range words[:max(len(words), 1)-1] {
		if q.Is(w, vocabulary.Answer) && q.links(words[i+1]) {
			return true
		}
	}
	return false
}

// beginsWithMark reports whether a line begins with a mark of its own.
func beginsWithMark(q *Question, line string, o Options) bool {
	if _, level := cutHeading(line); level == 4 {
		return true
	}
	words := Words(Plain(line[:min(len(line), 64)]))
	return !o.Labels && strings.HasPrefix(line, "A:") || slices.ContainsFunc(words[:min(len(words), 5)], func(w Word) bool {
		return q.Is(w, vocabulary.Answer|vocabulary.Conclusion)
	})
}
