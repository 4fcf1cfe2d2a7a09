package shortanswer

import (
	"slices"
	"strings"

	"securebench/internal/family/textmatch"
	"securebench/internal/verdict"
)

// A decision says which accepted answer a reply gives, and how, or why none.
type decision struct {
	index    int // -1 for a set
	strategy string
	reason   verdict.Reason
	message  string
}

func fail(reason verdict.Reason, message string) decision {
	return decision{index: -1, reason: reason, message: message}
}

// decide scores a reply. Numbers are decided first: which number is the answer
// depends on the reply and the question alone.
func (k *key) decide(reply string) decision {
	if k.marker != "" {
		return k.decideMarker(reply)
	}
	passages := k.question.Passages(reply, textmatch.Options{ColonA: true})
	if len(passages) == 0 {
		return fail(verdict.WrongAnswer, "the candidate holds no answer")
	}
	d := fail(verdict.WrongAnswer, "the answer is not the expected one")
	numbers := slices.ContainsFunc(k.accepted, func(a answer) bool { return a.isNumber })
	if numbers && k.rule != bySet {
		n, reason, message := k.number(passages)
		if d = fail(reason, message); reason == "" {
			d = k.matchNumber(n)
		}
		if d.reason == "" {
			return d
		}
	}
	if k.rule == byNumber || numbers && k.rule != bySet && allNumbers(k.accepted) {
		return d
	}
	t := k.text(passages)
	if t.reason != "" && k.accepted[0].isNumber && k.rule != bySet {
		return d
	}
	return t
}

func allNumbers(accepted []answer) bool {
	return !slices.ContainsFunc(accepted, func(a answer) bool { return !a.isNumber })
}

// decideMarker reads the last line, which must hold the row's own marker.
func (k *key) decideMarker(reply string) decision {
	line := textmatch.LastLine(reply)
	_, focus, ok := strings.Cut(k.fold(line), k.marker)
	if !ok {
		return fail(verdict.WrongAnswer, "the last line does not hold the row's marker")
	}
	if len(focus) > maxFocus {
		return fail(verdict.AmbiguousAnswer, "the answer is longer than 64 KiB")
	}
	focus = textmatch.Strip(focus)
	n, finding := k.question.FindNumber(textmatch.Plain(focus), k.tolerance != nil)
	if finding == textmatch.OneNumber && k.rule != bySet {
		if d := k.matchNumber(n); d.reason == "" {
			return d
		}
	}
	if i, strategy := k.match(focus); strategy != "" {
		return decision{index: i, strategy: strategy}
	}
	if k.accepted[0].isNumber && k.rule != bySet && finding != textmatch.OneNumber {
		return fail(explainNumber(finding))
	}
	return fail(k.explain(focus))
}

// matchNumber compares the number of a reply with the accepted ones.
func (k *key) matchNumber(n textmatch.Number) decision {
	for i, a := range k.accepted {
		if a.isNumber && a.number.Matches(n, k.tolerance, k.question) {
			strategy := "numeric_exact"
			if k.tolerance != nil {
				strategy = "numeric_tolerance"
			}
			return decision{index: i, strategy: strategy}
		}
	}
	return fail(verdict.WrongAnswer, "the number is not the expected one")
}

// explainNumber says why a text states no number.
func explainNumber(f textmatch.Finding) (verdict.Reason, string) {
	switch f {
	case textmatch.SeveralNumbers:
		return verdict.AmbiguousAnswer, "the answer holds more than one number"
	case textmatch.UnclearNumber:
		return verdict.AmbiguousAnswer, "something beside the number changes it or may change it"
	case textmatch.WordNumber:
		return verdict.WrongAnswer, "the number is not written in digits"
	}
	return verdict.WrongAnswer, "the answer holds no number"
}

// number returns the number that the passages state. The highest rank that
// holds one decides; all of that rank that state exactly one must agree, and
// the last must be among them.
func (k *key) number(passages []textmatch.Passage) (textmatch.Number, verdict.Reason, string) {
	var got textmatch.Number
	top, last, finding := textmatch.Unmarked, -1, textmatch.NoNumber
	agree := true
	lastLine := lastLine(passages)
	for i, p := range passages {
		if p.Rank < top || p.Spent || p.Rank == textmatch.Unmarked && p.Line != lastLine {
			continue
		}
		n, f := k.stated(p)
		if f == textmatch.NoNumber {
			continue
		}
		if p.Rank > top {
			top, last, agree = p.Rank, -1, true
		}
		if f == textmatch.OneNumber {
			agree = agree && (last < 0 || !got.Known() || n.Equal(got))
			got = n
		}
		last, finding = i, f
	}
	switch {
	case last < 0 || finding != textmatch.OneNumber:
		reason, message := explainNumber(finding)
		return got, reason, message
	case !agree, top > textmatch.Unmarked && k.takenBack(got, passages[last:]):
		return got, verdict.AmbiguousAnswer, "the candidate gives numbers that contradict each other"
	}
	return got, "", ""
}

