// Package compare understands what a reply states, as a choice, a number, a text, a set, a
// date or a time, and compares it with what is accepted. What it does not understand whole
// is no answer.
package compare

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"
	"strings"
	"unicode"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
	"securebench/internal/lazyregexp"
)

// MaxChoices is as many as there are labels.
const MaxChoices = 26

// Reasons why choices cannot be read.
var (
	ErrNoChoices      = errors.New("the row has no choices")
	ErrTooManyChoices = errors.New("the row has more than 26 choices")
)

// A Set is a set of choices: bit i is the choice at position i.
type Set uint32

// Several reports whether s contains more than one choice.
func (s Set) Several() bool { return s&(s-1) != 0 }

// Choices reads statements as the name of a choice: its label, its text, or both.
type Choices struct {
	texts   []text
	longest int // bytes of the longest text in normal form
	formula int // bytes of the longest formula
}

// A text is the text of a choice in the forms that are compared.
type text struct {
	cuts    [layers]cut // as the row writes it
	normal  string
	plain   string // without typesetting and articles
	formula string // its canonical form, of one with mathematical signs
	isLabel bool   // it reads as a label
}

// NewChoices prepares the choices of a row.
func NewChoices(choices []string) (*Choices, error) {
	switch {
	case len(choices) == 0:
		return nil, ErrNoChoices
	case len(choices) > MaxChoices:
		return nil, ErrTooManyChoices
	}
	k := &Choices{texts: make([]text, len(choices))}
	for i, c := range choices {
		c = answer.Wide(c)
		t := text{cuts: cutAll(textmatch.Collapse(c)), normal: textmatch.Normalize(c), plain: bare(c)}
		label := strings.TrimRight(strings.TrimLeft(t.cuts[peelNone].core, " ()[]{}"), " ()[]{}.,;:!")
		t.isLabel = k.label(label) != 0
		if isFormula(c) || ratio.MatchString(t.plain) {
			t.formula = canonical(c)
			k.formula = max(k.formula, len(t.formula))
		}
		k.texts[i] = t
		k.longest = max(k.longest, len(t.normal), len(c))
	}
	return k, nil
}

// ratio is a ratio of two numbers.
var ratio = lazyregexp.New(`^[0-9.]+ ?: ?[0-9.]+$`)

// where returns the choices whose text is one that is wanted.
func (k *Choices) where(wanted func(*text) bool) (found Set) {
	for i := range k.texts {
		if wanted(&k.texts[i]) {
			found |= 1 << i
		}
	}
	return found
}

// calculated returns the choices that s is, as a formula that may be set in another way.
func (k *Choices) calculated(s string) Set {
	if k.formula == 0 || len(s) > maxWritten(k.formula) {
		return 0
	}
	form := canonical(s)
	if len(form) < 2 {
		return 0 // a letter is a label
	}
	return k.where(func(t *text) bool { return t.formula != "" && sameFormula(form, t.formula) })
}

// label returns the choice that s is the label of: one ASCII letter in range.
func (k *Choices) label(s string) Set {
	if len(s) != 1 {
		return 0
	}
	i := int(s[0]|0x20) - 'a'
	if i < 0 || i >= len(k.texts) {
		return 0
	}
	return 1 << i
}

// contracted writes what a word denies apart from it.
var contracted = strings.NewReplacer("can't", "cannot", "can not", "cannot", "won't", "will not", "n't", " not") //nolint:gochecknoglobals // a constant

// bare is a text in normal form without typesetting, contractions and an article before it.
func bare(s string) string {
	return withoutArticle(contracted.Replace(strings.ReplaceAll(textmatch.Normalize(answer.Plain(s)), "’", "'")))
}

// Join returns the choices that both may mean.
func (*Choices) Join(a, b Set) (Set, bool) { return a & b, a&b != 0 }

// named returns a reading of the choices that are named.
func named(s Set) answer.Reading[Set] { return answer.Reading[Set]{Finding: answer.Stated, Value: s} }

