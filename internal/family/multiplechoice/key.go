package multiplechoice

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family/textmatch"
)

// maxChoices is as many as there are labels.
const maxChoices = 26

// Faults of a row.
var (
	errNoChoices      = errors.New("there are no choices")
	errTooManyChoices = errors.New("there are more than 26 choices")
	errNoValidAnswer  = errors.New("the answer names no choice")
)

// A set holds choices: bit i is the choice at position i.
type set uint32

// A key is the choices of a row and which of them are right.
type key struct {
	texts    []string // normalised
	longest  int      // bytes of the longest text
	expected set
}

// newKey reads choices and answer of a row. A string that is no choice makes a
// key that nothing matches, as in the reference; anything else that names no
// choice is an error.
func newKey(choices []string, answer jsontext.Value) (key, error) {
	switch {
	case len(choices) == 0:
		return key{}, errNoChoices
	case len(choices) > maxChoices:
		return key{}, errTooManyChoices
	}
	var k key
	for _, c := range choices {
		text := textmatch.Normalize(c)
		k.texts = append(k.texts, text)
		k.longest = max(k.longest, len(text))
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

// withText returns the choices with a normalised text. A text that normalises
// to nothing matches nothing.
func (k key) withText(text string) set {
	var c set
	for i, t := range k.texts {
		if t == text && text != "" {
			c |= 1 << i
		}
	}
	return c
}
