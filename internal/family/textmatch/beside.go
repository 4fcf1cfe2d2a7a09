package textmatch

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A reading is how a text is searched for its number.
type reading struct {
	*Question
	list  []token
	at    int  // the number
	loose bool // an approximation is a statement
	n     Number
}

// FindNumber returns the number that a text states: its first. The text is
// expected in NFC and went through [Plain]; loose takes an approximation for a
// statement.
//
// What stands beside the number decides. A sign or sign word before it belongs
// to it. Negations, alternatives and doubt, comparisons, functions, operators
// and powers, number words and multiples spoil it, and so does a letter, mark
// or invisible character that touches it. Units and other nouns do not; nor
// does a multiple in which the question asks for the answer. A further number
// spoils it too, unless it follows per, every, each, in, for or of and occurs
// in the question, or belongs to a calculation that an equals sign ends.
func (q *Question) FindNumber(s string, loose bool) (Number, Finding) {
	s = cutCalculation(s)
	return q.findNumber(s, 0, len(s), loose)
}

// cutCalculation returns s without the calculation whose result it states: in
// "Tom has 5 × 5 = 25 apples" what stands from its first number up to its last
// equals sign, where that is numbers, operators and units alone.
func cutCalculation(s string) string {
	if !strings.Contains(s, "=") {
		return s
	}
	list := tokenize(s).list
	first := slices.IndexFunc(list, func(t token) bool { return t.kind == aNumber })
	last, operators := -1, 0
	for i := max(first, 0); i < len(list); i++ {
		switch t := list[i]; {
		case t.text == "=" && operators > 0:
			last = i
		case t.kind == aWord && (IsBarred(t.text) || IsDoubtful(t.text)):
			return s
		}
		if i > first && isOperator(list[i].sign()) {
			operators++
		}
	}
	if last < 0 || first < 0 {
		return s
	}
	for _, t := range list[first:last] {
		c := t.sign()
		if t.kind == aSign && !isOperator(c) && !isCurrency(c) && !strings.ContainsRune("=%()[]", c) {
			return s
		}
	}
	return s[:list[first].start] + s[list[last].start:]
}

// isOperator reports the signs of the four kinds of arithmetic.
func isOperator(c rune) bool {
	return c != 0 && strings.ContainsRune("+-−–*×·÷/", c)
}

// findNumber is FindNumber for a number that must begin in s[from:to].
func (q *Question) findNumber(s string, from, to int, loose bool) (Number, Finding) {
	ts := tokenize(s)
	r := reading{Question: q, list: ts.list, at: -1, loose: loose}
	words := false
	for i, t := range ts.list {
		if t.kind == aNumber && r.at < 0 {
			r.at = i
		}
		words = words || t.kind == aWord && t.text != "one" && isNumberWord(t.text)
	}
	switch {
	case ts.odd:
		return Number{}, SeveralNumbers
	case r.at < 0 && words:
		return Number{}, WordNumber
	case r.at < 0:
		return Number{}, NoNumber
	case r.list[r.at].start < from || r.list[r.at].start >= to:
		return Number{}, UnclearNumber
	case r.more():
		return Number{}, SeveralNumbers
	}
	n, ok := r.list[r.at].literal.number()
	r.n = n
	if !ok || ts.ghost || !r.doubtless() || !r.left() || !r.right() {
		return Number{}, UnclearNumber
	}
	return r.n, OneNumber
}

// more reports whether a further number stands where none may.
func (r *reading) more() bool {
	for i := r.at + 1; i < len(r.list); i++ {
		if t := r.list[i]; t.kind == aNumber && !r.counted(i, t) {
			return true
		}
	}
	return false
}

// counted reports whether the number at i behind the answer only says what the
// answer counts: it follows a connector and occurs in the question.
func (r *reading) counted(i int, t token) bool {
	if t.kind == aNumber {
		n, ok := t.literal.number()
		if !ok || !r.hasNumber(n.value) {
			return false
		}
	} else if v, ok := wordValue(t.text); !ok || !r.numbers[v] {
		return false
	}
	j := i - 1
	if isCurrency(r.list[j].sign()) {
		j--
	}
	switch r.list[j].text {
	case "the", "a", "each", "next", "first", "last", "these", "those", "all":
		j--
	}
	if j <= r.at {
		return false
	}
	switch r.list[j].text {
	case "per", "every", "each", "in", "for", "of":
		return true
	}
	return false
}

