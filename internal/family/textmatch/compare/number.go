package compare

import (
	"math/big"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
	"securebench/internal/lazyregexp"
)

// Numbers reads statements as numbers.
type Numbers struct {
	Loose bool // a number may be approximate, because the row has a tolerance
	// Percent and Currency are what accepted answers are written with.
	Percent  bool
	Currency map[string]bool
	asks     *asks
}

// asks is what a question says of numbers.
type asks struct {
	numbers map[string]bool // that it has
	units   map[string]bool // that it names
	// measures are those of them that no number of the question counts, and sorts their
	// sorts of quantity.
	measures, sorts map[string]bool
}

// NewNumbers returns a reader of numbers that answer a question.
func NewNumbers(q *answer.Question, loose bool) Numbers {
	a := &asks{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	counted := false
	for _, w := range q.Words(q.Text()) {
		name, ok := w.Value(vocabulary.Unit, q.In)
		if c := currencyOf(w.Text); c != "" {
			name, ok = "currency-"+c, true
		}
		if ok {
			a.units[name] = true
		}
		if ok && !counted && utf8.RuneCountInString(w.Text) > 1 {
			a.measures[name] = true
			sort, _, _ := strings.Cut(name, "-")
			a.sorts[sort] = true
		}
		if counted = w.Kind == vocabulary.Digits; counted {
			t, _ := scan(q.Text(), w.Start)
			if v, ok := t.value(); ok {
				a.numbers[v.RatString()] = true
			}
		}
	}
	return Numbers{Loose: loose, Currency: map[string]bool{}, asks: a}
}

// same reports whether two numbers are the same answer.
func (n Number) same(other Number) bool {
	a, b := n.value, other.value
	if hundredth := big.NewRat(1, 100); n.percent && !other.percent {
		a = new(big.Rat).Mul(a, hundredth)
	} else if other.percent && !n.percent {
		b = new(big.Rat).Mul(b, hundredth)
	}
	return a.Cmp(b) == 0 && (n.currency == other.currency || n.currency == "" || other.currency == "")
}

// Read reads the number that a statement gives.
func (c Numbers) Read(q *answer.Question, st answer.Statement) answer.Reading[Number] {
	if st.Form && st.Rank == answer.Boxed {
		return c.boxed(q, st)
	}
	if st.Praised && c.holds(q, q.Words(st.Before)) {
		return answer.Reading[Number]{Finding: answer.Several, Why: "more than one number stands before what calls one right"}
	}
	return c.read(q, st.Text)
}

// boxed reads a box: what touches it belongs to it, and what is around it must not
// oppose.
func (c Numbers) boxed(q *answer.Question, st answer.Statement) answer.Reading[Number] {
	before, after := strings.TrimRight(st.Before, " "), strings.TrimLeft(st.After, " ")
	before = before[strings.LastIndexAny(before, "=:")+1:]
	apart := strings.TrimRightFunc(before, func(r rune) bool {
		return (!textmatch.IsLetterOrNumber(r) || unicode.IsDigit(r)) && !strings.ContainsRune(".,;!?()[]\"'“”*", r)
	})
	before, touching := apart, before[len(apart):]
	if textmatch.CountWords(before, 1) > 0 && strings.HasPrefix(touching, " ") {
		touching = strings.TrimLeft(touching, " –—-") // a dash between clauses
	}
	follows := ""
	if words := q.Words(after); len(words) > 0 && !strings.ContainsRune(".,;:!?)]\"'“”*-–—($", lastRune(after[:words[0].End])) {
		l := &listing{q: q, text: after, words: words}
		switch u := l.unit(0, len(words)); {
		case u.end > 0:
			follows = after[:words[u.end-1].End]
		case words[0].Kind != vocabulary.Letters || words[0].In(vocabulary.Scale) != 0 && !words[0].Asked:
			follows = after[:words[0].End]
		}
	}
	if textmatch.IsDigit(lastRune(touching)) || strings.HasSuffix(touching, "√") {
		return answer.Reading[Number]{Finding: answer.Unclear, Why: "a number or a root touches the box"}
	}
	got := c.read(q, strings.TrimSpace(touching+st.Text+" "+follows))
	if got.Finding != answer.Stated {
		return got
	}
	if q.Around(st.Before, strings.TrimPrefix(after, follows)) {
		return answer.Reading[Number]{Finding: answer.Unclear, Why: "a word beside the boxed number denies, bounds or multiplies it"}
	}
	return got
}

func lastRune(s string) rune {
	r, _ := utf8.DecodeLastRuneInString(s)
	return r
}

// Unmarked reads the last line with a number.
func (c Numbers) Unmarked(r *answer.Reply) (answer.Reading[Number], int) {
	q := r.Question
	for n := len(r.Lines) - 1; n >= 0; n-- {
		line := r.Lines[n]
		last := lastIndex(line.Sentences, func(s answer.Sentence) bool { return c.holds(q, s.Words) })
		if last < 0 {
			if slices.ContainsFunc(line.Sentences, func(s answer.Sentence) bool { return q.Denies(s.Words) }) {
				return answer.Reading[Number]{}, n
			}
			continue
		}
		if line.Sentences[last].Void {
			return answer.Reading[Number]{Finding: answer.Nothing, Why: "the sentence with the last number marks none"}, n
		}
		got := c.read(q, line.Sentences[last].Text)
		other := func(s answer.Sentence) bool { return !s.Void && c.Other(q, s, got.Value, false) }
		if got.Finding == answer.Stated && slices.ContainsFunc(line.Sentences[:last], other) {
			return answer.Reading[Number]{Finding: answer.Several, Why: "the last line holds another number"}, n
		}
		return got, n
	}
	return answer.Reading[Number]{Why: "the reply holds no number"}, 0
}

// holds reports whether a sentence has a number.
func (c Numbers) holds(q *answer.Question, words []answer.Word) bool {
	l := &listing{q: q, words: words}
	for i, w := range words {
		_, fraction := vulgar[w.Sign()]
		_, n := l.spelledOut(i)
		if fraction || w.Kind == vocabulary.Digits || n > 0 && !w.Asked && w.In(vocabulary.Frame) == 0 {
			return true
		}
	}
	return false
}

// Other reports whether a sentence holds a number that is neither the value nor the
// question's.
func (c Numbers) Other(q *answer.Question, s answer.Sentence, value Number, near bool) bool {
	if near && q.Retracts(s.Words) && answer.Spoken(s.Words) <= maxNo && !q.Courteous(s.Words) {
		return true // "No." or "Not really."
	}
	if near && len(s.Words) > maxBare && !q.Retracts(s.Words) {
		return false
	}
	if got := c.read(q, s.Text); got.Finding == answer.Stated && got.Value.same(value) {
		return false
	}
	l := c.list(q, s.Text, q.Words(s.Text))
	other := func(v numeral) bool { return !v.asked && !v.same(value) }
	return slices.ContainsFunc(l.values, other) && !l.computes(value)
}

// maxNo is the most words of a sentence that denies the one before it by itself.
const maxNo = 2

// maxBare is the most words of a sentence that is taken for an answer of its own.
const maxBare = 6

// A numeral is a number in a text: words[from:to].
type numeral struct {
	Number
	from, to int
	asked    bool // only says what the answer counts, as the question does
}

// A listing is a text with its numbers.
type listing struct {
	q      *answer.Question
	asks   *asks
	text   string
	words  []answer.Word
	values []numeral
}

func (c Numbers) list(q *answer.Question, text string, words []answer.Word) *listing {
	l := &listing{q: q, asks: c.asks, text: text, words: words}
	for i := 0; i < len(words); {
		v, ok := l.numeral(i)
		if !ok {
			i++
			continue
		}
		v.asked = l.counts(v)
		i = v.to
		if i < len(words) && percents(words[i]) {
			v.percent = true
		}
		l.values = append(l.values, v)
		if u := l.unit(i, len(words)); u.end > i {
			i = u.end // its powers are no numbers of their own
		}
	}
	return l
}

// computes reports whether the text is a calculation whose result is the value.
func (l *listing) computes(value Number) bool {
	n := len(l.values)
	if n == 0 || !l.values[n-1].same(value) {
		return false
	}
	notSign := func(w answer.Word) bool { return w.Kind != vocabulary.Sign || w.Sign() == '=' }
	at := lastIndex(l.words[:l.values[n-1].from], notSign)
	return at >= 0 && l.words[at].Sign() == '='
}

// read reads a text whose words are all that is stated. The longest part of it from its
// beginning that is understood counts, if what follows only explains it.
func (c Numbers) read(q *answer.Question, text string) answer.Reading[Number] {
	if len(text) > MaxSentence {
		return answer.Reading[Number]{Finding: answer.Unclear, Why: "the statement is too long for a number"}
	}
	words := q.Words(text)
	l := c.list(q, text, words)
	if len(l.values) == 0 {
		return answer.Reading[Number]{Why: "no number is stated"}
	}
	n := c.explained(l, func(i int) bool { return words[i].Sign() == ':' })
	if n == nil {
		n = c.understood(l, len(words))
	}
	if n == nil {
		n = c.explained(l, l.mayExplain)
	}
	if n != nil {
		return answer.Reading[Number]{Finding: answer.Stated, Value: *n}
	}
	if len(l.values) > 1 {
		return answer.Reading[Number]{Finding: answer.Several, Why: "more than one number is stated, or words around it are not understood"}
	}
	return answer.Reading[Number]{Finding: answer.Unclear, Why: "a word or sign beside the number is not understood"}
}

// maxCuts is the most places where an explanation of a number may begin.
const maxCuts = 16

// explained returns the number that is stated before an explanation, which begins at a
// word that begins accepts.
func (c Numbers) explained(l *listing, begins func(int) bool) *Number {
	for i, cuts := l.values[0].to, 0; i < len(l.words) && cuts < maxCuts; i++ {
		if !begins(i) {
			continue
		}
		cuts++
		if n := c.understood(l, i); n != nil && l.q.Explains(l.words[i:]) && c.repeats(l, i, n) {
			return n
		}
	}
	return nil
}

// mayExplain reports whether an explanation may begin at the word i.
func (l *listing) mayExplain(i int) bool {
	w := l.words[i]
	return opens(l.text, w, "≈") || l.q.Is(w, vocabulary.Reason) ||
		l.q.Is(w, vocabulary.Conclusion) && i > 0 && l.words[i-1].Sign() == ','
}

// repeats reports whether the numbers of an explanation from the word i on are the value
// again, or the question's. A reason may hold any.
func (c Numbers) repeats(l *listing, i int, n *Number) bool {
	if reasoned(l.q, l.words[i:]) || l.words[i].Sign() == '≈' {
		return true
	}
	for _, v := range l.values {
		if v.from < i {
			continue
		}
		if !v.asked && !v.same(*n) && !l.asks.numbers[v.value.RatString()] {
			return l.computes(*n)
		}
		if v.percent && !n.percent && v.same(*n) {
			*n = v.Number
		}
	}
	return true
}

// understood returns the number that words[:end] state if all of them are understood,
// else nil.
func (c Numbers) understood(l *listing, end int) *Number {
	start, ok := l.result(end)
	if !ok {
		return nil
	}
	var stated, kept []numeral
	for _, v := range l.values {
		if v.from >= start && v.to <= end {
			stated = append(stated, v)
			if !v.asked {
				kept = append(kept, v)
			}
		}
	}
	if len(kept) == 0 { // all say what the question says
		kept = stated[max(0, len(stated)-1):]
	}
	if len(kept) != 1 {
		return nil
	}
	v := kept[0]
	for _, other := range stated {
		for i := other.from; i < other.to && other.from != v.from; i++ {
			l.words[i].Excused = true // it only counts what the question counts
		}
	}
	n := v.Number
	if l.listed(v) {
		return nil
	}
	from, ok := c.prefix(l, start, v.from, &n)
	if !ok {
		return nil
	}
	to, ok := c.suffix(l, v.to, end, &n)
	if !ok || !c.money(l.q, n) || n.percent && !c.Percent && !asksPercent(l.q) {
		return nil
	}
	also := vocabulary.Unit | vocabulary.DayPeriod
	if c.Loose {
		also |= vocabulary.Approx
	}
	if v.fraction && n.value.Denom().Cmp(big.NewInt(maxDenominator)) > 0 {
		return nil
	}
	if l.foreign(l.words[v.to:end]) || !l.q.Closed(l.words[start:from], also) || !l.q.Closed(l.words[to:end], also) {
		return nil
	}
	return &n
}

// maxDenominator is the greatest denominator of a fraction that is compared with a
// decimal: 5/2 is 2.5, but 157/50 is a result that was not worked out.
const maxDenominator = 16

// listed reports whether a number with groups of thousands touches a square bracket, so
// that it may be a list.
func (l *listing) listed(v numeral) bool {
	start, end := l.words[v.from].Start, l.words[v.to-1].End
	return strings.Contains(l.text[start:end], ",") && (start > 0 && l.text[start-1] == '[' || end < len(l.text) && l.text[end] == ']')
}

// result returns where what words[:end] state begins: after the last equals sign, or
// after the link of a sentence whose subject only calculates. It reports false where
// what stands to the left does not fit.
func (l *listing) result(end int) (int, bool) {
	words := l.words[:end]
	if i := lastIndex(words, func(w answer.Word) bool { return w.OneOf("=≡") }); i >= 0 {
		if i > 0 && words[i-1].OneOf("!<>~/=") && words[i-1].End == words[i].Start {
			return 0, false
		}
		return i + 1, l.calculates(words[:i]) || l.named(words[:i])
	}
	for i := end - 1; i > 0; i-- {
		begins := words[i-1].OneOf(",;:.—–-，；。") || words[i-1].In(vocabulary.And) != 0
		if w := words[i]; begins && w.Kind == vocabulary.Letters && l.q.Is(w, vocabulary.Conclusion) {
			return i + 1, true
		}
	}
	isLink := func(w answer.Word) bool {
		return w.Kind == vocabulary.Letters && l.q.Is(w, vocabulary.Link) && w.Start > 0 && l.text[w.Start-1] == ' '
	}
	if i := lastIndex(words, isLink); i >= 0 && l.calculates(words[:i]) {
		return i + 1, true
	}
	return 0, true
}

// calculates reports whether words are a calculation: numbers, signs and words of
// arithmetic, functions and variables, at least two operands or a number and a function,
// and no two numbers with nothing of the kind between them.
func (l *listing) calculates(words []answer.Word) bool {
	// "41 B: is 42" says nothing of 41.
	words = words[:lastIndex(words, func(w answer.Word) bool { return w.Sign() != ':' })+1]
	var numbers, letters, between, functions int
	joined := true // to the number before, if there is one
	for i, w := range words {
		glued := i > 0 && words[i-1].End == w.Start && (words[i-1].Kind == vocabulary.Digits ||
			i > 1 && words[i-2].End == words[i-1].Start && words[i-2].Kind == vocabulary.Digits) // 3y, 3.5
		last := i+1 == len(words)
		switch {
		case w.Kind == vocabulary.Digits, l.q.Is(w, vocabulary.Number):
			if !joined && !glued && (last || words[i+1].Sign() != '/') { // 2 3/4
				return false
			}
			numbers++
			joined = false
		case w.OneOf("+-−×*·⋅/÷^"), w.Text == "x":
			between++
			joined = true
			if last {
				return false
			}
		case w.OneOf("√²³!%|"),
			l.q.Is(w, vocabulary.Scale|vocabulary.Ordinal), mathWords.Has(w.Text):
			functions++
			joined = true
		case w.Kind == vocabulary.Sign:
			if !w.OneOf("()[]{}.,:'\"=$") {
				return false
			}
			joined = joined || w.OneOf("([{")
		case utf8.RuneCountInString(w.Text) == 1 && w.Kind == vocabulary.Letters && !last:
			letters++
			if glued && words[i-1].Kind == vocabulary.Digits && words[i+1].Kind != vocabulary.Digits { // 3y, but not 4e1
				functions++
			}
		case l.q.Is(w, vocabulary.And):
			joined = true
		case numbers > 0 && l.q.Is(w, vocabulary.Answer):
			return false // another statement
		case l.q.Is(w, vocabulary.Harmless) && !l.q.Is(w, vocabulary.Negator|vocabulary.Hedge|vocabulary.Or|vocabulary.Wrong):
		default:
			return false
		}
	}
	return numbers > 0 && (functions > 0 || between > 0 && numbers+letters > 1)
}

// mathWords are the words and functions of a calculation.
const mathWords textmatch.List = " sqrt root log ln exp sin cos tan abs floor ceil gcd lcm square squared cube cubed sum product difference" +
	" quotient power plus minus times over mod "

// named reports whether what stands before an equals sign only names the value: words
// that are understood, or a variable.
func (l *listing) named(words []answer.Word) bool {
	if len(words) == 0 {
		return true
	}
	last := words[len(words)-1]
	if len(words) <= 3 && last.Kind == vocabulary.Letters && utf8.RuneCountInString(last.Text) <= 2 {
		return true
	}
	clause := words[lastIndex(words, func(w answer.Word) bool { return w.OneOf(",;:.") })+1:]
	kept := slices.DeleteFunc(slices.Clone(clause), func(w answer.Word) bool {
		return utf8.RuneCountInString(w.Text) == 1 && w.Kind == vocabulary.Letters || w.OneOf("+-−×*/÷()^√")
	})
	return l.q.Closed(kept, vocabulary.Unit) || l.calculates(clause)
}

// counts reports whether a number only says what the answer counts, as the question
// does: it stands among the same words there, or after a word such as "per".
func (l *listing) counts(v numeral) bool {
	if !l.asks.numbers[v.value.RatString()] {
		return false
	}
	if slices.ContainsFunc(l.words[v.from:v.to], func(w answer.Word) bool { return w.Excused }) {
		return true
	}
	next := l.at(v.to).Text
	if l.q.HasPair(l.words[v.from].Text, next) || l.q.HasPair(v.value.RatString(), next) {
		return true
	}
	for i := v.from - 1; i >= 0 && (unicode.Is(unicode.Sc, l.words[i].Sign()) || counted.Has(l.words[i].Text)); i-- {
		if connectors.Has(l.words[i].Text) {
			return true
		}
	}
	return false
}

const (
	connectors textmatch.List = " per every each in for of mod after "
	counted    textmatch.List = connectors + "the a next first last these those all "
)

// prefix reads the sign and currency before a number and returns where the words begin
// that it belongs with.
func (c Numbers) prefix(l *listing, start, i int, n *Number) (int, bool) {
	signed := false
	for i > start {
		w := l.words[i-1]
		tight := l.words[i].Start == w.End
		switch r := w.Sign(); {
		case n.currency == "" && currencyOf(w.Text) != "":
			n.currency = currencyOf(w.Text)
		case n.currency == "usd" && tight && w.Text == "us":
		case !signed && (isSign(r) && tight || r == '–' && tight && i-1 == start || minusWords.Has(w.Text)): // some write – for -
			if signed = true; n.value.Sign() < 0 {
				return i, false
			}
			if r != '+' {
				n.value = new(big.Rat).Neg(n.value)
			}
		case c.Loose && w.OneOf("≈~") && i-1 == start:
		case isSign(r) || answer.IsDash(r) || r == '_' || w.OneOf(".!|") && tight:
			return i, false
		default:
			return i, true
		}
		i--
	}
	return i, true
}

const minusWords textmatch.List = " minus negative menos moins минус ลบ 负 マイナス 마이너스 "

// money reports whether the answer may carry the currency of n: an accepted answer has
// it, the question names it, or speaks of money and names none.
func (c Numbers) money(q *answer.Question, n Number) bool {
	if n.currency == "" || c.Currency[n.currency] {
		return true
	}
	if len(c.Currency) > 0 {
		return false
	}
	other, speaks := false, false
	for _, w := range answer.Words(q.Text()) {
		name := currencyOf(w.Text)
		if name == n.currency {
			return true
		}
		other = other || name != ""
		speaks = speaks || moneyWords.Has(strings.TrimSuffix(w.Text, "s"))
	}
	return speaks && !other
}

// moneyWords are the words of a question that speak of money.
const moneyWords textmatch.List = " money cost price pay paid earn earned spend spent salary wage profit revenue income worth bill fee" +
	" budget saving save charge currency sell buy owe tax tip discount amount much "

// percents reports whether a word or sign says percent.
func percents(w answer.Word) bool {
	v, _ := w.Value(vocabulary.Scale, vocabulary.Every)
	return w.Sign() == '%' || v == "0.01"
}

// percentage is a word that begins as one for a percentage.
var percentage = lazyregexp.New(`^(percent|prozent|百分)`)

// asksPercent reports whether a question asks for a percentage.
func asksPercent(q *answer.Question) bool {
	counted := false
	for _, w := range answer.Words(q.Text()) {
		v, _ := w.Value(vocabulary.Unit, vocabulary.Every)
		if !counted && (percents(w) || v == "percent" || percentage.MatchString(w.Text)) {
			return true
		}
		counted = w.Kind == vocabulary.Digits
	}
	return false
}

// suffix reads the unit and percent sign after a number and returns where the words
// continue.
func (c Numbers) suffix(l *listing, i, end int, n *Number) (int, bool) {
	if i == end {
		return i, true
	}
	w := l.words[i]
	tight := w.Start == l.words[i-1].End
	switch r := w.Sign(); {
	case r == '!' && tight, r == '?', r == '_' || r == '|' && tight, r == '+' || r == '*' && tight && i+1 < end, r == '^':
		return i, false
	case unicode.Is(unicode.Sc, r):
		if n.currency != "" && n.currency != currencyOf(w.Text) {
			return i, false
		}
		n.currency = currencyOf(w.Text)
		return i + 1, true
	case percents(w):
		n.percent = true
		return i + 1, true
	case r == '/' && i+1 < end && l.words[i+1].Kind == vocabulary.Letters && (l.words[i+1].Asked || l.words[i+1].In(vocabulary.Unit) != 0):
		return i + 2, true
	}
	u := l.unit(i, end)
	if u.end == i {
		return i, !tight || w.Kind != vocabulary.Letters || w.Text >= "\u2e80" // of a script without spaces
	}
	if u.currency != "" {
		if n.currency != "" && n.currency != u.currency {
			return i, false
		}
		n.currency = u.currency
	}
	return u.end, !u.asked(l.asks)
}

// foreign reports whether words beside a number of things measure it or say when it is,
// and the question does not have them.
func (l *listing) foreign(words []answer.Word) bool {
	return l.q.Counts() && slices.ContainsFunc(words, func(w answer.Word) bool {
		name, measures := w.Value(vocabulary.Unit, l.q.In)
		measures = measures && name != "unit" && name != "concentr-item" && !l.asks.units[name] && currencyOf(w.Text) == ""
		return !w.Asked && !l.q.Is(w, vocabulary.Frame) && (measures || l.q.Is(w, vocabulary.Era|vocabulary.DayPeriod))
	})
}

// Join returns one of two values that are the same, the percentage if one is.
func (Numbers) Join(a, b Number) (Number, bool) {
	if b.percent {
		return b, a.same(b)
	}
	return a, a.same(b)
}

// Accept notes the percent sign and currency of an accepted answer.
func (c *Numbers) Accept(n Number) {
	c.Percent = c.Percent || n.percent
	if n.currency != "" {
		c.Currency[n.currency] = true
	}
}
