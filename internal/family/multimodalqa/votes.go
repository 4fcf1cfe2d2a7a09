package multimodalqa

import (
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family/textmatch"
	"securebench/internal/lazyregexp"
)

// votes are the answers of people to a question, in the form that is compared.
type votes struct {
	written map[string]string // as first written, by form
	count   map[string]int
	order   []string
	total   int
}

func newVotes(answers []jsontext.Value) votes {
	v := votes{written: map[string]string{}, count: map[string]int{}}
	for _, text := range texted(answers) {
		form := spoken(text)
		if v.count[form] == 0 {
			v.written[form] = text
			v.order = append(v.order, form)
		}
		v.count[form]++
		v.total++
	}
	return v
}

// accuracy is the official one of VQA: for each annotator left out, a third for every
// other one who gave the answer, at most 1; and of that the mean.
func (v votes) accuracy(s string) float64 {
	n := v.count[spoken(s)]
	if n == 0 || v.total == 0 {
		return 0
	}
	third := func(votes int) float64 { return min(1, float64(votes)/votesThatCount) }
	return (float64(n)*third(n-1) + float64(v.total-n)*third(n)) / float64(v.total)
}

// best returns the answer that is the most accurate, and how accurate it is.
func (v votes) best() (text string, most float64) {
	for _, form := range v.order {
		if a := v.accuracy(form); text == "" || a > most {
			text, most = v.written[form], a
		}
	}
	return text, most
}

// The words that the official form of an answer leaves out, and the numbers that it
// writes in digits.
const (
	articles textmatch.List = " a an the "
	digits   textmatch.List = " none=0 zero=0 one=1 two=2 three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9 ten=10 "
)

var (
	thousands = lazyregexp.New(`([0-9])(,)([0-9])`)
	// pointed is a point that is no decimal one.
	pointed = lazyregexp.New(`\.([^0-9]|$)`)
	// hyphen is one of a word, and no sign.
	hyphen = lazyregexp.New(`(\pL)-|-(\pL)`)
)

// spoken returns an answer in the form that benchmarks of photographs compare: lower
// case, without articles and punctuation, with numbers in digits.
func spoken(s string) string {
	s = textmatch.Lower(textmatch.Collapse(s))
	s = thousands.ReplaceAllString(s, "$1$3")
	s = pointed.ReplaceAllString(s, "$1")
	s = hyphen.ReplaceAllString(s, "$1 $2")
	s = strings.Map(func(r rune) rune {
		switch {
		case textmatch.IsApostrophe(r):
			return -1 // "dont" is "don't"
		case r == '.' || r == '$' || r == '%' || r == ':' || r == '-' || r == '/' || r == '+':
			return r // part of a number, a time, a name
		case unicode.IsPunct(r) || unicode.IsSymbol(r):
			return ' '
		}
		return r
	}, s)
	var out []string
	for _, w := range strings.Fields(s) {
		w = strings.Trim(w, "-/:")
		if w == "" || articles.Has(w) {
			continue
		}
		if d, ok := digits.Value(w); ok {
			w = d
		}
		out = append(out, w)
	}
	if out == nil {
		return s // an article is all that was said
	}
	return strings.Join(out, " ")
}
