package compare

import (
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
	"securebench/internal/lazyregexp"
)

// Mode says how texts are compared.
type Mode uint8

// The modes.
const (
	InSentence Mode = iota // the answer may stand in a sentence that is understood
	Whole                  // what is stated must equal it
	Span                   // it may stand among other words
	Pattern                // it is a regular expression for the whole of what is stated
)

// Texts reads statements as one of the accepted answers.
type Texts struct {
	Accepted   []Text
	Mode       Mode
	KeepCase   bool
	ExtraWords int // of a span
}

// A Text is an accepted answer that is compared as text.
type Text struct {
	text    string // normalised
	formula string // its canonical form, of one with mathematical signs
	date    date
	clock   *clock
	pattern *regexp.Regexp
	polar   bool // it is a word for yes or no
	asked   bool // it stands in the question, or in the format that it asks for
	framed  bool // all its words are frame words
	words   []string
}

// maxStated is the largest text in bytes that is compared; a longer one is no answer.
const maxStated = 64 << 10

// NewText prepares an accepted answer for a question.
func (c *Texts) NewText(s string, q *answer.Question) (Text, error) {
	t := Text{text: c.normal(answer.Wide(s))}
	if c.Mode == Pattern {
		var err error
		t.pattern, err = regexp.Compile(`^(?:` + s + `)$`)
		return t, err
	}
	if c.Mode != Span && isFormula(s) {
		t.formula = canonical(answer.Wide(s))
	}
	if c.Mode == InSentence {
		t.date = parseDate(s, order(q, s))
		t.clock = parseClock(s)
	}
	t.asked = textmatch.HasPhrase(c.normal(q.Text()), t.text)
	words := answer.Words(t.text)
	t.framed = true
	for _, w := range words {
		if w.Kind != vocabulary.Sign {
			t.words = append(t.words, w.Text)
			t.framed = t.framed && w.In(vocabulary.Harmless) != 0
		}
	}
	t.framed = t.framed && len(t.words) > 0
	t.polar = len(words) == 1 && words[0].In(vocabulary.Yes|vocabulary.No) != 0
	return t, nil
}

// normal returns the form of s in which texts are compared.
func (c *Texts) normal(s string) string {
	s = textmatch.Tidy(c.fold(textmatch.NFC(s)))
	if spelledOut.MatchString(s) {
		s = strings.NewReplacer(" ", "", "-", "").Replace(s)
	}
	return s
}

// fold returns s in lower case, unless the row keeps it.
func (c *Texts) fold(s string) string {
	if c.KeepCase {
		return s
	}
	return textmatch.Lower(s)
}

// withoutArticle returns a normalised text without an article before it.
func withoutArticle(s string) string {
	for _, article := range [...]string{"the ", "a ", "an "} {
		if rest, ok := strings.CutPrefix(s, article); ok {
			return rest
		}
	}
	return s
}

// spelledOut is a word whose letters are written apart.
var spelledOut = lazyregexp.New(`^\pL([ -]\pL){2,}$`)

// Join returns the first of two values: all that there are are accepted.
func (*Texts) Join(a, _ int) (int, bool) { return a, true }

// Read reads what a mark leads to, or a form encloses.
func (c *Texts) Read(q *answer.Question, st answer.Statement) answer.Reading[int] {
	if st.Form && st.Rank == answer.Boxed && q.Around(st.Before, st.After) {
		return answer.Reading[int]{Finding: answer.Unclear, Why: "a word beside the form denies or doubts it"}
	}
	for _, s := range slices.Compact([]string{st.Raw, st.Rest, st.Text}) {
		if i := c.equal(s); i >= 0 {
			return answer.Reading[int]{Finding: answer.Stated, Value: i, Line: s == st.Rest}
		}
	}
	if i := c.find(q, st.Text); i >= 0 {
		return answer.Reading[int]{Finding: answer.Stated, Value: i}
	}
	if i := c.alike(st.Text); i >= 0 {
		return answer.Reading[int]{Finding: answer.Stated, Value: i}
	}
	return c.missed(st.Text)
}

// alike returns the accepted answer that each part of an alternative is, in one spelling or
// another: "n-d-o-a", or "ndoa". It returns -1 for any other text.
func (c *Texts) alike(s string) int {
	if len(s) > MaxSentence || c.Mode != InSentence {
		return -1
	}
	part := func(from, to int) int { return c.equal(strings.Trim(s[from:to], " ,")) }
	found, from := -1, 0
	for _, w := range answer.Words(s) {
		if w.In(vocabulary.Or) == 0 || len(w.Text) == 1 { // a letter may be one of the answer's
			continue
		}
		i := part(from, w.Start)
		if i < 0 || from > 0 && i != found {
			return -1
		}
		found, from = i, w.End
	}
	if from == 0 || part(from, len(s)) != found {
		return -1
	}
	return found
}

