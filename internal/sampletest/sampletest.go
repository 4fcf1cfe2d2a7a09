// Package sampletest lets tests with many cases of one kind run some of them, and skips
// costly tests of what others show in parts; where SECUREBENCH_TEST_WHOLE=1 is set, as by
// "make nightly", all of them run. It keeps that choice apart from the tests, so that in all
// packages one variable makes it.
package sampletest

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"testing"
)

// Whole reports whether tests run all of their cases.
func Whole() bool { return os.Getenv("SECUREBENCH_TEST_WHOLE") == "1" }

// Nightly skips a test unless all tests run. others says which parts of it other tests show.
func Nightly(t testing.TB, others string) {
	t.Helper()
	if !Whole() {
		t.Skipf("SKIPPED: SECUREBENCH_TEST_WHOLE=1 runs it; %s", others)
	}
}

// Of returns the first of every n cases, or all of them. They need an order that is the
// same each time.
func Of[T any](t testing.TB, n int, all []T) []T {
	t.Helper()
	if Whole() {
		return all
	}
	var out []T
	for i := 0; i < len(all); i += n {
		out = append(out, all[i])
	}
	t.Logf("%d of %d cases (SECUREBENCH_TEST_WHOLE=1 runs all)", len(out), len(all))
	return out
}

// Keys is [Of] for the names of cases.
func Keys[K cmp.Ordered, V any](t testing.TB, n int, all map[K]V) []K {
	t.Helper()
	return Of(t, n, slices.Sorted(maps.Keys(all)))
}
