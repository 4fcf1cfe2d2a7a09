package forms

import (
	"bytes"
	"math/big"
	"strconv"
	"strings"

	"securebench/internal/lazyregexp"
)

// The ways of comparing what a program wrote with what a case expects.
const (
	exact      = "exact"      // the same bytes
	whitespace = "whitespace" // the same words, whatever is between them
	numeric    = "numeric"    // the same words, where numbers may be written in other ways
)

// comparison compares texts as a row says.
type comparison struct {
	how       string
	tolerance *big.Rat // absolute; nil is 0
}

// same reports whether got is what is wanted.
func (c comparison) same(got, want []byte) bool {
	if bytes.Equal(got, want) {
		return true
	}
	if c.how != whitespace && c.how != numeric { // a way that is not known is the strictest
		return false
	}
	g, w := bytes.Fields(got), bytes.Fields(want)
	if len(g) != len(w) {
		return false
	}
	for i := range w {
		if !bytes.Equal(g[i], w[i]) && (c.how == whitespace || !c.near(string(g[i]), string(w[i]))) {
			return false
		}
	}
	return true
}

// near reports whether two words are numbers that differ by no more than the
// tolerance.
func (c comparison) near(got, want string) bool {
	w, ok := number(want)
	if !ok {
		return false
	}
	g, ok := number(got)
	if !ok {
		return false
	}
	diff := new(big.Rat).Sub(g, w)
	if c.tolerance == nil {
		return diff.Sign() == 0
	}
	return diff.Abs(diff).Cmp(c.tolerance) <= 0
}

// The bounds of a number: what is beyond them is a word.
const (
	maxDigits   = 400
	maxExponent = 400
)

var decimal = lazyregexp.New(`^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,4}))?$`)

// number reads a word that is a finite decimal number as a whole.
func number(word string) (*big.Rat, bool) {
	m := decimal.FindStringSubmatch(word)
	if m == nil || len(word) > maxDigits {
		return nil, false
	}
	if m[1] != "" {
		if e, err := strconv.Atoi(m[1]); err != nil || e > maxExponent || e < -maxExponent {
			return nil, false
		}
	}
	return new(big.Rat).SetString(strings.TrimSuffix(word, "."))
}
