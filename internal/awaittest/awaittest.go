// Package awaittest waits in tests until a condition holds. On a busy machine no
// length of time is enough.
package awaittest

import (
	"testing"
	"time"
)

// Hung is longer than anything takes that happens at all, on a machine with much else to
// do. Tests have no other bound on time.
const Hung = 5 * time.Minute

// Until waits for a condition, and ends the test if it never comes.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !Soon(ok) {
		t.Fatalf("waited %v for %s", Hung, what)
	}
}

// Soon waits for a condition and reports whether it came.
func Soon(ok func() bool) bool {
	pause := time.Millisecond
	for end := time.Now().Add(Hung); time.Now().Before(end); time.Sleep(pause) {
		if ok() {
			return true
		}
		pause = min(2*pause, 50*time.Millisecond)
	}
	return false
}