// hedged is the reading of a text that speaks of choices and names none.
func hedged(why string) answer.Reading[Set] {
	return answer.Reading[Set]{Finding: answer.Unclear, Why: why}
}

// Read reads the choice that a mark leads to, or a box encloses.
func (k *Choices) Read(q *answer.Question, st answer.Statement) answer.Reading[Set] {
	if st.Form {
		return k.enclosed(q, st)
	}
	if st.Praised {
		if c := k.closed(q, st.Text); c != 0 && k.mentions(st.Before) == 0 {
			return named(c)
		}
		return answer.Reading[Set]{}
	}
	for _, s := range slices.Compact([]string{st.Source, st.Raw, st.Rest, st.Text}) {
		if c := k.exact(s); c != 0 {
			return answer.Reading[Set]{Finding: answer.Stated, Value: c, Line: s == st.Source || s == st.Rest}
		}
	}
	if c := k.calculated(st.Raw); c != 0 {
		return named(c)
	}
	for _, s := range slices.Compact([]string{st.Rest, st.Text}) {
		if c := cmp.Or(k.led(q, s), k.articled(s)); c != 0 {
			return named(c)
		}
	}
	if st.Weak {
		return answer.Reading[Set]{}
	}
	if label := strings.Trim(st.Text, " ().[]*_`"); len(label) == 1 && label[0] >= 'A' && label[0] <= 'Z' && k.label(label) == 0 {
		return hedged("the answer is a label that no choice has")
	}
	refuses := func(w answer.Word) bool { return q.Is(w, vocabulary.Refusal) && !w.Asked }
	if slices.ContainsFunc(q.Words(st.Text), refuses) {
		return hedged("the answer is that there is none")
	}
	if c := k.explained(q, st.Text); c != 0 {
		return named(c)
	}
	if m := k.mentions(st.Text); m != 0 || k.begins(st.Text) != 0 {
		r := hedged("the answer names no choice, or what stands beside it is not understood")
		if m != 0 && !m.Several() {
			r.Value, r.Speaks = m, true
		}
		return r
	}
	return answer.Reading[Set]{}
}

// articled returns the choice whose label and text a text is, an article before the
// text aside, or "or".
func (k *Choices) articled(s string) Set {
	c, rest := k.lead(s)
	if words := vocabulary.Words(nil, rest[:min(len(rest), MaxSentence)]); len(words) > 1 && words[0].In(vocabulary.Or) != 0 {
		rest = rest[words[1].Start:]
	}
	return c & k.described(rest)
}

// led is closed for what follows a mark: a capital label that begins it is no word.
func (k *Choices) led(q *answer.Question, s string) Set {
	if c := k.closed(q, s); k.begins(s)|c == c {
		return c
	}
	return 0
}

// begins returns the choice whose label, a capital, a text begins with.
func (k *Choices) begins(s string) Set {
	s = strings.TrimLeft(s, " *_`([{\"'")
	if s == "" || s[0] > 'Z' || !isLone(s, 0) {
		return 0
	}
	return k.label(s[:1])
}

// enclosed reads what a form encloses; around it nothing may oppose or name another.
func (k *Choices) enclosed(q *answer.Question, st answer.Statement) answer.Reading[Set] {
	c := cmp.Or(k.exact(st.Text), k.exact(st.Raw), k.calculated(st.Raw), k.closed(q, st.Text))
	if c == 0 {
		if k.mentions(st.Text)|k.mentions(st.Before)|k.mentions(st.After) != 0 {
			return hedged("a form holds more than a choice")
		}
		return answer.Reading[Set]{}
	}
	if k.mentions(st.After)&^c != 0 || k.listed(st.Before)&^c != 0 {
		return hedged("another choice stands beside the form")
	}
	if q.Around(st.Before, st.After) {
		return hedged("a word beside the form denies or doubts it")
	}
	return named(c)
}

