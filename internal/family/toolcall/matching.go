package toolcall

import (
	"slices"

	"securebench/internal/family/toolcall/calls"
)

// The values of match.
const (
	orderStrict = "strict"
	extraAllow  = "allow"
	extraReads  = "reads"
)

// meets reports whether each expected call is stated, each by another of the calls.
func (k *key) meets(list []calls.Call) bool {
	extra := k.match.Extra == extraAllow
	if len(list) < len(k.expected) || len(list) > len(k.expected) && !extra {
		return false
	}
	list = slices.Clone(list)
	for j, c := range list { // once a call, and not for each expectation
		list[j].Name, _ = k.find(c)
	}
	if k.match.Order == orderStrict {
		return k.meetsInOrder(list)
	}
	fits := make([][]int, len(k.expected)) // the calls that fit each expectation
	for i := range k.expected {
		for j, c := range list {
			if k.fits(i, c) {
				fits[i] = append(fits[i], j)
			}
		}
	}
	return matchesAll(fits, len(list))
}

// meetsInOrder looks for the expected calls one after the other.
func (k *key) meetsInOrder(list []calls.Call) bool {
	next := 0
	for _, c := range list {
		if next < len(k.expected) && k.fits(next, c) {
			next++
		}
	}
	return next == len(k.expected)
}

// fits reports whether a call, by its tool's own name, is what is expected in one place.
func (k *key) fits(i int, c calls.Call) bool {
	e := k.expected[i]
	if c.Name != e.tool.name {
		return false
	}
	if k.match.Rule == ruleBFCL {
		return e.meetsOfficially(c)
	}
	return e.meets(c, k.schemas[i])
}

// matchesAll reports whether each of the first gets one of n others that fit it, no two
// the same: a maximum matching, by augmenting paths.
func matchesAll(fits [][]int, n int) bool {
	owner := slices.Repeat([]int{-1}, n)
	for i := range fits {
		seen := make([]bool, n)
		if !augment(fits, owner, seen, i) {
			return false
		}
	}
	return true
}

func augment(fits [][]int, owner []int, seen []bool, i int) bool {
	for _, j := range fits[i] {
		if seen[j] {
			continue
		}
		seen[j] = true
		if owner[j] < 0 || augment(fits, owner, seen, owner[j]) {
			owner[j] = i
			return true
		}
	}
	return false
}
