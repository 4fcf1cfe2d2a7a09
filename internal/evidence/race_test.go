//go:build race

package evidence_test

// The race detector makes each of many changes long; a few show the races.
const manyChanges = 500
