package multiplechoice

import "strings"

// The layers of what may stand around an answer, each with all before it.
const (
	peelNone     = iota
	peelMarkup   // spaces, quotes, * _ ` and closing punctuation
	peelBrackets // round, square and curly brackets
	peelAll      // dollar signs
	layers
)

// A cut is a text in three parts: what a layer takes off its ends, and the core
// between them.
type cut struct{ left, core, right string }

// cutAll cuts s at every layer.
func cutAll(s string) (cuts [layers]cut) {
	for layer := range cuts {
		cuts[layer] = cutAt(s, layer)
	}
	return cuts
}

// cutAt takes off both ends of s what does not belong to an answer.
func cutAt(s string, layer int) cut {
	if layer == peelNone {
		return cut{core: s}
	}
	around := func(r rune) bool { return isAround(r, layer) }
	right := strings.TrimLeftFunc(s, around)
	core := strings.TrimRightFunc(right, func(r rune) bool { return around(r) || isClosing(r) })
	return cut{s[:len(s)-len(right)], core, right[len(core):]}
}

// holds reports whether the text that was cut into own stands in the text that
// was cut into c with nothing but what the layer takes off around it. A dollar
// sign that is taken off has another one on the other side.
func (c cut) holds(own cut) bool {
	return own.core == c.core && own.core != "" &&
		strings.HasSuffix(c.left, own.left) && strings.HasPrefix(c.right, own.right) &&
		strings.Count(c.left, "$")-strings.Count(own.left, "$") == strings.Count(c.right, "$")-strings.Count(own.right, "$")
}

// bare returns s without spaces, brackets and closing punctuation: what a label
// has around it in a row's answer.
func bare(s string) string {
	const brackets = " ()[]{}"
	return strings.TrimRight(strings.TrimLeft(s, brackets), brackets+".,;:!")
}

func isAround(r rune, layer int) bool {
	switch r {
	case ' ', '"', '\'', '`', '“', '”', '‘', '’', '«', '»', '*', '_':
		return true
	case '✅', '✓', '✔', '☑', '➡', '👉', '\ufe0f': // a tick or a pointer, and how it is shown
		return true
	case '(', ')', '[', ']', '{', '}':
		return layer >= peelBrackets
	case '$':
		return layer >= peelAll
	}
	return false
}

// isClosing reports the punctuation that may close an answer.
func isClosing(r rune) bool { return strings.ContainsRune(".,;:!", r) }
