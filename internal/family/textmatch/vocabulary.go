package textmatch

import (
	"slices"
	"strconv"
	"strings"
)

// IsDoubt reports whether a word of [Words] takes a statement back, whatever it
// states: a negator, or a word that offers another answer or doubts this one.
func IsDoubt(w string) bool {
	switch w {
	case "or", "either", "but", "no", "none", "maybe", "perhaps", "possibly", "ain't", "nope":
		return true
	}
	return IsNegator(w)
}

// isSoftDoubt reports words of doubt that may also belong to what is asked.
func isSoftDoubt(w string) bool {
	switch w {
	case "wrong", "incorrect", "false", "untrue", "mistaken", "invalid", "fake", "bogus",
		"if", "unless", "else", "otherwise", "whether", "might", "may", "could", "probably", "likely", "presumably", "supposedly",
		"excluding", "without", "anything", "everything", "avoid", "reject", "rejected", "deny", "denied", "doubt", "doubtful",
		"eliminate", "eliminated", "discard", "discarded", "exclude", "excluded", "ruled", "disprove", "refute",
		"instead", "rather", "unlike", "opposite", "contrary", "inverse", "reverse", "hardly", "barely", "scarcely",
		"impossible", "unknown", "unclear", "unsure", "uncertain", "undecided", "versus", "vs", "alternatively", "worst", "bad":
		return true
	}
	return false
}

// IsDoubtful reports a word that a description of the answer does not hold: one
// of doubt, of comparison or of another order.
func IsDoubtful(w string) bool {
	switch w {
	case "other", "another", "different", "second", "former", "formerly", "nearby", "old", "not-so", "almost", "nearly", "second-largest", "besides":
		return true
	}
	return IsDoubt(w) || isSoftDoubt(w) || isComparison(w) || isNumberWord(w) || isApproximate(w)
}

// isNumberWord reports a word that is a number, or part of one.
func isNumberWord(w string) bool {
	if _, ok := wordValue(w); ok {
		return true
	}
	switch singular(w) {
	case "hundred", "thousand", "million", "billion", "trillion", "quadrillion", "lakh", "crore", "dozen", "half", "halve", "nil", "nought":
		return true
	}
	return false
}

// wordValue returns the value of a number word as a decimal.
func wordValue(w string) (string, bool) {
	small := []string{
		"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
		"fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
	}
	if i := slices.Index(small, w); i >= 0 {
		return strconv.Itoa(i), true
	}
	tens := []string{"thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"}
	if i := slices.Index(tens, w); i >= 0 {
		return strconv.Itoa(30 + 10*i), true
	}
	return "", false
}

// isMultiple reports a word behind a number that makes another one of it.
func isMultiple(w string) bool {
	switch singular(w) {
	case "quarter", "third", "fourth", "fifth", "sixth", "eighth", "tenth", "hundredth", "thousandth", "millionth",
		"mil", "mln", "mio", "mill", "bil", "bln", "bn", "tn", "trn", "permille", "bps",
		"squared", "cubed", "factorial", "doubled", "tripled", "quadrupled", "halved", "fold", "odd", "something", "plus",
		"reversed", "backward", "octal", "hex", "hexadecimal", "binary", "exponent", "power", "root", "degreed":
		return true
	}
	return false
}

// isVariable reports a letter behind a number that multiplies it.
func isVariable(w string, capital bool) bool {
	if capital {
		return strings.Contains("kmbgtxyzn", w)
	}
	return strings.Contains("kbxyzniepqπ", w)
}

// isVague reports what makes more of a number behind "and".
func isVague(w string) bool {
	switch w {
	case "a", "an", "some", "change", "counting", "bit", "more", "up", "above", "over", "below", "under", "rising":
		return true
	}
	return false
}

// isComparison reports words that bound a number instead of stating it.
func isComparison(w string) bool {
	switch w {
	case "less", "fewer", "more", "greater", "larger", "smaller", "bigger", "higher", "lower", "least", "most", "than",
		"exceed", "exceeds", "exceeding", "exceeded", "max", "maximum", "min", "minimum", "tops", "upwards", "downwards":
		return true
	}
	return isBoundingPreposition(w)
}

