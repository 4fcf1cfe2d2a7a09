package multiplechoice

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/reply"
	"securebench/internal/verdict"
)

// maxReason is how many bytes of a line are searched for other choices and for
// words of doubt.
const maxReason = 4096

// named is what a passage names: the choices that it may mean, none if zero,
// and whether it mentions several, or one without naming it.
type named struct {
	choices set
	hedges  bool
	line    bool // the rest of the line was read with it
}

// read returns what a passage names, and its rank.
func (k key) read(p reply.Passage) (named, reply.Rank) {
	if p.First && p.Rank < reply.Hashes {
		for _, line := range slices.Compact([]string{p.Whole, p.Item, textmatch.Plain(p.Item)}) {
			if c := k.exact(line); c != 0 {
				return named{choices: c, line: true}, reply.Unmarked
			}
		}
	}
	switch {
	case p.Void:
		return k.unlinked(p), reply.Answer
	case p.Rank == reply.Boxed:
		return k.boxed(p), p.Rank
	case p.Rank == reply.Unmarked:
		return k.unmarked(p), p.Rank
	}
	return k.marked(p), p.Rank
}

// unlinked reads a sentence whose mark has no link: "answer B", "B is the answer",
// "I choose B as my answer".
func (k key) unlinked(p reply.Passage) named {
	clause := cutOpening(p.Text)
	c := cmp.Or(k.praised(clause), k.picked(clause))
	if c == 0 && p.Led != "" && k.labels(p.Before) == 0 {
		c = k.afterLead(p.Led)
	}
	return named{choices: c}
}

// marked reads what follows a mark: up to the end of the line, and of the
// sentence.
func (k key) marked(p reply.Passage) named {
	if k.labels(p.Before) != 0 {
		return named{hedges: true}
	}
	if c := cmp.Or(k.afterLead(p.RawRest()), k.afterLead(p.Rest)); c != 0 {
		return named{choices: c, line: true}
	}
	if c := cmp.Or(k.afterLead(p.Led), k.afterLead(cutReason(p.Led)), k.afterLead(k.cutAside(p.Led))); c != 0 {
		return named{choices: c}
	}
	if c := cmp.Or(k.exact(p.Text), k.led(p.Text), k.praised(p.Text), k.picked(p.Text)); c != 0 && framed(p.Text) {
		return named{choices: c}
	}
	text := strings.TrimLeft(p.Text, markup+"([{")
	begins := text != "" && text[0] < 'a' && k.label(text[:1]) != 0 && isLone(text, 0)
	return named{hedges: begins || k.mentions(text) != 0 && !textmatch.HasNegator(text)}
}

// boxed reads a box: its content names a choice, and the sentence around it
// neither denies it nor names another.
func (k key) boxed(p reply.Passage) named {
	c := cmp.Or(k.exact(p.Led), k.exact(p.Text), k.stated(p.Text))
	before, after := textmatch.Plain(p.Before), textmatch.Plain(p.After)
	labels := k.labels(before)
	other := k.mentions(after) | labels
	if c == 0 || labels == 0 && reply.Denied(k.question, before) || doubts(after) || other&^c != 0 {
		return named{hedges: other|k.mentions(p.Text) != 0}
	}
	return named{choices: c}
}

// unmarked reads a sentence without a mark. The text of a choice counts only as
// a line of its own; labels and what is said of them also as a sentence.
func (k key) unmarked(p reply.Passage) named {
	rest, ok := textmatch.CutAny(p.Text, "so", "thus", "hence", "therefore")
	if ok {
		rest = strings.TrimLeft(rest, ",: ")
	}
	c := cmp.Or(k.stated(p.Text), k.label(cutAt(rest, peelAll).core))
	if c == 0 && p.First && p.Last {
		c = k.exact(p.Text)
	}
	return named{choices: c}
}

// labels returns the choices whose labels stand as capitals before a mark or
// lead, if nothing else stands there but leads and frame words:
// "Answer A, answer: B" is two answers.
func (k key) labels(before string) (found set) {
	for _, w := range textmatch.Words(before, -1) {
		if len(w) > 1 && !textmatch.Frame.Has(w) && w != "choice" && w != "option" && w != "and" && w != "or" {
			return 0
		}
	}
	for i := range len(before) {
		if before[i] < 'a' && isLone(before, i) {
			found |= k.label(before[i : i+1])
		}
	}
	return found
}

// mentions returns the choices that a text mentions: labels in brackets or as
// lone capitals, and whole texts.
func (k key) mentions(s string) (found set) {
	s = s[:min(len(s), maxReason)]
	for i := range len(s) {
		c := k.label(s[i : i+1])
		if c == 0 || !isLone(s, i) {
			continue
		}
		bracketed := strings.HasSuffix(s[:i], "(") || strings.HasSuffix(s[:i], "[") || strings.HasPrefix(s[i+1:], ")") || strings.HasPrefix(s[i+1:], "]")
		if bracketed || s[i] < 'a' && !isArticle(s[i], s[i+1:]) {
			found |= c
		}
	}
	text := textmatch.Lower(s)
	for i, t := range k.texts {
		if _, _, ok := textmatch.FindSpan(text, t.normal); ok && !t.isLabel {
			found |= 1 << i
		}
	}
	return found
}

// isArticle reports whether a capital A or I before rest is a word rather than a
// label: a word in small letters follows that neither leads to a choice nor
// joins two.
func isArticle(c byte, rest string) bool {
	if c != 'A' && c != 'I' || len(rest) < 2 || rest[0] != ' ' || rest[1] < 'a' || rest[1] > 'z' {
		return false
	}
	_, lead := cutLead(rest[1:])
	return !lead && !strings.HasPrefix(rest, " or ") && !strings.HasPrefix(rest, " and ")
}

// isLone reports whether no letter, digit, _ or ' touches the character at s[i].
func isLone(s string, i int) bool {
	return (i == 0 || !isWordByte(s[i-1])) && (i+1 == len(s) || !isWordByte(s[i+1]))
}

func isWordByte(c byte) bool {
	return c >= 0x80 || c == '_' || c == '\'' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// unnamed distinguishes an ambiguous last line, which contains several choices as
// words or as parts of a list, from one that is just no answer.
func (k key) unnamed(line string) verdict.Reason {
	line = line[:min(len(line), maxReason)]
	seen := set(0)
	for part := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(",;/|", r) }) {
		seen |= k.text(part)
		for word := range strings.FieldsFuncSeq(part, func(r rune) bool { return r == ' ' }) {
			word = cutAt(word, peelAll).core
			if len(word) == 1 && unicode.IsUpper(rune(word[0])) {
				seen |= k.label(word)
			} else {
				seen |= k.text(word)
			}
		}
	}
	if seen.several() {
		return verdict.AmbiguousAnswer
	}
	return verdict.WrongAnswer
}
