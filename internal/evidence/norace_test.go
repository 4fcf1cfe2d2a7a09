//go:build !race

package evidence_test

const manyChanges = 10_000