// near reports whether the word at i is one of the two words next to the number.
func (r *reading) near(i int) bool {
	step, words := 1, 0
	if i > r.at {
		step = -1
	}
	for j := i + step; j != r.at; j += step {
		if r.list[j].kind == aWord {
			words++
		}
	}
	return words < 2
}

// doubtless reports whether no word of the text negates the number or offers
// another. Words of the question that stand apart from the number are its own.
func (r *reading) doubtless() bool {
	currency := rune(0)
	for i, t := range r.list {
		c := t.sign()
		if t.kind == aWord && isCurrencyCode(t.text, false) {
			c = currencyOf(t.text)
		}
		if isCurrency(c) {
			if currency != 0 && currency != c {
				return false
			}
			currency = c
		}
		if t.kind != aWord {
			continue
		}
		if IsDoubt(t.text) || isSoftDoubt(t.text) && (!r.Has(t.text) || r.near(i)) || i == r.at+1 && r.foreign(t.text) {
			return false
		}
	}
	r.n.currency = currency
	return true
}

// foreign reports a word for a currency that the question does not name, where
// it names another.
func (r *reading) foreign(w string) bool {
	c := currencyOf(w)
	return c != 0 && len(r.currency) > 0 && !r.currency[c]
}

// left judges what stands before the number, back to an equals sign.
func (r *reading) left() bool {
	i, ok := r.prefix()
	if !ok {
		return false
	}
	if i >= 0 && !r.before(i) {
		return false
	}
	for ; i >= 0 && r.list[i].text != "="; i-- {
		if t := r.list[i]; t.kind == aSign && !r.leftSign(i, t.sign()) || t.kind == aWord && !r.leftWord(i, t.text) {
			return false
		}
	}
	return true
}

// prefix takes sign and currency off that touch the number. It returns the
// index of what stands before them.
func (r *reading) prefix() (int, bool) {
	i, signed, money := r.at-1, false, false
	for ; i >= 0 && r.list[i+1].tight; i-- {
		c := r.list[i].sign()
		switch {
		case isSign(c) && !signed:
			signed = true
			r.negate(c != '+')
		case isCurrency(c) && !money:
			money = true
		case r.list[i].kind == aWord && !signed && isCurrencyCode(r.list[i].text, money):
		case r.list[i].kind == aWord:
			return i, false
		default:
			return i, true
		}
	}
	return i, true
}

func (r *reading) negate(yes bool) {
	if yes {
		r.n.value.Neg(r.n.value)
	}
}

// before judges the token next to the number, its sign and currency.
func (r *reading) before(i int) bool {
	t, tight := r.list[i], r.list[i+1].tight
	c := t.sign()
	if isCurrency(c) && i > 0 { // apart from the number
		c = r.list[i-1].sign()
	}
	switch {
	case isSign(c), isDash(c):
		return false
	case !tight:
	case c == '.' || c == '_' || c == '|' || c == '[' && r.list[r.at].literal.grouped:
		return false
	case c == '(' && i > 0 && t.tight && r.list[i-1].kind == aWord: // f(25)
		return false
	}
	return true
}

// leftSign judges a sign before the number.
func (r *reading) leftSign(i int, c rune) bool {
	switch c {
	case '≈', '~', '≅':
		return r.loose && (i == 0 || r.list[i-1].text != r.list[i].text)
	case '/', '-':
		return r.joins(i)
	case '+', '%':
		return false
	}
	return isDash(c) || !isMath(c)
}

// joins reports whether the sign at i stands tight between two words.
func (r *reading) joins(i int) bool {
	between := func(j int) bool { return j >= 0 && j < len(r.list) && r.list[j].kind == aWord }
	return between(i-1) && between(i+1) && (r.list[i].tight && r.list[i+1].tight || r.list[i].text == "-")
}

// leftWord judges a word before the number.
func (r *reading) leftWord(i int, w string) bool {
	last := i == r.lastWord()
	near := r.near(i)
	switch {
	case w == "minus" || w == "negative":
		if near || !r.Has(w) {
			if r.n.value.Sign() < 0 {
				return false
			}
			r.negate(true)
		}
		return true
	case isNumberWord(w), w == "plus":
		return false
	case w == "to" && last && i > 0 && r.list[i-1].text == "up":
		return i > 1 && isAdding(r.list[i-2].text)
	case isBoundingPreposition(w):
		return !near
	case isComparison(w), isFactor(w):
		return r.Has(w) && !near
	case isApproximate(w):
		return r.loose || !near
	case last && isBoundWord(w), last && w == "x", last && w == "point":
		return false
	case isFunction(w):
		return !r.applies(i)
	}
	return true
}