// stated returns the number of one passage.
func (k *key) stated(p textmatch.Passage) (textmatch.Number, textmatch.Finding) {
	loose := k.tolerance != nil
	if len(p.Text) > maxFocus {
		return textmatch.Number{}, textmatch.UnclearNumber
	}
	switch p.Rank {
	case textmatch.Boxed:
		return k.question.FindBoxed(p, loose)
	case textmatch.Hashes:
		if !textmatch.BeginsWithNumber(p.Text) && p.Before == "" && p.Led == p.Text {
			return textmatch.Number{}, textmatch.NoNumber // a heading
		}
	}
	n, finding := k.question.FindNumber(p.Text, loose)
	if finding != textmatch.OneNumber && p.Rank > textmatch.Unmarked {
		if text := cutReason(p.Text); text != p.Text {
			return k.question.FindNumber(text, loose)
		}
	}
	return n, finding
}

// cutReason returns a marked text up to a clause that gives a reason and offers
// nothing else.
func cutReason(s string) string {
	before, after, word := textmatch.FindWord(s, "because", "since")
	if word == "" || slices.ContainsFunc(textmatch.Words(after, -1), func(w string) bool { return textmatch.IsDoubt(w) && !textmatch.IsNegator(w) }) {
		return s
	}
	return before
}

// lastLine returns the number of the last line that does not only take leave.
func lastLine(passages []textmatch.Passage) int {
	for i := len(passages) - 1; i > 0; i-- {
		if !textmatch.IsCourtesy(passages[i].Text) {
			return passages[i].Line
		}
	}
	return passages[0].Line
}

// maxBare is how many words a sentence has that is an answer by itself.
const maxBare = 2

// takenBack reports whether what follows the deciding passage, the first, takes
// its number back: the same line gives another as a sentence of its own, or a
// sentence begins as one that offers another.
func (k *key) takenBack(got textmatch.Number, passages []textmatch.Passage) bool {
	for i, p := range passages[1:] {
		n, f := k.question.FindNumber(p.Text[:min(len(p.Text), maxFocus)], true)
		other := f != textmatch.NoNumber && (f != textmatch.OneNumber || !n.Equal(got))
		if other && p.Line == passages[0].Line && textmatch.CountWords(p.Text, maxBare+3) <= maxBare+1 {
			return true
		}
		if textmatch.Retracts(p.Text) && (other || i == 0 && textmatch.CountWords(p.Text, 5) < 5) {
			return true
		}
	}
	return false
}

// text returns the accepted answer that the passages give as text. The highest
// rank decides, and all of that rank must give an accepted answer. Without a
// mark it is the last line, as a whole or in each of its sentences.
func (k *key) text(passages []textmatch.Passage) decision {
	top := textmatch.Unmarked
	last := lastLine(passages)
	for _, p := range passages {
		if p.Rank > top && (p.Rank != textmatch.Hashes || p.Line == last) {
			top = p.Rank
		}
	}
	if top == textmatch.Unmarked {
		return k.unmarkedText(passages, last)
	}
	d := fail(verdict.WrongAnswer, "the answer is not the expected one")
	end := -1
	for i, p := range passages {
		if p.Rank == top && (top != textmatch.Hashes || p.Line == last) {
			end = i
		}
	}
	for i, p := range passages {
		if p.Rank != top || top == textmatch.Hashes && p.Line != last || i != end && k.long(p.Text) {
			continue
		}
		if d = k.matchPassage(p, passages[i+1:]); d.reason != "" {
			break
		}
	}
	if d.reason != "" && passages[0].First && passages[0].Line == passages[len(passages)-1].Line {
		// A text that itself begins with a mark, such as a song's name.
		if i, strategy := k.equal(passages[0].Whole); strategy != "" {
			return decision{index: i, strategy: strategy}
		}
	}
	if d.reason == "" && k.textTakenBack(passages[end:]) {
		return fail(verdict.AmbiguousAnswer, "the candidate takes its answer back")
	}
	return d
}

