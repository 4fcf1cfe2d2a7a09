package multiplechoice

import (
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/reply"
	"securebench/internal/family/textmatch/vocabulary"
	"securebench/internal/verdict"
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

// named is what a passage names: the choices that it may mean, none if zero,
// and whether it speaks of several, or of one in words that do not name it.
type named struct {
	choices set
	hedges  bool
	line    bool // the rest of the line was read with it
}

// leads are the words that lead to a choice, the marks among them first.
func leads() []string { return []string{finalAnswer, answer, choice, option} }

// The words of a lead.
const (
	finalAnswer = "final answer"
	answer      = "answer"
	choice      = "choice"
	option      = "option"
)

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
	case p.Spent:
		return k.spent(p), reply.Answer
	case p.Rank == reply.Boxed:
		return k.boxed(p), p.Rank
	case p.Rank == reply.Unmarked:
		return k.unmarked(p), p.Rank
	}
	return k.marked(p), p.Rank
}

// spent reads a sentence whose mark has no link: "answer B", "B is the answer",
// "I choose B as my answer".
func (k key) spent(p reply.Passage) named {
	clause := cutOpening(p.Text)
	c := k.praised(clause)
	if c == 0 {
		c = k.picked(clause)
	}
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
	for _, rest := range [...]string{p.RawRest(), p.Rest} {
		if c := k.afterLead(rest); c != 0 {
			return named{choices: c, line: true}
		}
	}
	asides := [...]string{p.Led, cutReason(p.Led), k.cutAside(p.Led)}
	for _, led := range asides {
		if c := k.afterLead(led); c != 0 {
			return named{choices: c}
		}
	}
	for _, read := range [...]func(string) set{k.exact, k.led, k.praised, k.picked} {
		if c := read(p.Text); c != 0 && framed(p.Text) {
			return named{choices: c}
		}
	}
	text := strings.TrimLeft(p.Text, markup+"([{")
	begins := text != "" && text[0] < 'a' && k.label(text[:1]) != 0 && (len(text) == 1 || !isWordByte(text[1]))
	return named{hedges: begins || k.mentions(text) != 0 && !vocabulary.HasNegator(text)}
}

// labels returns the choices whose labels stand as capitals in what comes
// before a mark or lead, where it holds nothing else but leads and frame words:
// "Answer A, answer: B" is two answers.
func (k key) labels(before string) (found set) {
	for _, w := range textmatch.Words(before, -1) {
		if len(w) > 1 && !vocabulary.Frame.Has(w) && w != choice && w != option && w != "and" && w != "or" {
			return 0
		}
	}
	for i := range len(before) {
		if before[i] < 'a' && (i == 0 || !isWordByte(before[i-1])) && (i+1 == len(before) || !isWordByte(before[i+1])) {
			found |= k.label(before[i : i+1])
		}
	}
	return found
}

// boxed reads a box: its content names a choice, and the sentence around it
// neither denies it nor names another.
func (k key) boxed(p reply.Passage) named {
	c := k.exact(p.Led)
	if c == 0 {
		c = k.sentence(p.Text)
	}
	before, after := textmatch.Plain(p.Before), textmatch.Plain(p.After)
	other := k.mentions(after) | k.labels(before)
	if c == 0 || k.labels(before) == 0 && reply.Denied(k.question, before) || doubts(after) || other&^c != 0 {
		return named{hedges: other|k.mentions(p.Text) != 0}
	}
	return named{choices: c}
}

// doubts reports whether a word of s is one of doubt.
func doubts(s string) bool {
	for _, w := range textmatch.Words(s[:min(len(s), maxReason)], -1) {
		if vocabulary.IsDoubt(w) || vocabulary.IsBarred(w) {
			return true
		}
	}
	return false
}

// unmarked reads a sentence without a mark. The text of a choice counts only as
// a line of its own; labels and what is said of them also as a sentence.
func (k key) unmarked(p reply.Passage) named {
	if c := k.stated(p.Text); c != 0 {
		return named{choices: c}
	}
	if c := k.label(cutAt(cutConnective(p.Text), peelAll).core); c != 0 {
		return named{choices: c}
	}
	if p.First && p.Last {
		return named{choices: k.sentence(p.Text)}
	}
	return named{}
}

// sentence returns the choices that a sentence, or what follows a mark, names:
// as a whole, by a lead, or by what it says of one.
func (k key) sentence(s string) set {
	if c := k.exact(s); c != 0 {
		return c
	}
	return k.stated(s)
}

// stated returns the choice that a sentence states in words: by a lead that
// nothing denies ("option C", "the correct answer is C"), as "C is correct", or
// as "I choose C".
func (k key) stated(s string) set {
	for _, clause := range [...]string{s, cutReason(s)} {
		if c := k.led(clause); c != 0 {
			return c
		}
		clause = cutOpening(clause)
		if c := k.praised(clause); c != 0 {
			return c
		}
		if c := k.picked(clause); c != 0 {
			return c
		}
	}
	return 0
}

