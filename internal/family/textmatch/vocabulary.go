package textmatch

import (
	"slices"
	"strings"
)

// The English words that decide whether a text states an answer: words that may stand
// next to one, and words that deny it, doubt it or offer another. The lists are fixed.
// Words are as [Words] returns them.
const (
	// Frame lists the words that may stand next to an answer without changing it.
	Frame List = " a an the it it's its this that that's these those he she they we i i'm my our there" +
		" is was are were be been would must should think believe guess say know so thus hence therefore then here" +
		" answer final correct right response result solution called named known as by in at on of to for from =" +
		" dr mr mrs ms prof professor sir "
	// SoftDoubt lists words of doubt that may also belong to what is asked.
	SoftDoubt List = " wrong incorrect false untrue mistaken invalid fake bogus if unless else otherwise whether" +
		" might may could probably likely presumably supposedly excluding without anything everything avoid reject" +
		" rejected deny denied doubt doubtful eliminate eliminated discard discarded exclude excluded ruled disprove" +
		" refute instead rather unlike opposite contrary inverse reverse hardly barely scarcely impossible unknown" +
		" unclear unsure uncertain undecided versus vs alternatively worst bad "
	// Bounding lists the prepositions that may bound a number.
	Bounding List = " over under above below between beyond within past short off "
	// Comparison lists the words that bound a number instead of stating it.
	Comparison = Bounding + "less fewer more greater larger smaller bigger higher lower least most than exceed exceeds" +
		" exceeding exceeded max maximum min minimum tops upwards downwards "
	// Factor lists words of arithmetic.
	Factor List = " twice thrice double triple quadruple multiplied divided multiply divide subtracted modulo mod "
	// Approximate lists words that say that a number is not exact.
	Approximate List = " about approximately approx around roughly nearly almost circa ca close near ish approximate "

	negators List = " not never neither nor except cannot "
	doubt    List = " or either but no none maybe perhaps possibly ain't nope "
	barred   List = " and or but no none without either versus vs false wrong incorrect untrue & / | "
	another  List = " other another different second former formerly nearby old not-so second-largest besides "
	scales   List = " hundred thousand million billion trillion quadrillion lakh crore dozen half halve nil nought "
	values   List = " zero=0 one=1 two=2 three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9 ten=10 eleven=11" +
		" twelve=12 thirteen=13 fourteen=14 fifteen=15 sixteen=16 seventeen=17 eighteen=18 nineteen=19 twenty=20" +
		" thirty=30 forty=40 fifty=50 sixty=60 seventy=70 eighty=80 ninety=90 "
)

// IsNegator reports whether a word negates a statement: not, never, neither,
// nor, except, cannot, or a word that ends in n't.
func IsNegator(w string) bool { return negators.Has(w) || strings.HasSuffix(w, "n't") }

// HasNegator reports whether a word of s is a negator.
func HasNegator(s string) bool { return slices.ContainsFunc(Words(s, -1), IsNegator) }

// IsBarred reports whether a word may never stand next to an answer: negators,
// and words that offer a second answer or take one back.
func IsBarred(w string) bool { return barred.Has(w) || IsNegator(w) }

// IsDoubt reports whether a word takes a statement back, whatever it states: a
// negator, or a word that offers another answer or doubts this one.
func IsDoubt(w string) bool { return doubt.Has(w) || IsNegator(w) }

// HasDoubt reports whether a word of s is one of doubt or barred.
func HasDoubt(s string) bool {
	return slices.ContainsFunc(Words(s, -1), func(w string) bool { return IsDoubt(w) || IsBarred(w) })
}

// IsDoubtful reports whether a word cannot be part of a description of the
// answer: words of doubt, comparison, number or another order.
func IsDoubtful(w string) bool {
	return another.Has(w) || IsDoubt(w) || SoftDoubt.Has(w) || Comparison.Has(w) || Approximate.Has(w) || IsNumber(w)
}

// IsNumber reports whether a word is a number, or part of one.
func IsNumber(w string) bool {
	_, ok := NumberValue(w)
	return ok || scales.Has(Singular(w))
}

// NumberValue returns the value of a number word as a decimal.
func NumberValue(w string) (string, bool) { return values.Value(w) }

// Singular returns a word without the s of a plural.
func Singular(w string) string {
	if len(w) > 3 && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !strings.HasSuffix(w, "is") {
		return strings.TrimSuffix(w, "s")
	}
	return w
}
