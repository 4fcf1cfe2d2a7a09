package compare

import (
	"math/big"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
	"securebench/internal/lazyregexp"
)

// A unit is what follows a number: one or more units of measure, with powers and
// divisions.
type unit struct {
	end      int
	names    []string
	currency string
}

// unit reads the unit at the words from i on.
func (l *listing) unit(i, end int) unit {
	u := unit{end: i}
	for k := i; k < end; {
		next := l.measure(&u, i, k, end)
		if next == k {
			return u
		}
		k = l.power(next, end)
		u.end = k
		if k+1 >= end {
			return u
		}
		switch joins := l.words[k].OneOf("/·*⋅×"); {
		case l.words[k].Kind == vocabulary.Letters && l.isUnit(k):
			continue
		case joins && l.isUnit(k+1):
			k++
			continue
		case joins && l.words[k+1].Sign() == '(':
			if inner := l.unit(k+2, end); inner.end > k+2 && inner.end < end && l.words[inner.end].Sign() == ')' {
				u.names = append(u.names, inner.names...)
				u.end = inner.end + 1
			}
		case joins && (l.words[k+1].Asked || l.words[k].Sign() == '/' && divides(l.words[k+1])):
			u.end = k + 2
		}
		return u
	}
	return u
}

// isUnit reports whether the word k is a unit.
func (l *listing) isUnit(k int) bool { return l.q.Is(l.words[k], vocabulary.Unit) }

// divides reports whether a word may be what a unit is divided by: 25/hour, 25/h.
func divides(w answer.Word) bool {
	return w.Kind == vocabulary.Letters && (utf8.RuneCountInString(w.Text) > 1 || strings.Contains("hsglmd", w.Text))
}

// measure reads one unit of measure at the word k into u, which begins at the word i, and
// returns where it ends; that is k if there is none.
func (l *listing) measure(u *unit, i, k, end int) int {
	w := l.words[k]
	c := w.Sign()
	if c == '°' && k+1 < end && l.words[k+1].Kind == vocabulary.Letters && l.words[k+1].Start == w.End {
		u.names = append(u.names, "temperature-"+l.words[k+1].Text)
		return k + 2
	}
	if currency := currencyOf(w.Text); currency != "" && w.Kind == vocabulary.Letters {
		u.currency = currency
		u.names = append(u.names, "currency-"+currency)
		return k + 1
	}
	name, known := w.Value(vocabulary.Unit, l.q.In)
	if !known || w.Kind != vocabulary.Letters && c != '°' {
		return k
	}
	single := k == i && k > 0 && w.Start == l.words[k-1].End && strings.Contains("mkbt", w.Text) // or a multiple
	multiplies := l.q.Is(w, vocabulary.Scale|vocabulary.Limit|vocabulary.Approx)
	product := k > i && l.words[k-1].Kind == vocabulary.Sign // mol·K
	if (single || multiplies) && !product && !l.compound(k, end) && !w.Asked {
		return k
	}
	u.names = append(u.names, name)
	return k + 1
}

// compound reports whether the unit at the word k is part of one with others.
func (l *listing) compound(k, end int) bool {
	next := l.power(k+1, end)
	return next > k+1 || next < end && (l.words[next].OneOf("/·⋅") || l.isUnit(next))
}

// power skips the power of a unit: ^2, ^{-1}, squared.
func (l *listing) power(k, end int) int {
	if k >= end {
		return k
	}
	switch w := l.words[k]; {
	case w.Text == "squared" || w.Text == "cubed":
		return k + 1
	case w.OneOf("-−") && k+1 < end && w.Start == l.words[k-1].End && l.words[k+1].Kind == vocabulary.Digits:
		return k + 2
	case !w.OneOf("^⁻¹²³"):
		return k
	}
	for k < end && (l.words[k].Kind == vocabulary.Digits && len(l.words[k].Text) <= 2 || l.words[k].OneOf("^{}-−⁻¹²³")) {
		k++
	}
	return k
}

// asked reports whether the unit is another one of what the question asks for in a unit:
// the same sort of quantity in another measure.
func (u unit) asked(a *asks) bool {
	if len(u.names) != 1 {
		return false
	}
	sort, _, _ := strings.Cut(u.names[0], "-")
	return a.sorts[sort] && !a.measures[u.names[0]] && sort != "temperature" && sort != "angle"
}

// numeral reads the number that the word i begins, without its sign.
func (l *listing) numeral(i int) (numeral, bool) {
	w := l.words[i]
	v := numeral{from: i}
	switch w.Kind {
	case vocabulary.Digits:
		var ok bool
		if v.value, v.to, ok = l.decimal(i); !ok {
			return v, false
		}
		if i > 0 && l.words[i-1].Sign() == '.' && l.pointed(i) {
			v.from--
		}
	case vocabulary.Letters:
		return l.spelled(i)
	default:
		f, ok := vulgar[w.Sign()]
		if ok {
			v.value, v.to, v.fraction = big.NewRat(f[0], f[1]), i+1, true
		}
		return v, ok
	}
	l.extend(&v)
	return v, true
}

// decimal reads the literal that begins at the word i.
func (l *listing) decimal(i int) (*big.Rat, int, bool) {
	start := l.words[i].Start
	if l.pointed(i) {
		start--
	}
	t, end := scan(l.text, start)
	k, whole := l.until(i, end)
	if !whole || k == i {
		return nil, i, false
	}
	value, ok := t.value()
	return value, k, ok
}