// led returns the choice behind the first lead of s.
func (k key) led(s string) set {
	before, rest, lead := textmatch.FindWord(s, leads()...)
	if lead == "" || reply.Denied(k.question, before) || k.labels(before) != 0 {
		return 0
	}
	return k.afterLead(rest)
}

// cutAside returns s without a remark in brackets at its end, or from "as" on,
// where that speaks of no choice and doubts nothing.
func (k key) cutAside(s string) string {
	head, aside, found := strings.Cut(s, " (")
	if !found {
		head, aside, found = strings.Cut(s, " as ")
	}
	if !found || k.mentions(aside)&^k.mentions(head) != 0 || doubts(aside) {
		return s
	}
	return head
}

// framed reports whether only frame words stand before the first lead of s, if
// it has one.
func framed(s string) bool {
	before, _, lead := textmatch.FindWord(s, leads()...)
	return lead == "" || !slices.ContainsFunc(textmatch.Words(before, -1), func(w string) bool { return !vocabulary.Frame.Has(w) })
}

// praised returns the choice of "C is correct" and its like.
func (k key) praised(s string) set {
	at := 0
	for range maxLeads {
		before, after, is := textmatch.FindWord(s[at:], "is", "must be", "should be", "would be", "has to be", "seems", "appears")
		if is == "" {
			return 0
		}
		if isPraise(after) {
			return k.exact(cutHeadLead(s[:at+len(before)]))
		}
		at = len(s) - len(after)
	}
	return 0
}

// cutHeadLead takes a lead off the beginning of s, if it has one.
func cutHeadLead(s string) string {
	rest := strings.TrimLeft(s, markup)
	if after, ok := textmatch.CutFold(rest, "the"); ok {
		rest = strings.TrimLeft(after, markup)
	}
	if after, lead := cutLead(rest); lead != "" {
		return after
	}
	return s
}

// isPraise reports whether s says of what stands before it that it is the
// answer, and nothing else.
func isPraise(s string) bool {
	good := false
	for i, w := range textmatch.Words(s, 9) {
		switch w {
		case "correct", "right", "true", "answer", "best":
			good = true
		case "clearly", "therefore", "thus", "definitely", "obviously", "the", "my", "final", "most", "only", "likely", "accurate", "appropriate",
			"choice", "option", "one", "statement", "response", "to", "be", "indeed", "our":
		default:
			return false
		}
		if i == 8 {
			return false
		}
	}
	return good
}

// picked returns the choice of "I choose C", "it is C" and their like.
func (k key) picked(s string) set {
	rest := strings.TrimLeft(s, markup)
	for _, who := range [...]string{"i would", "i'd", "i’d", "i will", "i'll", "i’ll", "i must", "i am", "i'm", "i’m", "i have", "i", "we", "let's", "let’s"} {
		if after, ok := textmatch.CutFold(rest, who); ok {
			rest = strings.TrimLeft(after, " ")
			break
		}
	}
	for _, act := range [...]string{
		"choose", "chose", "choosing", "pick", "picked", "picking", "select", "selected", "selecting", "go with", "went with", "going with",
		"going for", "go for", "vote for", "opt for", "opting for", "say", "guess", "answer", "it is", "it's", "it’s", "it must be", "that is", "that's", "that’s", "that would be",
		"this is", "my pick", "my guess", "my selection",
	} {
		if after, ok := textmatch.CutFold(rest, act); ok {
			after = strings.TrimLeft(after, " :")
			if the, ok := textmatch.CutFold(after, "the"); ok {
				after = strings.TrimLeft(the, " ")
			}
			after, _ = cutTail(after)
			return k.afterLead(after)
		}
	}
	return 0
}

// cutTail takes "as my final answer" off the end of s.
func cutTail(s string) (string, bool) {
	before, after, as := textmatch.FindWord(s, "as")
	if as == "" || !isPraise(after) {
		return s, false
	}
	return before, true
}

// cutOpening takes off s the clauses and words that lead up to a statement:
// everything up to its last comma, "so", "therefore" and their like.
func cutOpening(s string) string {
	if i := strings.LastIndexByte(s, ','); i >= 0 && !doubts(s[i:]) {
		s = s[i+1:]
	}
	for {
		s = strings.TrimLeft(s, markup)
		cut := false
		for _, w := range [...]string{"so", "thus", "hence", "therefore", "then", "and", "finally", "overall", "clearly", "i think", "i believe", "i conclude", "that"} {
			if after, ok := textmatch.CutFold(s, w); ok && strings.TrimSpace(after) != "" && after[0] == ' ' {
				s, cut = after, true
			}
		}
		if !cut {
			return s
		}
	}
}