// isAdding reports the words before "up to" that make it "equals".
func isAdding(w string) bool {
	switch w {
	case "add", "adds", "added", "adding", "sum", "sums", "summing":
		return true
	}
	return false
}

// lastWord is the index of the last word before the number.
func (r *reading) lastWord() int {
	for i := r.at - 1; i >= 0; i-- {
		if r.list[i].kind == aWord {
			return i
		}
	}
	return -1
}

// applies reports whether the function at i is applied to the number: nothing
// but "of", articles and brackets stands between them.
func (r *reading) applies(i int) bool {
	for j := i + 1; j < r.at; j++ {
		switch t := r.list[j]; {
		case t.text == "of" || t.text == "the" || t.text == "a" || t.text == "root" || t.text == "number":
		case t.kind == aSign && !strings.ContainsRune("=:,;", t.sign()):
		default:
			return false
		}
	}
	return true
}

// right judges what stands behind the number.
func (r *reading) right() bool {
	if !r.suffix() {
		return false
	}
	words := 0
	for i := r.at + 1; i < len(r.list); i++ {
		switch t := r.list[i]; t.kind {
		case aSign:
			if !r.rightSign(i, t.sign()) {
				return false
			}
		case aWord:
			if !r.rightWord(i, words, t.text) {
				return false
			}
			words++
		}
	}
	return true
}

// suffix judges what touches the number, and finds a percent sign.
func (r *reading) suffix() bool {
	rest := r.list[r.at+1:]
	if len(rest) == 0 {
		return true
	}
	first := rest[0]
	switch {
	case first.kind == aWord && first.tight:
		return isUnit(first.text)
	case first.text == "%", first.text == "percent", first.text == "percentage", first.text == "pct",
		first.text == "per" && len(rest) > 1 && rest[1].text == "cent":
		r.n.percent = true
		return len(rest) == 1 || !rest[1].tight || rest[1].kind == aSign && rest[1].text != "%"
	case first.text == "]" && first.tight && r.list[r.at].literal.grouped, first.text == "_", first.text == "|" && first.tight:
		return false
	}
	return true
}

// rightSign judges a sign behind the number.
func (r *reading) rightSign(i int, c rune) bool {
	next := token{kind: -1}
	if i+1 < len(r.list) {
		next = r.list[i+1]
	}
	touches := true // nothing but signs stands between the number and it
	for j := r.at + 1; j < i; j++ {
		touches = touches && r.list[j].kind == aSign
	}
	switch {
	case c == '?':
		return false
	case c == '!':
		return !touches
	case c == '%':
		return i == r.at+1
	case c == '/':
		return next.kind == aWord && next.tight && (utf8.RuneCountInString(next.text) > 1 || strings.Contains("hsglmd", next.text))
	case c == '≈' || c == '~':
		return false
	case isDash(c), c == '-':
		if next.kind != aWord || utf8.RuneCountInString(next.text) < 2 {
			return false
		}
		return true
	}
	return c != '+' && !isMath(c)
}

// rightWord judges the word at i behind the number; n is its place.
func (r *reading) rightWord(i, n int, w string) bool {
	switch {
	case isNumberWord(w):
		return r.counted(i, r.list[i]) || r.asks(w)
	case (w == "squared" || w == "cubed") && n > 0 && isLength(r.list[i-1].text):
		return true
	case isMultiple(w), n == 0 && isVariable(w, r.list[i].capital):
		return r.asks(w)
	case isComparison(w) && w != "than", isFactor(w):
		return r.Has(w)
	case w == "minus" || w == "negative" || w == "base":
		return false
	case isApproximate(w):
		return r.loose || !r.near(i)
	case w == "and":
		return n > 0 && (i+1 == len(r.list) || !isVague(r.list[i+1].text))
	}
	return true
}

// isMath reports an operator, a comparison or another mathematical sign.
func isMath(r rune) bool {
	switch r {
	case '^', '*', '×', '÷', '·', '<', '>', '\\', '‰', '‱', '％', '٪', '∕', '⁄':
		return true
	}
	arrow := r >= 0x2190 && r <= 0x21ff || r >= 0x27f0 && r <= 0x27ff
	return r >= utf8.RuneSelf && unicode.Is(unicode.Sm, r) && !arrow
}

func isCurrency(r rune) bool { return unicode.Is(unicode.Sc, r) }