// closed returns the choice that a text names where all words beside it are understood:
// harmless ones before it, and after it too.
func (k *Choices) closed(q *answer.Question, s string) Set {
	if len(s) > MaxSentence {
		return 0
	}
	words := q.Words(s)
	calculates := func(w answer.Word) bool { return w.OneOf("=+*^×÷√≡") } // and letters are no labels
	if n := len(words); n == 0 || words[n-1].Sign() == '?' || slices.ContainsFunc(words, calculates) {
		return 0
	}
	for i := range min(len(words), maxWords) {
		if i > 0 && (words[len(words)-1].Sign() == ':' || !q.Closed(words[:i], vocabulary.Conclusion)) {
			return 0 // "Option B:" begins what is said about it
		}
		if i > 0 && words[i-1].Sign() == '-' && words[i-1].End == words[i].Start &&
			(i == 1 || words[i-2].In(vocabulary.Option|vocabulary.Answer) == 0) {
			continue
		}
		if k.mentionsBefore(s, words[i].Start) != 0 {
			return 0
		}
		rest, tail := s[words[i].Start:], ""
		for j := len(words); j > i && j >= len(words)-maxTail && q.Closed(words[j:], vocabulary.Conclusion); j-- {
			if j < len(words) {
				tail = s[words[j].Start:]
			}
			c := k.exact(strings.TrimSuffix(rest, tail))
			if c == 0 || tail != "" && (article.MatchString(rest) || k.mentions(tail)&^c != 0) {
				continue
			}
			if i == 0 && tail == "" || k.stands(q, s, words, i) {
				return c
			}
		}
	}
	return 0
}

// maxTail is the most words after a choice that are tried.
const maxTail = 12

// stands reports whether a label in a sentence is one: a capital, in brackets, or after a
// word such as "option". A text of more than a letter always is.
func (k *Choices) stands(q *answer.Question, s string, words []answer.Word, i int) bool {
	w := words[i]
	if w.Kind != vocabulary.Letters || len(w.Text) > 1 {
		return true
	}
	if w.End < len(s) && strings.IndexByte("(_^", s[w.End]) >= 0 {
		return false // the name of a function
	}
	if s[w.Start] <= 'Z' {
		return true
	}
	return i > 0 && (words[i-1].Kind == vocabulary.Sign && words[i-1].Sign() != ',' ||
		q.Is(words[i-1], vocabulary.Option|vocabulary.Answer))
}

// article is A or I as a word: another follows.
var article = lazyregexp.New(`^[aAiI] [a-z]`)

// explained returns the choice that a text names before an explanation, which speaks of
// no other.
func (k *Choices) explained(q *answer.Question, s string) Set {
	words := q.Words(s[:min(len(s), MaxSentence)])
	for i := 1; i < len(words) && i < maxWords; i++ {
		w := words[i]
		if !q.Is(w, vocabulary.Reason) && !opens(s, w, "\"“「") {
			continue
		}
		head := strings.TrimSpace(s[:w.Start])
		c := cmp.Or(k.exact(head), k.led(q, head))
		if c == 0 {
			continue
		}
		tail := s[w.Start:]
		if reasoned(q, words[i:]) || (k.mentions(tail)|k.described(tail))&^c == 0 && q.Explains(words[i:]) {
			return c
		}
		return 0
	}
	return 0
}

// described returns the choice whose text a description is, articles and brackets aside.
func (k *Choices) described(s string) (found Set) {
	for layer, c := range cutAll(strings.TrimSpace(s)) {
		if found = k.written(layer, c, true); found != 0 {
			return found
		}
	}
	s = bare(strings.Trim(s, " .,;:!()[]-–—\"'“”*_`"))
	return k.where(func(t *text) bool { return t.plain == s && s != "" })
}

