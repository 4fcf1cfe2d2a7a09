package rowset

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSet: a set has the positions that it was made of, in its one form.
func TestSet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfDistinct(rapid.IntRange(0, 60), rapid.ID[int]).Draw(t, "positions")
		slices.Sort(in)
		s := Of(in)
		if got := slices.Collect(s.All()); !slices.Equal(got, in) {
			t.Errorf("%v became %v", in, got)
		}
		if !s.Valid(61) || s.Len() != len(in) {
			t.Errorf("%v: valid %v, %d positions", s, s.Valid(61), s.Len())
		}
		for at := -1; at <= 61; at++ {
			if s.Has(at) != slices.Contains(in, at) {
				t.Errorf("%v has %d: %v", in, at, s.Has(at))
			}
		}
	})
}

// TestValid refuses every other form of a set.
func TestValid(t *testing.T) {
	t.Parallel()
	for _, bad := range []Set{{{-1, 0}}, {{2, 1}}, {{0, 10}}, {{0, 1}, {2, 3}}, {{0, 1}, {1, 3}}, {{4, 5}, {0, 1}}} {
		if bad.Valid(10) {
			t.Errorf("%v is valid", bad)
		}
	}
	for _, good := range []Set{{}, nil, {{0, 9}}, {{0, 1}, {3, 3}, {5, 9}}} {
		if !good.Valid(10) {
			t.Errorf("%v is not valid", good)
		}
	}
	if First(0).Len() != 0 || First(3).Len() != 3 || !First(3).Has(2) || First(3).Has(3) {
		t.Error("First")
	}
}
