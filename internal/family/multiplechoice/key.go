package multiplechoice

import (
	"bytes"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/number"
)

// maxChoices is as many as there are labels.
const maxChoices = 26

// Reasons why a row cannot be scored.
var (
	errNoChoices      = errors.New("the row has no choices")
	errTooManyChoices = errors.New("the row has more than 26 choices")
	errNoValidAnswer  = errors.New("the answer does not name a choice")
)

// A set is a set of choices: bit i is the choice at position i.
type set uint32

// several reports whether s contains more than one choice.
func (s set) several() bool { return s&(s-1) != 0 }

// A key is the choices of a row and which of them are right.
type key struct {
	texts    []text
	longest  int // bytes of the longest text in normal form
	expected set
	question *number.Question
}

// A text is the text of a choice in the forms that are compared.
type text struct {
	cuts    [layers]cut // as the row writes it
	normal  string
	isLabel bool // it reads as a label
}

// newKey reads choices and answer of a row. A string that names no choice makes a
// key that nothing matches, as in the reference; anything else that names no
// choice is an error.
func newKey(choices []string, answer jsontext.Value) (key, error) {
	switch {
	case len(choices) == 0:
		return key{}, errNoChoices
	case len(choices) > maxChoices:
		return key{}, errTooManyChoices
	}
	k := key{question: number.NewQuestion("", "")}
	for _, c := range choices {
		t := text{cuts: cutAll(asWritten(c)), normal: textmatch.Normalize(c)}
		k.texts = append(k.texts, t)
		k.longest = max(k.longest, len(t.normal))
	}
	for i := range k.texts {
		t := &k.texts[i]
		bare := strings.TrimRight(strings.TrimLeft(t.cuts[peelNone].core, " ()[]{}"), " ()[]{}.,;:!")
		t.isLabel = k.label(bare) != 0
	}
	right := goldChoices(choices, answer)
	if len(right) == 0 && !bytes.ContainsRune(answer, '"') {
		return key{}, errNoValidAnswer
	}
	for _, i := range right {
		k.expected |= 1 << i
	}
	return k, nil
}

// asWritten is the form in which texts are compared before the normal form: NFC
// with one space for every run of white space.
func asWritten(s string) string { return textmatch.Collapse(textmatch.NFC(s)) }

// label returns the choice that s is the label of: one ASCII letter in range.
func (k key) label(s string) set {
	if len(s) != 1 {
		return 0
	}
	i := int(s[0]|0x20) - 'a'
	if i < 0 || i >= len(k.texts) {
		return 0
	}
	return 1 << i
}
