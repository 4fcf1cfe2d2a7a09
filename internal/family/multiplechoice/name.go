package multiplechoice

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family"
	"securebench/internal/family/textmatch"
)

const (
	// maxLeads bounds how often a lead may be repeated.
	maxLeads = 4
	// maxSeparator bounds the characters between a label and its text.
	maxSeparator = 8
	// maxReason is how many bytes of a line are looked at for a reason.
	maxReason = 4096
	// markup may stand between the parts of a lead.
	markup = " *_`\"'"
)

// named is what a line names: the choices it may mean, none if zero, and
// whether an "answer" lead introduced them.
type named struct {
	choices set
	answer  bool
}

// line returns what a collapsed line in NFC names.
func (k key) line(line string) named {
	if c := k.exact(line); c != 0 {
		return named{choices: c}
	}
	before, rest, lead := textmatch.FindWord(line, finalAnswer, answer, choice, option)
	if lead == "" || textmatch.HasNegator(lastClause(before)) {
		return named{}
	}
	return k.afterLead(rest, isAnswer(lead))
}

// The words of a lead.
const (
	finalAnswer = "final answer"
	answer      = "answer"
	choice      = "choice"
	option      = "option"
)

func isAnswer(lead string) bool { return lead == finalAnswer || lead == answer }

// afterLead reads what follows a lead. Before anything is taken for a part of
// the lead, the rest is tried as it stands. A rest that is the text of several
// choices in normal form may be just one of them without a part of the lead.
func (k key) afterLead(rest string, answer bool) named {
	got, is, separator := named{}, false, false
	for n := 1; ; {
		rest = strings.TrimLeft(rest, " ")
		if got = got.narrow(k.exact(rest), answer); got.choices != 0 && !got.choices.several() {
			return got
		}
		rest = strings.TrimLeft(rest, markup)
		if after, lead := cutLead(rest); lead != "" && n < maxLeads {
			rest, answer = after, answer || isAnswer(lead)
			n, is, separator = n+1, false, false
		} else if after, ok := textmatch.CutFold(rest, "is"); ok && !is && !separator {
			rest, is = after, true
		} else if after, ok := cutSeparator(rest); ok && !separator {
			rest, separator = after, true
		} else {
			return got
		}
	}
}

// narrow returns n with only those of its choices that are in c, if any is. A
// name of nothing becomes one of c.
func (n named) narrow(c set, answer bool) named {
	if n.choices == 0 {
		return named{c, answer}
	}
	if both := n.choices & c; both != 0 {
		n.choices = both
	}
	return n
}

func cutLead(s string) (rest, lead string) {
	for _, l := range [...]string{finalAnswer, answer, choice, option} {
		if after, ok := textmatch.CutFold(s, l); ok {
			return after, l
		}
	}
	return s, ""
}

// cutSeparator takes a colon or a hyphen off s. A hyphen that is the sign of
// what follows stays.
func cutSeparator(s string) (string, bool) {
	if s == "" || s[0] != ':' && s[0] != '-' || isMinus(s) {
		return s, false
	}
	return s[1:], true
}

// isMinus reports whether s begins with a hyphen that stands directly before
// something other than a word, such as a digit or a currency sign.
func isMinus(s string) bool {
	if len(s) < 2 || s[0] != '-' {
		return false
	}
	r, _ := utf8.DecodeRuneInString(s[1:])
	return !unicode.IsLetter(r) && !strings.ContainsRune(markup, r)
}

// lastClause returns the clause that s ends in: what follows the last
// punctuation that ends a clause, or a conjunction that begins one.
func lastClause(s string) string {
	if i := strings.LastIndexAny(s, ".,;:!?—–"); i >= 0 {
		_, size := utf8.DecodeRuneInString(s[i:])
		s = s[i+size:]
	}
	for {
		_, after, word := textmatch.FindWord(s, "so", "but", "therefore", "thus", "hence")
		if word == "" {
			return s
		}
		s = after
	}
}

// exact returns the choices that s names as a whole. What is around an answer
// is taken off in layers, so that a text that itself begins with a dollar sign
// or a bracket is met before that is taken off. A choice's text as it is
// written comes first, then a label, then a text in normal form.
func (k key) exact(s string) set {
	cuts := cutAll(s)
	for layer, c := range cuts {
		if found := k.written(layer, c, false); found != 0 {
			return found
		}
	}
	if c := k.label(cuts[peelAll].core); c != 0 {
		return c
	}
	for layer, c := range cuts {
		if layer > 0 && c.core == cuts[layer-1].core {
			continue
		}
		if found := k.text(c.core); found != 0 {
			return found
		}
	}
	return k.labelled(cuts)
}

// written returns the choices whose text, as the row writes it, is the core of
// c with as much of what is around it as belongs to the text. A text that is
// itself a label counts only where labels is true.
func (k key) written(layer int, c cut, labels bool) set {
	best, found := 0, set(0)
	for i, t := range k.texts {
		own := t.cuts[layer]
		if t.normal == "" || t.isLabel && !labels || !c.holds(own) {
			continue
		}
		if n := len(own.left) + len(own.right); found == 0 || n > best {
			best, found = n, 1<<i
		} else if n == best {
			found |= 1 << i
		}
	}
	return found
}

// text returns the choices with the text s in normal form. A text much longer
// than every choice is not normalised: lower case and NFC shorten one by half
// at most.
func (k key) text(s string) set {
	if len(s) > 2*k.longest+maxEdge {
		return 0
	}
	return k.withText(textmatch.Normalize(s))
}

// maxEdge is the room for quotes and punctuation around a text that the layers
// leave to the normal form.
const maxEdge = 64

// labelled returns the choice that a line gives both label and text of. The
// first text that is written as a choice's decides: with the label of another
// choice it names nothing.
func (k key) labelled(cuts [layers]cut) set {
	for layer, c := range cuts {
		for rest := range k.behindLabel(c.core) {
			tail := cutAt(rest, layer)
			tail.right = c.right
			if found := k.written(layer, tail, true); found != 0 {
				return found & k.label(c.core[:1])
			}
		}
	}
	for _, c := range cuts {
		for rest := range k.behindLabel(c.core) {
			if both := k.text(rest) & k.label(c.core[:1]); both != 0 {
				return both
			}
		}
	}
	return 0
}

// behindLabel yields what may be the text behind the label and the separators
// that s begins with, the longest first.
func (k key) behindLabel(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if s == "" || len(s) > 2*k.longest+maxEdge+maxSeparator || k.label(s[:1]) == 0 {
			return
		}
		rest := s[1:]
		for range maxSeparator {
			r, size := utf8.DecodeRuneInString(rest)
			if !strings.ContainsRune(" )]}.:,-–—*_`", r) || size == 0 || isMinus(rest) {
				return
			}
			if rest = rest[size:]; !yield(rest) {
				return
			}
		}
	}
}

// unnamed tells an ambiguous last line, one that holds several choices as
// words or as parts of a list, from one that is just no answer.
func (k key) unnamed(line string) family.Reason {
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
		return family.AmbiguousAnswer
	}
	return family.WrongAnswer
}