// until returns which word from i on is the first after a place in the text, and whether
// none spans it.
func (l *listing) until(i, end int) (int, bool) {
	for i < len(l.words) && l.words[i].End <= end {
		i++
	}
	return i, i == len(l.words) || l.words[i].Start >= end
}

// pointed reports whether a decimal point begins the number at the word i.
func (l *listing) pointed(i int) bool {
	start := l.words[i].Start
	return start > 0 && l.text[start-1] == '.' && (start == 1 || strings.IndexByte(" -$(", l.text[start-2]) >= 0)
}

// spelled reads a number in words.
func (l *listing) spelled(i int) (numeral, bool) {
	v := numeral{from: i}
	decimal, n := l.spelledOut(i)
	if n == 0 || l.q.Is(l.words[i], vocabulary.Frame) && n == 1 && l.words[i].Text != "one" {
		return v, false
	}
	value, ok := new(big.Rat).SetString(decimal)
	if !ok {
		return v, false
	}
	v.value, v.to = value, i+n
	if l.at(v.to).In(vocabulary.And) != 0 && l.at(v.to+1).Text == "a" && l.at(v.to+2).Text == "half" {
		v.value, v.to = new(big.Rat).Add(v.value, big.NewRat(1, 2)), v.to+3
	} else {
		l.scale(&v)
	}
	return v, true
}

// spelledOut reads a number in words, among them hyphens, and returns it with how many
// words it has.
func (l *listing) spelledOut(i int) (decimal string, n int) {
	var words []vocabulary.Word
	var at []int
	for k := i; k < len(l.words) && len(words) < 12; k++ {
		if w := l.words[k]; w.Sign() == '-' && k > i && w.Start == l.words[k-1].End && l.at(k+1).Start == w.End {
			continue
		}
		words, at = append(words, l.words[k].Word), append(at, k)
	}
	if decimal, n = vocabulary.ReadNumber(words, l.q.In); n == 0 {
		return "", 0
	}
	return decimal, at[n-1] + 1 - i
}

// at returns the word k, an empty one after the last.
func (l *listing) at(k int) answer.Word {
	if k >= len(l.words) {
		return answer.Word{}
	}
	return l.words[k]
}

// extend reads what makes another number of the literal: a fraction, a power of ten, a
// scale.
func (l *listing) extend(v *numeral) {
	next, after := l.at(v.to), l.at(v.to+1)
	tight := after.Start == next.End && l.at(v.to+2).Start == after.End
	switch half, mixed := vulgar[next.Sign()]; {
	case mixed:
		v.value = new(big.Rat).Add(v.value, big.NewRat(half[0], half[1]))
		v.to, v.fraction = v.to+1, true
	case next.Sign() == '/' && after.Kind == vocabulary.Digits:
		if over, end, ok := l.decimal(v.to + 1); ok && over.Sign() != 0 && l.at(end).Sign() != '/' {
			v.value = new(big.Rat).Quo(v.value, over)
			v.to, v.fraction = end, true
		}
	case next.Kind == vocabulary.Digits && after.Sign() == '/' && tight:
		over, end, ok := l.decimal(v.to)
		if under, last, ok2 := l.decimal(end + 1); ok && ok2 && end == v.to+1 && under.Sign() != 0 && over.Cmp(under) < 0 && v.value.IsInt() {
			v.value = new(big.Rat).Add(v.value, over.Quo(over, under))
			v.to, v.fraction = last, true
		}
	case !l.powerOfTen(v):
		l.scale(v)
	}
}

// tenTo is what makes a power of ten of 10, or multiplies another number by one.
var tenTo = lazyregexp.New(`^( *[×·⋅*xX] *10)? *\^ *(?:\{ *([-+−]?[0-9]{1,3}) *\}|([-+−]?[0-9]{1,3}))`)

// powerOfTen reads the power of ten that follows a number, and reports whether one does.
func (l *listing) powerOfTen(v *numeral) bool {
	at := l.words[v.to-1].End
	m := tenTo.FindStringSubmatch(l.text[at:])
	if m == nil || m[1] == "" && l.words[v.from].Text != "10" {
		return false
	}
	power, small := literal{"1", strings.Replace(m[2]+m[3], "−", "-", 1)}.value()
	if end, whole := l.until(v.to, at+len(m[0])); whole && small {
		if v.to = end; m[1] == "" {
			v.value = power
		} else {
			v.value = new(big.Rat).Mul(v.value, power)
		}
	}
	return true
}

// scale multiplies a number by the words after it that do, such as million.
func (l *listing) scale(v *numeral) {
	for {
		w := l.at(v.to)
		factor, ok := w.Value(vocabulary.Scale, l.q.In)
		if !ok || factor == "" || factor == "0.01" || w.Asked {
			return
		}
		f, ok := new(big.Rat).SetString(factor)
		if !ok || !f.IsInt() || w.Kind == vocabulary.Letters && utf8.RuneCountInString(w.Text) == 1 && w.Start > 0 && unicode.Is(unicode.Latin, rune(w.Text[0])) {
			return
		}
		v.value = new(big.Rat).Mul(v.value, f)
		v.to++
	}
}
