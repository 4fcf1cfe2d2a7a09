package vocabulary

import (
	"math/bits"
	"strconv"
)

// ReadNumber returns the value of the number words that words begin with, as a decimal, and how
// many words they are; 0 where there is no number, or none below 10^18.
func ReadNumber(words []Word, in Languages) (decimal string, n int) {
	c := counter{in: in}
	hyphen := load().hyphen
	for i := range words {
		if i > 0 && i == n { // "and" or a hyphen may stand between two words
			if c.joined = c.in & words[i].In(And); c.joined != 0 || words[i].atom == hyphen && words[i].Start == words[i-1].End {
				continue
			}
		}
		if !c.take(words[i]) {
			break
		}
		n, c.joined = i+1, 0
	}
	sum, carry := bits.Add64(c.total, c.group+c.part, 0)
	if n == 0 || carry != 0 || sum >= 1e18 {
		return "", 0
	}
	return strconv.FormatUint(sum, 10), n
}

// A counter adds up the words of a number: total is what a scale from 1,000 on has closed,
// group what one below has, part the words since.
type counter struct {
	in, joined         Languages
	total, group, part uint64
	begun              bool
}

// take adds a word, and reports whether it belongs to the number.
func (c *counter) take(w Word) bool {
	if l := w.In(Number) & c.in; l != 0 {
		text, _ := w.Value(Number, l)
		if v, err := strconv.ParseUint(text, 10, 64); err == nil && c.add(v) {
			c.in, c.begun = l, true
			return true
		}
	}
	l := w.In(Scale) & c.in
	text, _ := w.Value(Scale, l)
	v, err := strconv.ParseUint(text, 10, 64)
	if l == 0 || err != nil || !c.multiply(v) {
		return false
	}
	c.in, c.begun = l, true
	return true
}

// add adds a number below 1,000: a lower place than the words before it, or, in languages
// that say so, tens after "and".
func (c *counter) add(v uint64) bool {
	german, _ := parseTag("de")
	arab, _ := parseTag("ar")
	switch place := lowest(c.part); {
	case c.part == 0 && (c.group == 0 || v < lowest(c.group)) && (c.total == 0 || v < 1000):
	case c.part < 10 && v >= 20 && v < 100 && c.joined&(german|arab) != 0:
	case c.part == 0 || v == 0 || v >= place || c.begun && c.part%10 != 0:
		return false
	}
	c.part += v
	return true
}

// multiply multiplies what came before by a scale; one without anything before it counts
// once.
func (c *counter) multiply(v uint64) bool {
	if v < 10 || v > 1e15 {
		return false
	}
	if v < 1000 {
		if c.part = max(c.part, 1) * v; c.group != 0 && c.part >= lowest(c.group) {
			return false
		}
		c.group, c.part = c.group+c.part, 0
		return true
	}
	base := c.group + c.part
	switch {
	case base == 0 && c.total > 0 && c.total < 1e6: // as in "mil millones"
		base, c.total = c.total, 0
	case base == 0 && c.begun, c.total != 0 && v >= lowest(c.total):
		return false
	}
	high, low := bits.Mul64(max(base, 1), v)
	if high != 0 || low >= 1e18 {
		return false
	}
	c.total, c.group, c.part = c.total+low, 0, 0
	return true
}

// lowest returns the value of the lowest place of n that is not 0.
func lowest(n uint64) uint64 {
	place := uint64(1)
	for n != 0 && n%10 == 0 {
		n, place = n/10, place*10
	}
	return place
}
