package bench

import (
	"testing"
	"time"
)

func TestTiming(t *testing.T) {
	var took []time.Duration
	for i := range 100 {
		took = append(took, time.Duration(100-i)*time.Millisecond)
	}
	want := Timing{"x", 100, 1, 50, 99, 100}
	if got := timing("x", took); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := timing("x", took[:1]); got != (Timing{"x", 1, 100, 100, 100, 100}) {
		t.Errorf("one sample: %+v", got)
	}
	if got := timing("x", nil); got != (Timing{Name: "x"}) {
		t.Errorf("no samples: %+v", got)
	}
}