// long reports whether a text has too many words to be an answer.
func (k *key) long(s string) bool {
	return len(s) > maxFocus || len(textmatch.Words(s, maxFocusWords+1)) > maxFocusWords
}

// matchPassage returns the accepted answer that a marked passage gives: what
// follows the mark up to the end of the line, or of the sentence where no
// further sentence of the line could be another answer.
func (k *key) matchPassage(p textmatch.Passage, after []textmatch.Passage) decision {
	if p.Rank == textmatch.Boxed && (k.question.Denied(textmatch.Plain(p.Before)) || doubtful(textmatch.Plain(p.After))) {
		return fail(verdict.AmbiguousAnswer, "something beside the answer takes it back")
	}
	var focuses []string
	switch rest := p.RawRest(); p.Rest {
	case "":
	case p.Led:
		focuses = append(focuses, trimLink(k.question, rest))
	default: // several sentences are an answer only if they are equal to it
		for _, focus := range [...]string{trimLink(k.question, rest), trimLink(k.question, p.Rest)} {
			if i, strategy := k.whole(focus); strategy != "" {
				return decision{index: i, strategy: strategy}
			}
		}
	}
	if !bareBehind(p, after) {
		focuses = append(focuses, trimLink(k.question, p.Led), p.Text, strings.TrimRight(p.Text, "]}\"' "))
	}
	if p.Rank == textmatch.Boxed {
		focuses = []string{p.Led, p.Text}
	}
	for _, focus := range focuses {
		if i, strategy := k.match(focus); strategy != "" {
			return decision{index: i, strategy: strategy}
		}
	}
	return fail(k.explain(p.Text))
}

// trimLink takes the link off what follows a mark, if it has one.
func trimLink(q *textmatch.Question, s string) string {
	if rest, linked := q.CutLink(s); linked {
		return rest
	}
	return s
}

func doubtful(s string) bool {
	return slices.ContainsFunc(textmatch.Words(s, -1), func(w string) bool { return textmatch.IsDoubt(w) || textmatch.IsBarred(w) })
}

// bareBehind reports whether another sentence of the line of p is so short that
// it could be a second answer.
func bareBehind(p textmatch.Passage, after []textmatch.Passage) bool {
	for _, a := range after {
		if a.Line != p.Line {
			break
		}
		if a.Rank == textmatch.Unmarked && !textmatch.IsCourtesy(a.Text) && textmatch.CountWords(a.Text, maxBare+1) <= maxBare {
			return true
		}
	}
	return false
}

// textTakenBack reports whether a sentence behind the deciding passage, the
// first, begins as one that offers another answer.
func (k *key) textTakenBack(passages []textmatch.Passage) bool {
	for i, p := range passages[1:] {
		if textmatch.Retracts(p.Text) && (i == 0 || p.Line == passages[0].Line) {
			return true
		}
	}
	return false
}

// unmarkedText matches the last line of a reply without marks.
func (k *key) unmarkedText(passages []textmatch.Passage, line int) decision {
	var own []textmatch.Passage
	whole, item := "", ""
	for _, p := range passages {
		if p.Line != line {
			continue
		}
		if p.First {
			whole, item = p.Whole, p.Item
		}
		if !textmatch.IsInterjection(p.Text) && !k.echoes(p.Text) {
			own = append(own, p)
		}
	}
	match := k.match
	if len(own) > 1 {
		match = k.whole
	}
	for _, focus := range [...]string{whole, item, textmatch.Plain(item)} {
		if i, strategy := match(focus); strategy != "" {
			return decision{index: i, strategy: strategy}
		}
	}
	d := fail(k.explain(whole))
	for n, p := range own {
		if p.Spent || k.rule == bySet {
			return fail(k.explain(whole))
		}
		i, strategy := k.match(p.Text)
		switch {
		case strategy != "":
			d = decision{index: i, strategy: strategy}
		case n == 0 || !k.explains(p.Text):
			return fail(k.explain(whole))
		}
	}
	return d
}

// echoes reports whether a sentence asks the question again.
func (k *key) echoes(s string) bool {
	return strings.HasSuffix(s, "?") && !k.long(s) &&
		all(textmatch.Words(s, -1), func(w string) bool { return textmatch.IsFrame(w) || k.question.Has(w) })
}