// Unmarked reads a reply without marks: sentences that name a choice, or call one right,
// and lines that are one. All must agree.
func (k *Choices) Unmarked(r *answer.Reply) (answer.Reading[Set], int) {
	q := r.Question
	got, line := answer.Reading[Set]{Why: "the reply does not name exactly one choice"}, 0
	several := false
	seen := Set(0)
	take := func(c answer.Reading[Set], n int, counts bool) {
		if !c.Value.Several() {
			seen |= c.Value
		}
		switch both := got.Finding == answer.Stated && c.Finding == answer.Stated; {
		case c.Finding == answer.Nothing:
		case both && got.Value&c.Value == 0:
			several = true
		case both:
			got.Value &= c.Value
			if counts {
				line = n
			}
		case counts:
			got, line = c, n
		}
	}
	statements := r.Statements
	for n, l := range r.Lines {
		for ; len(statements) > 0 && statements[0].Line == n; statements = statements[1:] {
			if st := statements[0]; st.Rank == answer.Unmarked {
				take(k.Read(q, st), n, true)
			}
		}
		if c := k.line(r, n); c.Finding != answer.Nothing {
			take(c, n, k.decides(r, n))
			continue
		}
		for _, s := range l.Sentences {
			if c := k.closed(q, s.Text); c != 0 && !s.Void && (len(l.Sentences) == 1 || k.text(strings.TrimRight(s.Text, ".!")) == 0) {
				take(named(c), n, true)
			}
		}
	}
	if several || got.Finding == answer.Stated && seen&^got.Value != 0 {
		got.Finding, got.Why = answer.Several, "the reply names different choices"
	}
	if got.Finding == answer.Nothing && len(r.Lines) > 0 && (seen.Several() || k.enumerates(r.Lines[len(r.Lines)-1].Text)) {
		got.Finding, got.Why = answer.Several, "the reply names several choices"
	}
	return got, line
}

// line reads a line that is a choice as a whole, or begins with a label as if it were.
func (k *Choices) line(r *answer.Reply, n int) answer.Reading[Set] {
	l := r.Lines[n]
	for _, s := range slices.Compact([]string{answer.Collapsed(l.Source), l.Text}) {
		if c := k.exact(s); c != 0 {
			return named(c)
		}
	}
	if len(r.Lines) == 1 { // else it may be a step of a calculation
		if c := k.calculated(l.Source); c != 0 {
			return named(c)
		}
	}
	c, rest := k.lead(l.Text)
	d := k.described(rest)
	switch {
	case c == 0:
		if c = k.predicate(r.Question, l); c == 0 {
			return answer.Reading[Set]{}
		}
	case d != 0 && d&c == 0:
		return hedged("a label stands before the text of another choice")
	case d == 0 && !k.restates(r.Question, rest, c) && !reasoned(r.Question, r.Question.Words(rest)):
		return hedged("a label stands before a text that is not its choice's")
	}
	return named(c)
}

// predicate returns the choice that a line ends with after a link, its label and its own
// text, and a full stop: "The true statement is B. Paris is a city." Nothing before it in the line names
// another, and its sentence does not deny it but in words of the question.
func (k *Choices) predicate(q *answer.Question, l answer.Line) Set {
	if !strings.HasSuffix(l.Text, ".") {
		return 0 // it may go through the choices
	}
	for _, s := range l.Sentences {
		for n, w := range s.Words {
			link := lastIndex(s.Words[:n], func(w answer.Word) bool { return !w.OneOf(":(") })
			if s.Void || link < 0 || !q.Is(s.Words[link], vocabulary.Link) {
				continue
			}
			if w.End > len(l.Text) || !strings.EqualFold(l.Text[w.Start:w.End], w.Text) {
				continue // a form stands before it in the line
			}
			c, rest := k.lead(l.Text[w.Start:])
			its := c != 0 && (k.described(rest) == c || k.begun(q, rest, c))
			if its && k.mentions(l.Text[:w.Start])&^c == 0 && !restricted(q, s.Words[:link+1]) {
				return c
			}
		}
	}
	return 0
}

