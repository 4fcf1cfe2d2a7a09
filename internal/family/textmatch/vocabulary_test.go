package textmatch

import (
	"testing"
)

func TestHasNegator(t *testing.T) {
	for in, want := range map[string]bool{
		"it is not so": true, "It isn’t": true, "CANNOT": true, "neither, nor": true, "never!": true,
		"except": true, "isnʼt": true, "WOULDN＇T": true, "ʼnotʼ": true, "ʼknotʼ": false, "itʼs": false,
		"nothing": false, "knot": false, "noted": false, "": false, "n't": true,
	} {
		if got := HasNegator(in); got != want {
			t.Errorf("HasNegator(%q) = %v, want %v", in, got, want)
		}
	}
}

// TestWordListsAreDisjoint holds the two lists apart: a word that may stand
// next to an answer must not be one that may never.
func TestWordListsAreDisjoint(t *testing.T) {
	for _, w := range []string{"not", "never", "neither", "nor", "except", "cannot", "isn't", "and", "or", "but",
		"no", "none", "without", "either", "versus", "vs", "false", "wrong", "incorrect", "untrue"} {
		if !IsBarred(w) || Frame.Has(w) {
			t.Errorf("%q: barred %v, frame %v", w, IsBarred(w), Frame.Has(w))
		}
	}
	for _, w := range []string{"the", "answer", "is", "i", "think", "so"} {
		if IsBarred(w) || !Frame.Has(w) {
			t.Errorf("%q: barred %v, frame %v", w, IsBarred(w), Frame.Has(w))
		}
	}
}
