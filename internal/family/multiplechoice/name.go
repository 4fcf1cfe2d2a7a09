package multiplechoice

import (
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
// the lead, the rest is tried as it stands.
func (k key) afterLead(rest string, answer bool) named {
	is, separator := false, false
	for n := 1; ; {
		rest = strings.TrimLeft(rest, " ")
		if c := k.exact(rest); c != 0 {
			return named{c, answer}
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
			return named{}
		}
	}
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
// or a bracket is met before that is taken off.
func (k key) exact(s string) set {
	cores := [peelAll + 1]string{s}
	for layer := peelMarkup; layer <= peelAll; layer++ {
		cores[layer] = peel(cores[layer-1], layer)
	}
	if c := k.label(cores[peelAll]); c != 0 {
		return c
	}
	for i, core := range cores {
		if i > 0 && core == cores[i-1] {
			continue
		}
		if c := k.text(core); c != 0 {
			return c
		}
		if c := k.labelled(core); c != 0 {
			return c
		}
	}
	return 0
}

// text returns the choices with the text s. A text much longer than every
// choice is not normalised: lower case and NFC shorten one by half at most.
func (k key) text(s string) set {
	if len(s) > 2*k.longest+maxEdge {
		return 0
	}
	return k.withText(textmatch.Normalize(s))
}

// maxEdge is the room for quotes and punctuation around a text that peel
// leaves to the normal form.
const maxEdge = 64

// labelled returns the choice that s gives both label and text of.
func (k key) labelled(s string) set {
	if s == "" {
		return 0
	}
	c := k.label(s[:1])
	if c == 0 {
		return 0
	}
	rest := s[1:]
	for range maxSeparator {
		r, size := utf8.DecodeRuneInString(rest)
		if !strings.ContainsRune(" )]}.:,-–—*_`", r) || size == 0 || isMinus(rest) {
			return 0
		}
		rest = rest[size:]
		if both := c & k.text(rest); both != 0 {
			return both
		}
	}
	return 0
}

// The layers of peel, each with all before it.
const (
	peelNone     = iota
	peelMarkup   // spaces, quotes, * _ ` and closing punctuation
	peelBrackets // round, square and curly brackets
	peelAll      // dollar signs
)

// peel takes off both ends of s what does not belong to an answer.
func peel(s string, layer int) string {
	around := func(r rune) bool { return isAround(r, layer) }
	s = strings.TrimLeftFunc(s, around)
	return strings.TrimRightFunc(s, func(r rune) bool {
		return around(r) || r == '.' || r == ',' || r == ';' || r == ':' || r == '!'
	})
}

func isAround(r rune, layer int) bool {
	switch r {
	case ' ', '"', '\'', '`', '“', '”', '‘', '’', '«', '»', '*', '_':
		return true
	case '(', ')', '[', ']', '{', '}':
		return layer >= peelBrackets
	case '$':
		return layer >= peelAll
	}
	return false
}

// unnamed tells an ambiguous last line, one that holds several choices as
// words or as parts of a list, from one that is just no answer.
func (k key) unnamed(line string) family.Reason {
	line = line[:min(len(line), maxReason)]
	seen := set(0)
	for part := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(",;/|", r) }) {
		seen |= k.text(part)
		for word := range strings.FieldsFuncSeq(part, func(r rune) bool { return r == ' ' }) {
			word = peel(word, peelAll)
			if len(word) == 1 && unicode.IsUpper(rune(word[0])) {
				seen |= k.label(word)
			} else {
				seen |= k.text(word)
			}
		}
	}
	if seen&(seen-1) != 0 {
		return family.AmbiguousAnswer
	}
	return family.WrongAnswer
}
