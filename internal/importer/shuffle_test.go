package importer_test

import (
	"slices"

	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/importer"
)

func TestShuffleIgnoresInputOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		choices := rapid.SliceOfNDistinct(rapid.String(), 2, 13, rapid.ID).Draw(t, "choices")
		other := rapid.Permutation(choices).Draw(t, "other")
		first := slices.Clone(choices)
		importer.Shuffle(first, "s", "id")
		importer.Shuffle(other, "s", "id")
		if diff := cmp.Diff(first, other); diff != "" {
			t.Errorf("two orders of the same choices (-first +second):\n%s", diff)
		}
		slices.Sort(first)
		slices.Sort(choices)
		if diff := cmp.Diff(choices, first); diff != "" {
			t.Errorf("the shuffle changed the choices (-want +got):\n%s", diff)
		}
	})
}
