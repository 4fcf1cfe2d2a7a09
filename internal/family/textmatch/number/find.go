package number

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
)

// A reading is the state of a search for the number that a text states.
type reading struct {
	*Question
	list  []token
	at    int  // the number
	loose bool // an approximation counts
	n     Number
}

// FindNumber returns the number that a text states: its first. The text
// must be in NFC and have gone through [textmatch.Plain]; with loose, an
// approximation counts.
//
// What stands next to the number decides. A sign or sign word before it belongs
// to it. Negations, alternatives and doubt, comparisons, functions, operators
// and powers, number words and multiples make it unclear, and so does a letter,
// mark or invisible character that touches it. Units and other nouns do not; nor
// does a multiple in which the question asks for the answer. A further number
// makes it unclear too, unless it follows per, every, each, in, for or of and
// occurs in the question, or belongs to a calculation that ends in an equals
// sign.
func (q *Question) FindNumber(s string, loose bool) (Number, Finding) {
	s = cutCalculation(s)
	return q.FindNumberIn(s, 0, len(s), loose)
}

// cutCalculation returns s without the calculation whose result it states: in
// "Tom has 5 × 5 = 25 apples" everything from the first number up to the last
// equals sign, if only numbers, operators and units are in between.
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
		case t.kind == aWord && (textmatch.IsBarred(t.text) || textmatch.IsDoubtful(t.text)):
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
		if t.kind == aSign && !isOperator(c) && !IsCurrency(c) && !strings.ContainsRune("=%()[]", c) {
			return s
		}
	}
	return s[:list[first].start] + s[list[last].start:]
}

// isOperator reports the signs of the four kinds of arithmetic.
func isOperator(c rune) bool {
	return c != 0 && strings.ContainsRune("+-−–*×·÷/", c)
}

// FindNumberIn is [Question.FindNumber] for a number that must begin in
// s[from:to].
func (q *Question) FindNumberIn(s string, from, to int, loose bool) (Number, Finding) {
	ts := tokenize(s)
	r := reading{Question: q, list: ts.list, at: -1, loose: loose}
	words := false
	for i, t := range ts.list {
		if t.kind == aNumber && r.at < 0 {
			r.at = i
		}
		words = words || t.kind == aWord && t.text != "one" && textmatch.IsNumber(t.text)
	}
	switch {
	case ts.foreign:
		return Number{}, Several
	case r.at < 0 && words:
		return Number{}, InWords
	case r.at < 0:
		return Number{}, None
	case r.list[r.at].start < from || r.list[r.at].start >= to:
		return Number{}, Unclear
	case r.more():
		return Number{}, Several
	}
	var ok bool
	if r.n, ok = r.list[r.at].literal.number(); !ok || ts.invisible || !r.undoubted() || !r.left() || !r.right() {
		return Number{}, Unclear
	}
	return r.n, One
}

// more reports whether a further number makes the answer unclear.
func (r *reading) more() bool {
	for i := r.at + 1; i < len(r.list); i++ {
		if t := r.list[i]; t.kind == aNumber && !r.counted(i, t) {
			return true
		}
	}
	return false
}

// counted reports whether the number at i after the answer only says what the
// answer counts: it follows a connector and occurs in the question.
func (r *reading) counted(i int, t token) bool {
	if t.kind == aNumber {
		n, ok := t.literal.number()
		if !ok || !r.numbers[n.value.RatString()] {
			return false
		}
	} else if v, ok := textmatch.NumberValue(t.text); !ok || !r.numbers[v] {
		return false
	}
	j := i - 1
	if IsCurrency(r.list[j].sign()) {
		j--
	}
	if articles.Has(r.list[j].text) {
		j--
	}
	return j > r.at && connectors.Has(r.list[j].text)
}

// between counts the words between the one at i and the number, up to 2.
func (r *reading) between(i int) int {
	step, n := 1, 0
	if i > r.at {
		step = -1
	}
	for j := i + step; j != r.at && n < 2; j += step {
		if r.list[j].kind == aWord {
			n++
		}
	}
	return n
}

// near reports whether the word at i is one of the two words next to the number.
func (r *reading) near(i int) bool { return r.between(i) < 2 }

// undoubted reports whether no word of the text negates the number or offers
// another. Words of the question that stand apart from the number are its own.
func (r *reading) undoubted() bool {
	currency := rune(0)
	for i, t := range r.list {
		c := t.sign()
		if t.kind == aWord && codes.Has(t.text) {
			c = currencyOf(t.text)
		}
		if IsCurrency(c) {
			if currency != 0 && currency != c {
				return false
			}
			currency = c
		}
		if t.kind == aWord && (textmatch.IsDoubt(t.text) || textmatch.SoftDoubt.Has(t.text) && (!r.Has(t.text) || r.near(i))) {
			return false
		}
	}
	r.n.currency = currency
	// A currency that the question does not name, where it names another.
	if r.at+1 < len(r.list) && r.list[r.at+1].kind == aWord && len(r.currency) > 0 {
		c := currencyOf(r.list[r.at+1].text)
		return c == 0 || r.currency[c]
	}
	return true
}

// left judges what stands before the number, back to an equals sign.
func (r *reading) left() bool {
	i, ok := r.prefix()
	if !ok || i >= 0 && !r.before(i) {
		return false
	}
	for ; i >= 0 && r.list[i].text != "="; i-- {
		if t := r.list[i]; t.kind == aSign && !r.leftSign(i, t.sign()) || t.kind == aWord && !r.leftWord(i, t.text) {
			return false
		}
	}
	return true
}

