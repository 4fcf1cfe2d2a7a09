package workspace

import (
	"math/rand/v2"
	"testing"
)

func TestHashSet(t *testing.T) {
	var s hashSet
	want := map[uint64]bool{}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		h := r.Uint64() % 30_000
		if got := s.has(h); got != (want[h] || h <= 1 && (want[0] || want[1])) {
			t.Fatalf("has(%d) = %v", h, got)
		}
		s.add(h)
		want[h] = true
		if !s.has(h) {
			t.Fatalf("%d is lost", h)
		}
	}
	if full := float64(s.n) / float64(len(s.slots)); full > 7.0/8 {
		t.Errorf("%v of the table is in use", full)
	}
}
