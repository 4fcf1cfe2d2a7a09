package compare

import (
	"strings"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/lazyregexp"
)

// isFormula reports whether an accepted answer has mathematical signs, so that the ways
// in which those are written must not matter.
func isFormula(s string) bool {
	if textmatch.CountWords(s, 1) == 0 {
		return false // signs only, where each counts
	}
	return strings.ContainsAny(s, `\^=<>√π∞≤≥/+*`) && !strings.ContainsAny(s, "#@") && !strings.Contains(s, "://") ||
		strings.ContainsAny(s, "([{") && strings.ContainsAny(s, "0123456789") && !longWord.MatchString(s) ||
		algebra.MatchString(s)
}

// algebra is a short term such as 3x-2.
var algebra = lazyregexp.New(`^[-−+]?[0-9]*[a-z]?( ?[-−+*/] ?[0-9a-z]+)+$|^[0-9]+[a-z]$`)

// longWord is a word of four letters or more.
var longWord = lazyregexp.New(`\pL{4}`)

// canonical returns a formula in the one form that is compared: without typesetting and
// spaces, with one way to write roots, powers, products and fractions. Numbers that a
// space parts stay apart.
func canonical(s string) string {
	s = answer.Plain(strings.Trim(s, " "))
	s = strings.TrimRight(strings.Trim(s, " *_`\"'"), " .,;:")
	s = apart.ReplaceAllString(s, "$1␣$2")
	s = apart.ReplaceAllString(s, "$1␣$2")
	s = formulaForms.Replace(s)
	s = root.ReplaceAllString(s, "√{$1}")
	s = braced.ReplaceAllString(s, "$1")
	s = product.ReplaceAllString(s, "$1$2")
	s = product.ReplaceAllString(s, "$1$2")
	return textmatch.Lower(s)
}

var (
	apart        = lazyregexp.New(`([0-9]) +([0-9])`)
	formulaForms = strings.NewReplacer(" ", "", "−", "-", "–", "-", "²", "^2", "³", "^3", "bmatrix", "pmatrix", "sqrt", "√", "**", "^", //nolint:gochecknoglobals // a constant
		"degrees", "°", "degree", "°", `\$`, "$", `\ `, "")
	braced  = lazyregexp.New(`\{([^{}]?|[0-9.]+)\}`)
	root    = lazyregexp.New(`√\(([^()]*)\)`)
	product = lazyregexp.New(`([0-9a-zA-Zπ)])[·*×]([a-zA-Zπ√(])`)
	names   = lazyregexp.New(`^[a-z](\([a-z]\))?[=∈]`)
	about   = lazyregexp.New(`≈.*$`)
)

// sameFormula reports whether a stated formula is the accepted one. A name before it and
// an approximation after it are left out where the accepted one has none.
func sameFormula(stated, gold string) bool {
	if stated == gold {
		return true
	}
	if !strings.ContainsAny(gold, "=∈") {
		stated = names.ReplaceAllString(stated, "")
	}
	if !strings.Contains(gold, "≈") {
		stated = about.ReplaceAllString(stated, "")
	}
	return strings.TrimRight(stated, ".") == gold
}
