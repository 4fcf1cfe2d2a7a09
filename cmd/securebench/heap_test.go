package main

import (
	"math"
	"testing"
)

func TestHeapFloor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ memory, limit, want int64 }{
		"a machine":                     {24 << 30, math.MaxInt64, 16 << 20},
		"a small one":                   {512 << 20, math.MaxInt64, 4 << 20},
		"GOMEMLIMIT=64MiB":              {24 << 30, 64 << 20, 4 << 20},
		"a small one and a small limit": {512 << 20, 32 << 20, 2 << 20},
		"nothing is known":              {0, math.MaxInt64, 0},
		"no limit that makes sense":     {24 << 30, -1, 0},
	} {
		if got := heapFloor(c.memory, c.limit); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// Commands that use sandboxes have a floor of their heap, and no others.
func TestWhoHasAFloor(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"": {"pack", "check"}, "1": {"verify"}, "2": {"report"}, "run": {"run"}, "validate": {"validate"}, "reverify": {"reverify"}} {
		a := &app{}
		c, _, err := a.root().Find(args)
		if err != nil {
			t.Fatal(err)
		}
		a.raiseFloor(c)
		if got, want := len(a.floor) > 0, len(name) > 1; got != want {
			t.Errorf("%v: it has a floor: %v, want %v", args, got, want)
		}
	}
}