// begun reports whether a text begins with that of a choice and a full stop, and what
// follows is about no other choice.
func (k *Choices) begun(q *answer.Question, s string, c Set) bool {
	own := k.texts[bits.TrailingZeros32(uint32(c))].normal
	rest, ok := strings.CutPrefix(textmatch.Lower(s), own+". ")
	return ok && own != "" && k.keeps(q, strings.TrimSpace(rest), c)
}

// keeps reports whether a text behind an answer is about no other choice, and no sentence of
// it turns against the answer.
func (k *Choices) keeps(q *answer.Question, s string, c Set) bool {
	if k.mentions(s)&^c != 0 || len(s) > MaxSentence {
		return false
	}
	for _, span := range textmatch.Sentences(s, true) {
		words := q.Words(s[span.Start:span.End])
		if q.Retracts(words) || len(words) > 0 && q.Is(words[0], vocabulary.Except) {
			return false
		}
	}
	return true
}

// restricted reports whether a word denies or doubts, wherever it stands, that is not the
// question's, or announces options.
func restricted(q *answer.Question, words []answer.Word) bool {
	return slices.ContainsFunc(words, func(w answer.Word) bool {
		singular := answer.Words(strings.TrimSuffix(w.Text, "s"))
		option := len(singular) > 0 && q.Is(singular[0], vocabulary.Option)
		return option || q.Is(w, vocabulary.Restrictive) && !w.Asked && !w.Excused
	})
}

// restates reports whether a text is that of a choice among words that are understood.
func (k *Choices) restates(q *answer.Question, s string, c Set) bool {
	own := k.texts[bits.TrailingZeros32(uint32(c))].plain
	before, after, ok := textmatch.FindSpan(textmatch.Lower(answer.Plain(s)), own)
	return ok && q.Closed(q.Words(before), 0) && q.Closed(q.Words(after), 0)
}

// leading is a capital label with a sign that parts it from what follows.
var leading = lazyregexp.New("^[ *_`([{（【]*([A-Z])[*_`]*(?:[).:\\]},、][ *_`).:\\]},、]*(?:-+ [- ]*)?| - [- ]*)")

// lead returns the choice whose label leads a line, and what follows.
func (k *Choices) lead(s string) (Set, string) {
	m := leading.FindStringSubmatchIndex(s)
	if m == nil {
		return 0, ""
	}
	return k.label(s[m[2]:m[3]]), s[m[1]:]
}

// decides reports whether a line that is a choice counts as the answer: it is the last
// line that says something, or the first of a text that was not cut off; and no line
// before it announces a list or repeats the question. Where a line announces the answer,
// those after it are about no other choice.
func (k *Choices) decides(r *answer.Reply, n int) bool {
	last := len(r.Lines) - 1
	for last > n && k.idle(r.Lines[last]) {
		last--
	}
	text, before := r.Lines[n].Text, ""
	if n > 0 {
		before = strings.TrimRight(r.Lines[n-1].Text, " *_`")
	}
	c := k.exact(text)
	item, _ := k.lead(before)
	announced := strings.HasSuffix(before, ":")
	switch {
	case item&^c != 0 && strings.HasSuffix(strings.TrimRight(text, "*_` "), "."), // the next item of a list
		announced && !k.announces(r.Question, before),
		strings.HasSuffix(before, "?") && k.label(strings.Trim(text, " ().*")) == 0:
		return false
	case n == last:
		return true
	}
	end := strings.TrimRight(r.Lines[len(r.Lines)-1].Text, " *_`\"')")
	ends := lastRune(end)
	if !strings.ContainsRune(".!。", ends) && (ends == ':' || textmatch.CountWords(end, 4) == 4) {
		return false
	}
	other := func(l answer.Line) bool { return !k.keeps(r.Question, l.Text, c) }
	return n == 0 || k.label(strings.Trim(text, " ().*[]{}`")) != 0 ||
		announced && c != 0 && !slices.ContainsFunc(r.Lines[n+1:], other)
}