// missed says why a text gives no accepted answer. It depends on the text and the kind
// of the row only: a reason that revealed whether an accepted answer is among several
// would help to guess it.
func (c *Texts) missed(s string) answer.Reading[int] {
	words := answer.Words(s)
	if len(words) > maxWords || slices.ContainsFunc(words, func(w answer.Word) bool { return w.OneOf(",;") || w.In(vocabulary.And|vocabulary.Or) != 0 }) {
		return answer.Reading[int]{Finding: answer.Unclear, Why: "the answer is a list or too long"}
	}
	return answer.Reading[int]{Finding: answer.Unexpected}
}

// Other reports whether a sentence after the answer takes it back.
func (c *Texts) Other(q *answer.Question, s answer.Sentence, i int, near bool) bool {
	if q.Retracts(s.Words) {
		return near || q.Denies(s.Words) || len(s.Words) < 6 && c.find(q, s.Text) != i
	}
	if !near || s.Void {
		return false
	}
	if c.Accepted[i].polar {
		return !c.after(q, s, i) && len(s.Words) < minExplains
	}
	return answer.Spoken(s.Words) <= maxBareText && !q.Courteous(s.Words) && c.find(q, s.Text) < 0
}

// maxBareText is the most words of a sentence that is taken for another answer.
const maxBareText = 3

// spelling is an aside about how an answer is written, behind it.
var spelling = lazyregexp.New(`(?i) \((?:with|without) (?:the |any )?(?:quotes|quotation marks|hyphens|dashes|commas|spaces)\)[.]?$`)

// equal returns the accepted answer that a text equals, or -1.
func (c *Texts) equal(s string) int {
	if len(s) > maxStated {
		return -1
	}
	s = spelling.ReplaceAllString(s, "")
	text := c.normal(strings.TrimRight(s, "! "))
	if c.Mode == Whole {
		text = c.normal(s)
	}
	return slices.IndexFunc(c.Accepted, func(a Text) bool {
		switch {
		case a.text == "":
			return false
		case a.pattern != nil:
			return a.pattern.MatchString(strings.TrimSpace(s))
		}
		return withoutArticle(a.text) == withoutArticle(text) || a.is(s) || a.is(strings.Trim(s, " .,*_`\"'()"))
	})
}

// find returns the accepted answer that a sentence gives, or -1: it stands there, and
// everything beside it is understood, or explains it.
func (c *Texts) find(q *answer.Question, s string) int {
	if i := c.equal(s); i >= 0 || c.Mode == Whole || c.Mode == Pattern || len(s) > maxStated {
		return i
	}
	if c.Mode == Span {
		return c.span(s)
	}
	words := q.Words(s[:min(len(s), MaxSentence)])
	if n := len(words); n == 0 || len(s) > MaxSentence || words[n-1].Sign() == '?' {
		return -1
	}
	if i, polar := c.polar(q, s, words); polar {
		return i
	}
	return slices.IndexFunc(c.Accepted, func(a Text) bool { return a.text != "" && c.within(q, s, words, a) })
}

// within reports whether an accepted answer stands in a sentence: before it all is
// understood, after it too, or it explains.
func (c *Texts) within(q *answer.Question, s string, words []answer.Word, a Text) bool {
	if (a.date != (date{}) || a.clock != nil || a.formula != "" && len(words) <= maxWords) && c.apart(q, s, words, a) {
		return true
	}
	before, after, ok := textmatch.FindSpan(c.fold(s), a.text)
	if !ok || len(a.words) == 0 {
		return false // signs beside one without words could not be told from its own
	}
	cased := strings.ToUpper(after) // where it cannot be told
	if begin := len(s) - len(after); begin >= 0 && c.fold(s[begin:]) == after {
		cased = s[begin:]
	}
	b, t := q.Words(before), q.Words(after)
	if len(b) > maxWords {
		return false
	}
	i := lastIndex(b, func(w answer.Word) bool { return q.Is(w, vocabulary.Conclusion) || w.OneOf(",;.") })
	if i >= 0 && (q.Is(b[i], vocabulary.Conclusion) || q.Closed(b[:i], 0)) {
		b = b[i+1:]
	}
	if letter := a.framed && len(a.text) == 1 && len(b) > 0 && q.Is(b[len(b)-1], vocabulary.Link); letter && len(t) <= 1 && q.Closed(b, 0) && q.Closed(t, 0) {
		return true // "The first letter is A."
	}
	if !c.permits(q, b, a) || signed(before, a) {
		return false
	}
	if c.permits(q, t, a) {
		return true
	}
	for i, w := range t {
		if !c.permits(q, t[:i], a) {
			return false
		}
		if w.Sign() == '/' && c.equal(after[w.End:]) >= 0 {
			return true
		}
		if (q.Is(w, vocabulary.Reason) || opens(after, w, "")) && c.explains(q, cased, t[i:]) {
			return true
		}
	}
	return false
}