// prefix reads the sign and currency that touch the number and returns the index
// of the token before them.
func (r *reading) prefix() (int, bool) {
	i, signed, money := r.at-1, false, false
	for ; i >= 0 && r.list[i+1].tight; i-- {
		c := r.list[i].sign()
		switch {
		case IsSign(c) && !signed:
			signed = true
			if c != '+' {
				r.n.value.Neg(r.n.value)
			}
		case IsCurrency(c) && !money:
			money = true
		case r.list[i].kind == aWord && !signed && (money && dollarCodes.Has(r.list[i].text) || !money && codes.Has(r.list[i].text)):
		case r.list[i].kind == aWord:
			return i, false
		default:
			return i, true
		}
	}
	return i, true
}

// before judges the token next to the number, its sign and currency.
func (r *reading) before(i int) bool {
	t, tight := r.list[i], r.list[i+1].tight
	c := t.sign()
	if IsCurrency(c) && i > 0 { // apart from the number
		c = r.list[i-1].sign()
	}
	switch {
	case IsSign(c), IsDash(c):
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
	return IsDash(c) || !IsMath(c)
}

// joins reports whether the sign at i touches a word on both sides.
func (r *reading) joins(i int) bool {
	between := func(j int) bool { return j >= 0 && j < len(r.list) && r.list[j].kind == aWord }
	return between(i-1) && between(i+1) && (r.list[i].tight && r.list[i+1].tight || r.list[i].text == "-")
}

// leftWord judges a word before the number.
func (r *reading) leftWord(i int, w string) bool {
	n := r.between(i)
	last, near := n == 0, n < 2
	switch {
	case w == "minus" || w == "negative":
		if near || !r.Has(w) {
			if r.n.value.Sign() < 0 {
				return false
			}
			r.n.value.Neg(r.n.value)
		}
		return true
	case textmatch.IsNumber(w), w == "plus":
		return false
	case w == "to" && last && i > 0 && r.list[i-1].text == "up":
		return i > 1 && adding.Has(r.list[i-2].text)
	case textmatch.Bounding.Has(w):
		return !near
	case textmatch.Comparison.Has(w), textmatch.Factor.Has(w):
		return r.Has(w) && !near
	case textmatch.Approximate.Has(w):
		return r.loose || !near
	case last && bounds.Has(w):
		return false
	case functions.Has(w):
		return !r.applies(i)
	}
	return true
}

// applies reports whether the function at i is applied to the number: nothing
// but "of", articles and brackets stands between them.
func (r *reading) applies(i int) bool {
	for j := i + 1; j < r.at; j++ {
		switch t := r.list[j]; {
		case applying.Has(t.text):
		case t.kind == aSign && !strings.ContainsRune("=:,;", t.sign()):
		default:
			return false
		}
	}
	return true
}

// right judges what stands after the number.
func (r *reading) right() bool {
	if !r.suffix() {
		return false
	}
	for i := r.at + 1; i < len(r.list); i++ {
		if t := r.list[i]; t.kind == aSign && !r.rightSign(i, t.sign()) || t.kind == aWord && !r.rightWord(i, t.text) {
			return false
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
		return units.Has(first.text)
	case percents.Has(first.text), first.text == "per" && len(rest) > 1 && rest[1].text == "cent":
		r.n.percent = true
		return len(rest) == 1 || !rest[1].tight || rest[1].kind == aSign && rest[1].text != "%"
	case first.text == "]" && first.tight && r.list[r.at].literal.grouped, first.text == "_", first.text == "|" && first.tight:
		return false
	}
	return true
}

// rightSign judges a sign after the number.
func (r *reading) rightSign(i int, c rune) bool {
	next := token{kind: -1}
	if i+1 < len(r.list) {
		next = r.list[i+1]
	}
	switch {
	case c == '?':
		return false
	case c == '!':
		return slices.ContainsFunc(r.list[r.at+1:i], func(t token) bool { return t.kind != aSign })
	case c == '%':
		return i == r.at+1
	case c == '/':
		return next.kind == aWord && next.tight && (utf8.RuneCountInString(next.text) > 1 || strings.Contains("hsglmd", next.text))
	case c == '≈' || c == '~':
		return false
	case IsDash(c), c == '-':
		return next.kind == aWord && utf8.RuneCountInString(next.text) > 1
	}
	return c != '+' && !IsMath(c)
}

// rightWord judges the word at i after the number.
func (r *reading) rightWord(i int, w string) bool {
	n := r.between(i)
	switch {
	case textmatch.IsNumber(w):
		return r.counted(i, r.list[i]) || r.asks(w)
	case (w == "squared" || w == "cubed") && n > 0 && lengths.Has(textmatch.Singular(r.list[i-1].text)):
		return true
	case multiples.Has(textmatch.Singular(w)), n == 0 && isVariable(w, r.list[i].capital):
		return r.asks(w)
	case textmatch.Comparison.Has(w) && w != "than", textmatch.Factor.Has(w):
		return r.Has(w)
	case w == "minus" || w == "negative" || w == "base":
		return false
	case textmatch.Approximate.Has(w):
		return r.loose || !r.near(i)
	case w == "and":
		return n > 0 && (i+1 == len(r.list) || !vague.Has(r.list[i+1].text))
	}
	return true
}

// IsMath reports whether r is an operator, a comparison or another mathematical
// sign.
func IsMath(r rune) bool {
	arrow := r >= 0x2190 && r <= 0x21ff || r >= 0x27f0 && r <= 0x27ff
	return strings.ContainsRune(`^*×÷·<>\‰‱％٪∕⁄`, r) || r >= utf8.RuneSelf && unicode.Is(unicode.Sm, r) && !arrow
}

// isVariable reports a letter after a number that multiplies it.
func isVariable(w string, capital bool) bool {
	if capital {
		return strings.Contains("kmbgtxyzn", w)
	}
	return strings.Contains("kbxyzniepqπ", w)
}
