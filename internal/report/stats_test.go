package report

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Published values: the last four are method 3 in table I of R. G. Newcombe,
// Statistics in Medicine 17 (1998), 857-872.
func TestWilson(t *testing.T) {
	for _, c := range []struct {
		passed, tasks int
		want          Interval
	}{
		{5, 10, Interval{0.2366, 0.7634}},
		{0, 10, Interval{0, 0.2775}},
		{10, 10, Interval{0.7225, 1}},
		{81, 263, Interval{0.2553, 0.3662}},
		{15, 148, Interval{0.0624, 0.1605}},
		{0, 20, Interval{0, 0.1611}},
		{1, 29, Interval{0.0061, 0.1718}},
	} {
		got := Wilson(float64(c.passed)/float64(c.tasks), c.tasks)
		if math.Abs(got[0]-c.want[0]) > 5e-5 || math.Abs(got[1]-c.want[1]) > 5e-5 {
			t.Errorf("%d of %d: %v, want %v", c.passed, c.tasks, got, c.want)
		}
	}
	for _, n := range []int{0, -1} {
		if got := Wilson(0, n); got != (Interval{0, 1}) {
			t.Errorf("of %d tasks: %v", n, got)
		}
	}
	if got := Wilson(0, 7)[0]; got != 0 {
		t.Errorf("lower bound of no passes: %v", got)
	}
	if got := Wilson(1, 7)[1]; got != 1 {
		t.Errorf("upper bound of passes only: %v", got)
	}
}

func TestWilsonHoldsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, p := rapid.IntRange(1, 1<<30).Draw(t, "n"), rapid.Float64Range(0, 1).Draw(t, "p")
		got, more := Wilson(p, n), Wilson(p, 2*n)
		if !(0 <= got[0] && got[0] <= p && p <= got[1] && got[1] <= 1) {
			t.Fatalf("%v does not hold %v", got, p)
		}
		if more[1]-more[0] > got[1]-got[0]+1e-12 {
			t.Fatalf("%v of twice the tasks is wider than %v", more, got)
		}
	})
}

// The estimators equal the frequencies over all subsets.
func TestPassKEnumerated(t *testing.T) {
	for n := 1; n <= 9; n++ {
		for c := 0; c <= n; c++ {
			passes := uint(1)<<c - 1
			for k := 1; k <= n; k++ {
				var draws, anyOf, allOf int
				for drawn := range uint(1) << n {
					if bits.OnesCount(drawn) != k {
						continue
					}
					draws++
					if drawn&passes != 0 {
						anyOf++
					}
					if drawn&^passes == 0 {
						allOf++
					}
				}
				near(t, fmt.Sprintf("pass@%d of %d in %d", k, c, n), passAtK(n, c, k), float64(anyOf)/float64(draws))
				near(t, fmt.Sprintf("pass^%d of %d in %d", k, c, n), passHatK(n, c, k), float64(allOf)/float64(draws))
			}
		}
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) < 1e-12) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestPassKProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 10_000).Draw(t, "n")
		c := rapid.IntRange(0, n-1).Draw(t, "c")
		k := rapid.IntRange(1, n-1).Draw(t, "k")
		anyOf, allOf, rate := passAtK(n, c, k), passHatK(n, c, k), float64(c)/float64(n)
		if !(0 <= allOf && allOf <= rate+1e-9 && rate <= anyOf+1e-9 && anyOf <= 1) {
			t.Fatalf("want 0 <= %v <= %v <= %v <= 1", allOf, rate, anyOf)
		}
		if passAtK(n, c, k+1) < anyOf || passAtK(n, c+1, k) < anyOf {
			t.Fatal("pass@k falls with k or c")
		}
		if passHatK(n, c, k+1) > allOf || passHatK(n, c+1, k) < allOf {
			t.Fatal("pass^k rises with k or falls with c")
		}
		if math.Abs(passAtK(n, c, 1)-rate) > 1e-9 || passHatK(n, c, 1) != rate {
			t.Fatal("one attempt is not the pass rate")
		}
	})
}

func TestSteps(t *testing.T) {
	for n, want := range map[int][]int{
		1: {1}, 2: {1, 2}, 3: {1, 2, 3}, 5: {1, 2, 5}, 10: {1, 2, 5, 10}, 60: {1, 2, 5, 10, 20, 50, 60},
	} {
		if got := steps(n); !slices.Equal(got, want) {
			t.Errorf("%d: %v", n, got)
		}
	}
	if n := len(steps(1 << 30)); n != 29 {
		t.Errorf("%d steps", n)
	}
}
