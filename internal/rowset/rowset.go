// Package rowset represents sets of a pack's rows, as a run manifest lists them:
// by position, as ranges.
package rowset

import (
	"iter"
	"sort"
)

// Set is a set of positions: ranges with their first and last position, in
// ascending order and with gaps between them.
type Set [][2]int

// Of returns the set of positions, which are in ascending order.
func Of(positions []int) Set {
	s := Set{}
	for _, at := range positions {
		if n := len(s) - 1; n >= 0 && s[n][1] >= at-1 {
			s[n][1] = at
		} else {
			s = append(s, [2]int{at, at})
		}
	}
	return s
}

// First returns the set of the first n positions.
func First(n int) Set {
	if n <= 0 {
		return Set{}
	}
	return Set{{0, n - 1}}
}

// Valid reports whether the set is in its one form, with positions below limit.
func (s Set) Valid(limit int) bool {
	next := 0
	for _, r := range s {
		if r[0] < next || r[1] < r[0] || r[1] >= limit {
			return false
		}
		next = r[1] + 2
	}
	return true
}

// Len is the number of positions.
func (s Set) Len() (n int) {
	for _, r := range s {
		n += r[1] - r[0] + 1
	}
	return n
}

// Has reports whether a position is in the set.
func (s Set) Has(at int) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i][1] >= at })
	return i < len(s) && s[i][0] <= at
}

// All returns the positions in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, r := range s {
			for at := r[0]; at <= r[1]; at++ {
				if !yield(at) {
					return
				}
			}
		}
	}
}