// announces reports whether a line announces an answer rather than a list.
func (k *Choices) announces(q *answer.Question, s string) bool {
	words := q.Words(s)
	for i, w := range words {
		if q.Is(w, vocabulary.Answer|vocabulary.Final|vocabulary.Choose|vocabulary.Conclusion) {
			return true
		}
		if q.Is(w, vocabulary.Option) {
			return false
		}
		if i == len(words)-2 {
			return q.Is(w, vocabulary.Link) // "The best example is:"
		}
	}
	return false
}

// idle reports whether a line adds nothing to an answer before it: a courtesy, or a name
// with a value.
func (k *Choices) idle(l answer.Line) bool {
	return len(l.Text) < 120 && k.mentions(l.Text) == 0 && (strings.HasSuffix(l.Text, "!") || strings.Contains(l.Text, ": "))
}

// Other reports whether a sentence after the answer names another choice.
func (k *Choices) Other(q *answer.Question, s answer.Sentence, c Set, near bool) bool {
	if k.described(s.Text)&c != 0 {
		return false // its own text
	}
	if q.Retracts(s.Words) {
		return k.mentions(s.Text)&^c != 0 || q.Denies(s.Words) && len(s.Words) < 5
	}
	found := cmp.Or(k.exact(s.Text), k.described(s.Text))
	return near && found != 0 && found&c == 0
}

// mentions returns the choices that a text mentions: labels in brackets or as lone
// capitals, and whole texts.
func (k *Choices) mentions(s string) Set { return k.mentionsBefore(s, len(s)) }

// mentionsBefore returns the choices that the first bytes of a text mention.
func (k *Choices) mentionsBefore(s string, end int) (found Set) {
	s = s[:min(len(s), MaxSentence)]
	end = min(end, len(s))
	for i := range end {
		c := k.label(s[i : i+1])
		if c == 0 || !isLone(s, i) {
			continue
		}
		bracketed := strings.ContainsAny(s[max(0, i-1):i], "([") || strings.ContainsAny(s[i+1:min(len(s), i+2)], ")]")
		numeral := s[i] == 'i' && strings.Contains(s, "(ii)")
		if bracketed && !numeral || s[i] < 'a' && !isPronoun(s[i:]) {
			found |= c
		}
	}
	folded := textmatch.Lower(s[:end])
	return found | k.where(func(t *text) bool {
		_, _, ok := textmatch.FindSpan(folded, t.normal)
		return ok && !t.isLabel
	})
}

// listed returns the choices whose labels stand as capitals before a form with nothing
// but marks and frame words: "Answer A, answer: B" is two answers.
func (k *Choices) listed(before string) (found Set) {
	if textmatch.CountWords(before, 8) > 6 {
		return 0
	}
	for i := range len(before) {
		if before[i] < 'a' && isLone(before, i) && !isPronoun(before[i:]) {
			found |= k.label(before[i : i+1])
		}
	}
	return found
}

// pronoun is a capital A or I that may be a word rather than a label, and the word after it.
var pronoun = lazyregexp.New(`^(?:I'|[AI] ([a-z]\pL*))`)

// isPronoun reports whether a text begins with A or I as a word rather than a label, which a
// word that joins two follows.
func isPronoun(s string) bool {
	m := pronoun.FindStringSubmatch(s)
	if m == nil || m[1] == "is" {
		return false
	}
	words := vocabulary.Words(nil, m[1])
	return len(words) == 0 || words[0].In(vocabulary.Or|vocabulary.And) == 0
}

// isLone reports whether no letter, digit, _ or ' touches the character at s[i].
func isLone(s string, i int) bool {
	return (i == 0 || !isWordByte(s[i-1])) && (i+1 == len(s) || !isWordByte(s[i+1]))
}

func isWordByte(c byte) bool {
	return c == '_' || c == '\'' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// enumerates reports whether a line holds several choices as words or as parts of a list.
func (k *Choices) enumerates(line string) bool {
	line = line[:min(len(line), MaxSentence)]
	seen := Set(0)
	for part := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(",;/|、，", r) }) {
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
	return seen.Several()
}
