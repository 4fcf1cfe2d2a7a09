package compare

import (
	"testing"

	"pgregory.net/rapid"
)

// TestPairs compares with every way to pair.
func TestPairs(t *testing.T) {
	var anyPairing func(fits [][]bool, used int) bool
	anyPairing = func(fits [][]bool, used int) bool {
		if len(fits) == 0 {
			return true
		}
		for column, fit := range fits[0] {
			if fit && used&(1<<column) == 0 && anyPairing(fits[1:], used|1<<column) {
				return true
			}
		}
		return false
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "n")
		row := rapid.SliceOfN(rapid.Bool(), n, n)
		fits := rapid.SliceOfN(row, n, n).Draw(t, "fits")
		if got, want := pairs(fits), anyPairing(fits, 0); got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