// isBoundingPreposition reports the comparisons that are often something else.
func isBoundingPreposition(w string) bool {
	switch w {
	case "over", "under", "above", "below", "between", "beyond", "within", "past", "short", "off":
		return true
	}
	return false
}

// isBoundWord reports what bounds a number that directly follows.
func isBoundWord(w string) bool {
	switch w {
	case "than", "from", "before", "after", "until", "till", "toward", "towards":
		return true
	}
	return false
}

// isFactor reports words of arithmetic.
func isFactor(w string) bool {
	switch w {
	case "twice", "thrice", "double", "triple", "quadruple", "multiplied", "divided", "multiply", "divide", "subtracted",
		"modulo", "mod":
		return true
	}
	return false
}

// isFunction reports words that make another number of the one they are
// applied to.
func isFunction(w string) bool {
	switch w {
	case "sqrt", "root", "log", "ln", "lg", "exp", "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "abs", "floor",
		"ceil", "ceiling", "gcd", "lcm", "factorial", "square", "squared", "cube", "cubed", "reciprocal", "complement", "negation", "negative", "negated",
		"third", "quarter", "fifth", "tenth", "percent", "times", "power", "multiple", "multiples", "factor", "factors", "sum", "product", "part":
		return true
	}
	return false
}

// isApproximate reports words that say that a number is not exact.
func isApproximate(w string) bool {
	switch w {
	case "about", "approximately", "approx", "around", "roughly", "nearly", "almost", "circa", "ca", "close", "near", "ish", "approximate":
		return true
	}
	return false
}

// isUnit reports the units that may touch a number. Letters that may also be a
// multiple, such as m and k, are none.
func isUnit(w string) bool {
	switch w {
	case "km", "cm", "mm", "nm", "kg", "mg", "ml", "cl", "dl", "lb", "lbs", "oz", "ft", "mi", "yd", "hr", "hrs", "min", "mins", "sec", "secs", "ms",
		"mph", "kph", "kwh", "kw", "hz", "khz", "mhz", "ghz", "kb", "mb", "gb", "tb", "am", "pm", "usd", "eur", "gbp", "pts":
		return true
	}
	return false
}

// isLength reports the units whose square is one too, as in "36 cm squared".
func isLength(w string) bool {
	switch singular(w) {
	case "mm", "cm", "dm", "m", "km", "in", "ft", "yd", "mi", "inche", "inch", "foot", "feet", "yard", "mile", "metre", "meter",
		"centimetre", "centimeter", "millimetre", "millimeter", "kilometre", "kilometer", "unit":
		return true
	}
	return false
}

// isCurrencyCode reports the letters that may touch a currency sign, where
// there is one, or the number itself.
func isCurrencyCode(w string, sign bool) bool {
	if sign {
		return w == "us" || w == "usd"
	}
	switch w {
	case "usd", "eur", "gbp", "inr", "jpy", "cny", "chf", "cad", "aud", "rs":
		return true
	}
	return false
}

// currencyOf returns the sign of a currency that a word of a question names.
func currencyOf(w string) rune {
	switch singular(w) {
	case "dollar", "usd", "buck", "us$":
		return '$'
	case "euro", "eur":
		return '€'
	case "pound", "gbp":
		return '£'
	case "yen", "jpy", "yuan", "cny":
		return '¥'
	case "cent":
		return '¢'
	case "rupee", "inr":
		return '₹'
	}
	return 0
}

// isMoneyWord reports the words of a question that speak of money.
func isMoneyWord(w string) bool {
	switch singular(w) {
	case "money", "cost", "price", "pay", "paid", "earn", "earned", "spend", "spent", "salary", "wage", "profit", "revenue", "income",
		"worth", "bill", "fee", "budget", "saving", "save", "charge", "currency", "sell", "buy", "owe", "tax", "tip", "discount", "amount":
		return true
	}
	return false
}
