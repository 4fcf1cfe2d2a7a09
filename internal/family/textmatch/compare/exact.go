package compare

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
)

const (
	maxSeparator = 8  // characters between a label and its text
	maxEdge      = 64 // bytes around a text that only the normal form removes
)

// The layers that may surround an answer; each includes those before it.
const (
	peelNone     = iota
	peelMarkup   // spaces, quotes, * _ ` and closing punctuation
	peelBrackets // round, square and curly brackets
	peelAll      // dollar signs
	layers
)

// A cut is a text in three parts: what a layer removes from its ends, and the
// core between them.
type cut struct{ left, core, right string }

// cutAll cuts s at every layer.
func cutAll(s string) (cuts [layers]cut) {
	for layer := range cuts {
		cuts[layer] = cutAt(s, layer)
	}
	return cuts
}

// cutAt removes what surrounds an answer from both ends of s, and closing
// punctuation from its end.
func cutAt(s string, layer int) cut {
	if layer == peelNone {
		return cut{core: s}
	}
	const around = " →∴⇒\"'`“”‘’«»*_✅✓✔☑➡👉\ufe0f" // the last one is how a tick or pointer is shown
	const brackets = "()[]{}【】「」『』〈〉《》"
	set := [layers]string{peelMarkup: around, peelBrackets: around + brackets, peelAll: around + brackets + "$"}[layer]
	right := strings.TrimLeft(s, set)
	core := strings.TrimRight(right, set+".,;:!。，、；：！")
	return cut{s[:len(s)-len(right)], core, right[len(core):]}
}

// holds reports whether the text that was cut into own stands in the text that
// was cut into c with nothing around it but what the layer removes. Dollar signs are
// removed in pairs only.
func (c cut) holds(own cut) bool {
	return own.core == c.core && own.core != "" &&
		strings.HasSuffix(c.left, own.left) && strings.HasPrefix(c.right, own.right) &&
		strings.Count(c.left, "$")-strings.Count(own.left, "$") == strings.Count(c.right, "$")-strings.Count(own.right, "$")
}

// exact returns the choices that s names as a whole. What surrounds an answer
// is removed in layers, so that a text that itself begins with a dollar sign or a
// bracket is compared before that is removed. A choice's text as it is
// written comes first, then a label, then a text in normal form.
func (k *Choices) exact(s string) Set {
	cuts := cutAll(s)
	for layer, c := range cuts {
		if found := k.written(layer, c, false); found != 0 {
			return found
		}
	}
	if c := k.label(cuts[peelAll].core); c != 0 {
		return c
	}
	for _, c := range cuts {
		if found := k.text(c.core); found != 0 {
			return found
		}
	}
	return cmp.Or(k.labelled(cuts), k.labelAfter(s))
}

// labelAfter returns the choice that a line gives the text of, and after it
// the same choice's label in brackets: "Paris (B)".
func (k *Choices) labelAfter(s string) Set {
	s = strings.TrimRight(s, ".,;:! *_`")
	i := strings.LastIndexAny(s, "([")
	if i < 1 || len(s) != i+3 || !strings.ContainsRune(")]", rune(s[i+2])) {
		return 0
	}
	return k.label(s[i+1:i+2]) & k.text(s[:i])
}

// written returns the choices whose text, as the row writes it, is the core of
// c with as much of its surroundings as belongs to the text. A text that is
// itself a label counts only where labels is true.
func (k *Choices) written(layer int, c cut, labels bool) Set {
	best, found := 0, Set(0)
	for i, t := range k.texts {
		own := t.cuts[layer]
		if t.normal == "" || t.isLabel && !labels || !c.holds(own) {
			continue
		}
		if n := len(own.left) + len(own.right); found == 0 || n > best {
			best, found = n, 1<<i
		} else if n == best {
			found |= 1 << i
		}
	}
	return found
}

// text returns the choices with the text s in normal form; text that normalises
// to nothing has none. A text much longer than every choice is not normalised:
// lower case and NFC shorten one by half at most.
func (k *Choices) text(s string) Set {
	if len(s) > 2*k.longest+maxEdge {
		return 0
	}
	s = textmatch.Normalize(s)
	return k.where(func(t *text) bool { return t.normal == s && s != "" })
}

// labelled returns the choice that a line gives both label and text of. The
// first text that is written as a choice's decides: with the label of another
// choice it names nothing.
func (k *Choices) labelled(cuts [layers]cut) Set {
	for layer, c := range cuts {
		for _, rest := range k.afterLabel(c.core) {
			tail := cutAt(rest, layer)
			tail.right = c.right
			if found := k.written(layer, tail, true); found != 0 {
				return found & k.label(c.core[:1])
			}
		}
	}
	for _, c := range cuts {
		for _, rest := range k.afterLabel(c.core) {
			if both := k.text(rest) & k.label(c.core[:1]); both != 0 {
				return both
			}
		}
	}
	return 0
}

// afterLabel returns what may be the text after the label and the separators
// that s begins with, the longest first.
func (k *Choices) afterLabel(s string) (rests []string) {
	if s == "" || len(s) > 2*k.longest+maxEdge+maxSeparator || k.label(s[:1]) == 0 {
		return nil
	}
	rest := s[1:]
	for range maxSeparator {
		r, size := utf8.DecodeRuneInString(rest)
		if !strings.ContainsRune(" )]}.:,-–—*_`、】」』，：。", r) || size == 0 || isMinus(rest) {
			break
		}
		rest = rest[size:]
		rests = append(rests, rest)
	}
	return rests
}

// isMinus reports whether s begins with a hyphen that stands directly before
// something other than a word, such as a digit or a currency sign.
func isMinus(s string) bool {
	if len(s) < 2 || s[0] != '-' {
		return false
	}
	r, _ := utf8.DecodeRuneInString(s[1:])
	return !unicode.IsLetter(r) && !strings.ContainsRune(textmatch.Markup, r)
}