// signed reports whether the text before an answer ends in a sign that belongs to it: it
// touches it, or the answer is a formula.
func signed(before string, a Text) bool {
	r, _ := utf8.DecodeLastRuneInString(strings.TrimRight(before, " "))
	return (isSign(r) || answer.IsDash(r)) && (a.formula != "" || !strings.HasSuffix(before, " "))
}

// permits reports whether words may stand beside an answer. If the question has the
// answer itself, its other words do not frame it; beside an answer that is made of frame
// words none may stand: it could be another answer. A link after a word of the answer
// shows that the word belongs to what is asked.
func (c *Texts) permits(q *answer.Question, words []answer.Word, a Text) bool {
	linked := false
	for _, w := range slices.Backward(words) {
		linked = linked || q.Is(w, vocabulary.Link)
		if w.Kind == vocabulary.Sign {
			continue
		}
		own := a.asked || slices.Contains(a.words, w.Text) && !linked
		if a.framed || own && !q.Is(w, vocabulary.Harmless) || q.Is(w, vocabulary.And|vocabulary.Or) {
			return false
		}
	}
	return q.Closed(words, 0)
}

// minExplains is the fewest words of an explanation: a shorter one could be another
// answer.
const minExplains = 3

// explains reports whether what follows an answer only says more about it. In brackets
// or after a slash it may be another accepted answer.
func (c *Texts) explains(q *answer.Question, s string, words []answer.Word) bool {
	if c.equal(strings.Trim(s[words[0].Start:], " ()[]/.,;:")) >= 0 {
		return true
	}
	words = skipSigns(words)
	if len(words) == 0 || q.Is(words[0], vocabulary.Reason) {
		return true
	}
	if len(words) < minExplains || !q.Is(words[0], vocabulary.Harmless|vocabulary.Conclusion) && !words[0].Asked && words[0].In(vocabulary.Ordinary) == 0 {
		return false
	}
	asked, value, first := asserts(q, s, words)
	other := asked && unicode.IsUpper(first) && c.equal(strings.Trim(value, " .,;:)]*_")) < 0
	return !other && !q.Opposes(nil, words)
}

// asserts returns what a sentence says after its first link, and how that begins, and whether
// words of the question stand before the link.
func asserts(q *answer.Question, s string, words []answer.Word) (asked bool, value string, first rune) {
	for i, w := range words[:max(0, len(words)-1)] {
		if q.Is(w, vocabulary.Link) {
			value = strings.TrimLeft(s[words[i+1].Start:], " *_([\"'`")
			first, _ = utf8.DecodeRuneInString(value)
			return asked, value, first
		}
		asked = asked || w.Asked && !q.Is(w, vocabulary.Frame)
	}
	return false, "", 0
}

// apart reports whether an answer with a form of its own, a date, a time or a formula,
// stands in a sentence among words that are understood.
func (c *Texts) apart(q *answer.Question, s string, words []answer.Word, a Text) bool {
	longest := maxMoment
	if a.formula != "" {
		longest = maxWritten(len(a.formula))
	}
	// From harmless on, all words are; where others stand, they may explain.
	harmless := sort.Search(len(words), func(j int) bool { return q.Closed(words[j:], vocabulary.Unit) })
	ends := func(j int) bool {
		return j >= harmless || words[j].Sign() == '≈' || words[j].Sign() == ',' && c.explains(q, s, words[j:])
	}
	for i := range words[:min(len(words), maxWords)] {
		if i > 0 && !q.Closed(words[:i], 0) {
			break
		}
		if i > 0 && signed(s[:words[i].Start], a) {
			continue
		}
		for j := len(words); j > i; j-- {
			mid := s[words[i].Start:words[j-1].End]
			if len(mid) <= longest && ends(j) && a.is(mid) {
				return true
			}
		}
	}
	return false
}

// is reports whether a text is the date, time or formula.
func (a Text) is(s string) bool {
	if a.date != (date{}) && parseDate(s, a.date.order) == a.date {
		return true
	}
	if a.clock != nil {
		if d := parseClock(s); d != nil && *d == *a.clock {
			return true
		}
	}
	return a.formula != "" && len(s) <= maxWritten(len(a.formula)) && sameFormula(canonical(s), a.formula)
}

