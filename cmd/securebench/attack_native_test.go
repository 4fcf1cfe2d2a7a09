package main

import (
	"slices"
	"testing"

	"securebench/internal/sandbox/enginetest"
)

// TestCorpusTwiceNative is TestCorpusTwice on the native engine: what the first
// attempt leaves in shared places, the second does not find.
func TestCorpusTwiceNative(t *testing.T) {
	t.Parallel()
	e := enginetest.Native(t)
	attacks := slices.DeleteFunc(corpus(), func(a attack) bool { return !leaves(a) })
	runCorpus(t, "corpus-twice", 2, attacks, questions(enginetest.Image(t, e).Ref))
}
