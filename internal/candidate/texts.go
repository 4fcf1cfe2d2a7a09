package candidate

import (
	"errors"
	"fmt"

	"securebench/internal/digest"
)

// Some tasks are presented several times, such as two answers in both orders. Their
// candidate is the list of what the agent said to each presentation, as canonical JSON, so
// that it is one value with one digest. A presentation that was not made has null.

// JoinTexts returns the candidate that consists of texts, of which nil is none.
func JoinTexts(texts ...*string) ([]byte, error) {
	b, err := digest.Canonical(texts)
	if err != nil {
		return nil, fmt.Errorf("joining the texts of presentations: %w", err)
	}
	return b, nil
}

var errTexts = errors.New("the candidate is not a list of texts, one for each presentation")

// SplitTexts reads a list of n texts.
func SplitTexts(data []byte, n int) ([]*string, error) {
	var out []*string
	if digest.DecodeCanonical(data, &out) != nil || len(out) != n {
		return nil, errTexts
	}
	return out, nil
}