// maxWritten is the most bytes in which a formula of so many is written.
func maxWritten(formula int) int { return 8*formula + maxMoment }

// polar reads a sentence that begins with yes or no: that word is the answer, and what
// follows may explain it. It reports false for any other sentence.
func (c *Texts) polar(q *answer.Question, s string, words []answer.Word) (int, bool) {
	said := skipSigns(words)
	if len(said) < 2 || !said[1].OneOf(",;:.!—–-(、，。") || !q.Is(said[0], vocabulary.Yes|vocabulary.No) {
		return -1, false
	}
	word := c.normal(s[said[0].Start:said[0].End])
	i := slices.IndexFunc(c.Accepted, func(a Text) bool { return a.text == word && a.polar })
	if i < 0 {
		return -1, slices.ContainsFunc(c.Accepted, func(a Text) bool { return a.polar })
	}
	short := answer.Spoken(words) <= minExplains
	opposes := func(w answer.Word) bool {
		again := q.Is(w, vocabulary.Yes|vocabulary.No) && (short || w.In(vocabulary.Frame|vocabulary.Final) == 0)
		doubts := q.Is(w, vocabulary.Or|vocabulary.Hedge|vocabulary.Retract)
		return again || doubts && w.In(vocabulary.Frame|vocabulary.Ordinary) == 0
	}
	if slices.ContainsFunc(said[2:], opposes) {
		return -1, true
	}
	return i, true
}

// span returns the accepted answer that stands in a text next to no more than
// ExtraWords words, none of which denies or offers another.
func (c *Texts) span(s string) int {
	folded := c.fold(s)
	opposes := func(w answer.Word) bool { return w.In(vocabulary.Negator|vocabulary.Or|vocabulary.Wrong) != 0 }
	return slices.IndexFunc(c.Accepted, func(a Text) bool {
		before, after, ok := textmatch.FindSpan(folded, a.text)
		words := append(answer.Words(before), answer.Words(after)...)
		return ok && len(a.words) > 0 && answer.Spoken(words) <= c.ExtraWords && !slices.ContainsFunc(words, opposes)
	})
}

// Unmarked reads the last line of a reply without marks: its first sentence gives the
// answer, and the others explain it.
func (c *Texts) Unmarked(r *answer.Reply) (answer.Reading[int], int) {
	q := r.Question
	n := len(r.Lines) - 1
	says := func(s answer.Sentence) bool { return !q.Courteous(s.Words) }
	for n > 0 && !slices.ContainsFunc(r.Lines[n].Sentences, says) {
		n-- // it only takes leave
	}
	if n < 0 {
		return answer.Reading[int]{Why: "the reply holds no answer"}, 0
	}
	line := r.Lines[n]
	for _, s := range []string{answer.Collapsed(line.Source), line.Text} {
		if i := c.equal(s); i >= 0 {
			return answer.Reading[int]{Finding: answer.Stated, Value: i}, n
		}
	}
	missed := c.missed(line.Text)
	got := missed
	for _, s := range line.Sentences {
		if q.Courteous(s.Words) || c.echoes(q, s) {
			continue
		}
		switch i := c.find(q, s.Text); {
		case s.Void, i < 0 && (got.Finding != answer.Stated || !c.after(q, s, got.Value)):
			return missed, n
		case i >= 0:
			got = answer.Reading[int]{Finding: answer.Stated, Value: i}
		}
	}
	return got, n
}

// after reports whether a sentence after accepted answer i explains it.
func (c *Texts) after(q *answer.Question, s answer.Sentence, i int) bool {
	if c.Mode != InSentence {
		return false
	}
	words := q.Words(s.Text)
	long := len(words) > minExplains
	if q.Retracts(words) || len(words) < minExplains {
		return false
	}
	if c.Accepted[i].polar {
		isPolar := func(w answer.Word) bool { return q.Is(w, vocabulary.Yes|vocabulary.No) }
		return long || !slices.ContainsFunc(words, isPolar)
	}
	asked, _, first := asserts(q, s.Text, words)
	restates := asked || unicode.IsUpper(first) || unicode.IsDigit(first)
	return long && !restates && !strings.HasSuffix(s.Text, "?") && !q.Opposes(nil, words)
}

// echoes reports whether a sentence asks the question again.
func (c *Texts) echoes(q *answer.Question, s answer.Sentence) bool {
	if !strings.HasSuffix(s.Text, "?") {
		return false
	}
	words := q.Words(s.Text)
	for i := range words {
		words[i].Excused = words[i].Asked
	}
	return q.Closed(words[:len(words)-1], 0)
}