// cutConnective takes "so", "therefore" and their like off the beginning of s.
func cutConnective(s string) string {
	for _, w := range [...]string{"so", "thus", "hence", "therefore"} {
		if after, ok := textmatch.CutFold(s, w); ok {
			return strings.TrimLeft(after, ",: ")
		}
	}
	return s
}

// cutReason returns s up to a clause that gives a reason, unless that denies
// what it follows.
func cutReason(s string) string {
	if _, rest, which := textmatch.FindWord(s, "which is", "which was", "which would be", "as it is", "as that is"); which != "" && denies(rest) {
		return s
	}
	before, after, word := textmatch.FindWord(s, "because", "since", "due to", "given that")
	if word == "" || textmatch.CountWords(after, 2) < 2 {
		if i := strings.Index(s, ", as "); i > 0 {
			return s[:i]
		}
		if i := strings.Index(s, ", which "); i > 0 {
			return s[:i]
		}
		return s
	}
	return strings.TrimRight(before, " ,;—–-")
}

// denies reports whether a clause behind "which is" says that a choice is none.
func denies(s string) bool {
	for i, w := range textmatch.Words(s, 4) {
		switch {
		case w == "wrong" || w == "incorrect" || w == "false" || w == "untrue" || w == "mistaken":
			return true
		case i > 0 && (w == "correct" || w == "right" || w == "true" || w == "answer") && vocabulary.HasNegator(s):
			return true
		}
	}
	return false
}

// mentions returns the choices that a text speaks of: labels in brackets or as
// lone capitals, and whole texts.
func (k key) mentions(s string) set {
	s = s[:min(len(s), maxReason)]
	found := set(0)
	for i := range len(s) {
		c := k.label(s[i : i+1])
		if c == 0 || i > 0 && isWordByte(s[i-1]) || i+1 < len(s) && isWordByte(s[i+1]) {
			continue
		}
		bracketed := i > 0 && (s[i-1] == '(' || s[i-1] == '[') || i+1 < len(s) && (s[i+1] == ')' || s[i+1] == ']')
		lower := s[i] >= 'a'
		article := (s[i] == 'A' || s[i] == 'I') && i+2 < len(s) && s[i+1] == ' ' && s[i+2] >= 'a' && s[i+2] <= 'z' && !cutsLead(s[i+2:]) &&
			!strings.HasPrefix(s[i+1:], " or ") && !strings.HasPrefix(s[i+1:], " and ")
		if bracketed || !lower && !article {
			found |= c
		}
	}
	text := textmatch.Lower(s)
	for i, t := range k.texts {
		if t.normal == "" || t.isLabel {
			continue
		}
		if _, _, ok := textmatch.FindSpan(text, t.normal); ok {
			found |= 1 << i
		}
	}
	return found
}

// cutsLead reports whether s begins with a lead.
func cutsLead(s string) bool {
	_, lead := cutLead(s)
	return lead != ""
}

func isWordByte(c byte) bool {
	return c >= utf8.RuneSelf || c == '_' || c == '\'' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// afterLead reads what follows a lead. Before anything is taken for a part of
// the lead, the rest is tried as it stands. A rest that is the text of several
// choices in normal form may be just one of them without a part of the lead.
func (k key) afterLead(rest string) set {
	got, is, separator := set(0), false, false
	for n := 1; ; {
		rest = strings.TrimLeft(rest, " ")
		if got = narrow(got, k.exact(rest)); got != 0 && !got.several() {
			return got
		}
		rest = strings.TrimLeft(rest, markup)
		if after, lead := cutLead(rest); lead != "" && n < maxLeads {
			rest = after
			n, is, separator = n+1, false, false
		} else if after, ok := reply.CutCopula(rest); ok && !is && !separator {
			rest, is = after, true
		} else if after, ok := reply.CutAdverb(rest); ok && is {
			rest = after
		} else if after, ok := cutSeparator(rest); ok && !separator {
			rest, separator = after, true
		} else {
			return got
		}
	}
}

// narrow returns those of got that are in c, if any is. Nothing becomes c.
func narrow(got, c set) set {
	switch both := got & c; {
	case got == 0:
		return c
	case both != 0:
		return both
	}
	return got
}

func cutLead(s string) (rest, lead string) {
	for _, l := range append(leads(), "letter") {
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
	if found := k.labelled(cuts); found != 0 {
		return found
	}
	return k.labelBehind(s)
}

// labelBehind returns the choice that a line gives the text of, and behind it
// the same choice's label in brackets: "Paris (B)".
func (k key) labelBehind(s string) set {
	s = strings.TrimRight(s, ".,;:! *_`")
	i := strings.LastIndexAny(s, "([")
	if i < 1 || len(s) != i+3 || !strings.ContainsRune(")]", rune(s[i+2])) {
		return 0
	}
	return k.label(s[i+1:i+2]) & k.text(s[:i])
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
