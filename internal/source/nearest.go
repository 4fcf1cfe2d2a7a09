package source

import "strings"

// Nearest returns the known name that s was probably meant to be: one that
// differs only in case, or the closest within one or two typing errors. It
// returns "" if none is close.
func Nearest(s string, known []string) string {
	best, bestDistance := "", 3
	for _, name := range known {
		if strings.EqualFold(s, name) {
			return name
		}
		// Two errors turn a short name into any other short name.
		if d := distance(strings.ToLower(s), name); d < bestDistance && d*3 <= len(name) {
			best, bestDistance = name, d
		}
	}
	return best
}

// distance is the number of bytes to insert, delete or replace, or of
// neighbours to swap, that turns a into b. It gives up on long strings.
func distance(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	before, last := []int(nil), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
