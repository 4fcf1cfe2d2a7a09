package report

import "math"

// Interval is the lower and the upper bound of a rate, from 0 to 1.
type Interval [2]float64

// Rounded is the interval with [Rounded] bounds.
func (i Interval) Rounded() Interval { return Interval{Rounded(i[0]), Rounded(i[1])} }

// Wilson is the 95 % score interval of a proportion p of n tasks: E. B.
// Wilson, "Probable inference, the law of succession, and statistical
// inference", Journal of the American Statistical Association 22 (1927),
// 209-212. Without tasks it is 0 to 1.
//
// Attempts at the same task are not independent, so n counts tasks. With one
// attempt per task, p is the share of tasks that passed; with more, p is pass@1,
// the mean over tasks of a task's share of passes. The variance of such shares
// is at most p(1-p), that of single passes and failures, so the interval is
// conservative: more attempts never make it narrower.
func Wilson(p float64, n int) Interval {
	if n <= 0 {
		return Interval{0, 1}
	}
	const z = 1.959963984540054 // the 97.5 % quantile of the normal distribution
	zz := z * z / float64(n)
	centre := (p + zz/2) / (1 + zz)
	half := math.Sqrt(zz*p*(1-p)+zz*zz/4) / (1 + zz)
	// At p = 0 and 1 a bound equals p except for rounding.
	return Interval{min(max(centre-half, 0), p), max(min(centre+half, 1), p)}
}

// passAtK is the probability that at least one of k attempts passes, sampled
// without replacement from n, c of which passed: 1 - C(n-c,k)/C(n,k), the
// unbiased estimator of Chen et al. 2021, arXiv 2107.03374, in their numerically
// stable product form. 1 <= k <= n.
func passAtK(n, c, k int) float64 {
	if n-c < k {
		return 1
	}
	none := 1.0
	for i := n; i > n-c; i-- {
		none *= 1 - float64(k)/float64(i)
	}
	return 1 - none
}

// passHatK is the probability that all of k attempts pass, sampled as in
// [passAtK]: C(c,k)/C(n,k), pass^k of Yao et al. 2024, arXiv 2406.12045.
func passHatK(n, c, k int) float64 {
	if c < k {
		return 0
	}
	all := 1.0
	for i := range k {
		all *= float64(c-i) / float64(n-i)
	}
	return all
}

// passK estimates pass@k and pass^k for the steps of k. Missing attempts and
// tasks without a record count as not passed.
func passK(tasks []*task, planned, attempts int) []PassK {
	n := max(planned, len(tasks))
	if attempts < 2 || n == 0 {
		return nil
	}
	var out []PassK
	for _, k := range steps(attempts) {
		var anyOf, allOf float64
		for _, t := range tasks {
			s := t.tally()
			anyOf += passAtK(s.Attempts, s.Passed, k)
			allOf += passHatK(s.Attempts, s.Passed, k)
		}
		out = append(out, PassK{K: k, Any: Rounded(anyOf / float64(n)), All: Rounded(allOf / float64(n))})
	}
	return out
}

// steps returns 1, 2, 5, 10, 20, 50 and so on below n, and n.
func steps(n int) []int {
	var out []int
	for ten := 1; ten < n; ten *= 10 {
		for _, k := range []int{ten, 2 * ten, 5 * ten} {
			if k < n {
				out = append(out, k)
			}
		}
	}
	return append(out, n)
}

// Rounded drops the digits that may differ between machines.
func Rounded(x float64) float64 { return math.Round(x*1e6) / 1e6 }
