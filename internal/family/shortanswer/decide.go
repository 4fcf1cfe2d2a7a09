package shortanswer

import (
	"slices"
	"strings"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/number"
	"securebench/internal/family/textmatch/reply"
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
func (k *key) decide(text string) decision {
	if k.marker != "" {
		return k.decideMarker(text)
	}
	passages := reply.Passages(k.question, text, reply.Options{ColonA: true})
	if len(passages) == 0 {
		return fail(verdict.WrongAnswer, "the candidate does not contain an answer")
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

// decideMarker reads the last line, which must contain the row's own marker.
func (k *key) decideMarker(text string) decision {
	line := textmatch.LastLine(text)
	_, focus, ok := strings.Cut(k.fold(line), k.marker)
	if !ok {
		return fail(verdict.WrongAnswer, "the last line does not contain the row's marker")
	}
	if len(focus) > maxFocus {
		return fail(verdict.AmbiguousAnswer, "the answer is longer than 64 KiB")
	}
	focus = textmatch.Strip(focus)
	n, finding := k.question.FindNumber(textmatch.Plain(focus), k.tolerance != nil)
	if finding == number.One && k.rule != bySet {
		if d := k.matchNumber(n); d.reason == "" {
			return d
		}
	}
	if i, strategy := k.match(focus); strategy != "" {
		return decision{index: i, strategy: strategy}
	}
	if k.accepted[0].isNumber && k.rule != bySet && finding != number.One {
		return fail(explainNumber(finding))
	}
	return fail(k.explain(focus))
}

// matchNumber compares the number of a reply with the accepted ones.
func (k *key) matchNumber(n number.Number) decision {
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
func explainNumber(f number.Finding) (verdict.Reason, string) {
	switch f {
	case number.Several:
		return verdict.AmbiguousAnswer, "the answer contains more than one number"
	case number.Unclear:
		return verdict.AmbiguousAnswer, "the text next to the number may change its value"
	case number.InWords:
		return verdict.WrongAnswer, "the number is not written in digits"
	}
	return verdict.WrongAnswer, "the answer does not contain a number"
}

// number returns the number that the passages state. The highest rank that
// contains one decides; all of that rank that state exactly one must agree, and
// the last must be among them.
func (k *key) number(passages []reply.Passage) (number.Number, verdict.Reason, string) {
	var got number.Number
	top, last, finding := reply.Unmarked, -1, number.None
	agree := true
	lastLine := lastLine(passages)
	for i, p := range passages {
		if p.Rank < top || p.Void || p.Rank == reply.Unmarked && p.Line != lastLine {
			continue
		}
		n, f := k.stated(p)
		if f == number.None {
			continue
		}
		if p.Rank > top {
			top, last, agree = p.Rank, -1, true
		}
		if f == number.One {
			agree = agree && (last < 0 || !got.Known() || n.Equal(got))
			got = n
		}
		last, finding = i, f
	}
	switch {
	case last < 0 || finding != number.One:
		reason, message := explainNumber(finding)
		return got, reason, message
	case !agree, top > reply.Unmarked && k.takenBack(got, passages[last:]):
		return got, verdict.AmbiguousAnswer, "the candidate gives different numbers"
	}
	return got, "", ""
}

// stated returns the number of one passage.
func (k *key) stated(p reply.Passage) (number.Number, number.Finding) {
	loose := k.tolerance != nil
	if len(p.Text) > maxFocus {
		return number.Number{}, number.Unclear
	}
	switch p.Rank {
	case reply.Boxed:
		return reply.FindBoxed(k.question, p, loose)
	case reply.Hashes:
		if !number.Begins(p.Text) && p.Before == "" && p.Led == p.Text {
			return number.Number{}, number.None // a heading
		}
	}
	n, finding := k.question.FindNumber(p.Text, loose)
	if finding != number.One && p.Rank > reply.Unmarked {
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

// lastLine returns the number of the last line that is not just a closing phrase.
func lastLine(passages []reply.Passage) int {
	for i := len(passages) - 1; i > 0; i-- {
		if !reply.IsCourtesy(passages[i].Text) {
			return passages[i].Line
		}
	}
	return passages[0].Line
}

// maxBare is the most words of a sentence that is an answer on its own.
const maxBare = 2

// takenBack reports whether what follows the deciding passage, the first, retracts
// its number: the same line gives another as a sentence of its own, or a
// sentence begins as one that offers another.
func (k *key) takenBack(got number.Number, passages []reply.Passage) bool {
	for i, p := range passages[1:] {
		n, f := k.question.FindNumber(p.Text[:min(len(p.Text), maxFocus)], true)
		other := f != number.None && (f != number.One || !n.Equal(got))
		if other && p.Line == passages[0].Line && textmatch.CountWords(p.Text, maxBare+3) <= maxBare+1 {
			return true
		}
		if reply.Retracts(p.Text) && (other || i == 0 && textmatch.CountWords(p.Text, 5) < 5) {
			return true
		}
	}
	return false
}

// text returns the accepted answer that the passages give as text. The highest
// rank decides, and all of that rank must give an accepted answer. Without a
// mark it is the last line, as a whole or in each of its sentences.
func (k *key) text(passages []reply.Passage) decision {
	top := reply.Unmarked
	last := lastLine(passages)
	for _, p := range passages {
		if p.Rank > top && (p.Rank != reply.Hashes || p.Line == last) {
			top = p.Rank
		}
	}
	if top == reply.Unmarked {
		return k.unmarkedText(passages, last)
	}
	d := fail(verdict.WrongAnswer, "the answer is not the expected one")
	end := -1
	for i, p := range passages {
		if p.Rank == top && (top != reply.Hashes || p.Line == last) {
			end = i
		}
	}
	for i, p := range passages {
		if p.Rank != top || top == reply.Hashes && p.Line != last || i != end && k.long(p.Text) {
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
		return fail(verdict.AmbiguousAnswer, "the candidate retracts its answer")
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
func (k *key) matchPassage(p reply.Passage, after []reply.Passage) decision {
	if p.Rank == reply.Boxed && (reply.Denied(k.question, textmatch.Plain(p.Before)) || textmatch.HasDoubt(textmatch.Plain(p.After))) {
		return fail(verdict.AmbiguousAnswer, "the text around the answer denies it")
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
	if !bareAfter(p, after) {
		focuses = append(focuses, trimLink(k.question, p.Led), p.Text, strings.TrimRight(p.Text, "]}\"' "))
	}
	if p.Rank == reply.Boxed {
		focuses = []string{p.Led, p.Text}
	}
	for _, focus := range focuses {
		if i, strategy := k.match(focus); strategy != "" {
			return decision{index: i, strategy: strategy}
		}
	}
	return fail(k.explain(p.Text))
}

// trimLink removes the link, if any, from the text after a mark.
func trimLink(q *number.Question, s string) string {
	if rest, linked := reply.CutLink(q, s); linked {
		return rest
	}
	return s
}

// bareAfter reports whether another sentence of the line of p is so short that
// it could be a second answer.
func bareAfter(p reply.Passage, after []reply.Passage) bool {
	for _, a := range after {
		if a.Line != p.Line {
			break
		}
		if a.Rank == reply.Unmarked && !reply.IsCourtesy(a.Text) && textmatch.CountWords(a.Text, maxBare+1) <= maxBare {
			return true
		}
	}
	return false
}

// textTakenBack reports whether a sentence after the deciding passage, the
// first, begins as one that offers another answer.
func (k *key) textTakenBack(passages []reply.Passage) bool {
	for i, p := range passages[1:] {
		if reply.Retracts(p.Text) && (i == 0 || p.Line == passages[0].Line) {
			return true
		}
	}
	return false
}

// unmarkedText matches the last line of a reply without marks.
func (k *key) unmarkedText(passages []reply.Passage, line int) decision {
	var own []reply.Passage
	whole, item := "", ""
	for _, p := range passages {
		if p.Line != line {
			continue
		}
		if p.First {
			whole, item = p.Whole, p.Item
		}
		if !reply.IsInterjection(p.Text) && !k.echoes(p.Text) {
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
		if p.Void || k.rule == bySet {
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
		all(textmatch.Words(s, -1), func(w string) bool { return textmatch.Frame.Has(w) || k.question.Has(w) })
}
