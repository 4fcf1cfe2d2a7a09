package compare

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mathext"

	"securebench/internal/report"
)

// Interval is a lower and an upper bound.
type Interval = report.Interval

func roundedInterval(low, high float64) *Interval {
	in := Interval{low, high}.Rounded()
	return &in
}

// The names of intervals and tests in a report.
const (
	newcombeInterval = "newcombe"
	pairedInterval   = "paired_t"
	clusterInterval  = "cluster_t"
	mcNemarTest      = "mcnemar_exact"
)

// Estimate is a difference in pass rate: the mean over tasks of the difference
// between a task's shares of passes.
type Estimate struct {
	Tasks      int     `json:"tasks"`
	Before     float64 `json:"before"` // the rates
	After      float64 `json:"after"`
	Difference float64 `json:"difference"`
	// Interval is the difference's 95 % interval, and Method its name.
	Interval *Interval `json:"interval_95"`
	Method   string    `json:"interval_method"`
	// Bootstrap is the 95 % percentile interval of the bootstrap over tasks, or
	// over clusters of tasks.
	Bootstrap *Interval `json:"bootstrap_95"`
	// Counts are given if each task was attempted once in both runs.
	Counts *Counts `json:"counts,omitzero"`
	// McNemar needs counts, and tasks that are independent of each other.
	McNemar *McNemar `json:"mcnemar,omitzero"`
	// T is the paired t test; absent without variation, and of a single task.
	T *T `json:"t,omitzero"`
	// P is of the test that Test names: McNemar's exact test where there is one,
	// else the t test. Adjusted is P after Holm's correction for the number of
	// runs that are compared with the first.
	Test     string   `json:"test,omitzero"`
	P        *float64 `json:"p"`
	Adjusted *float64 `json:"p_adjusted,omitzero"`
	// untested says in the table why there is no test, if there is none.
	untested string
}

// Counts are numbers of tasks.
type Counts struct {
	Both    int `json:"both"` // passed in both runs
	Gained  int `json:"gained"`
	Lost    int `json:"lost"`
	Neither int `json:"neither"`
}

// McNemar has the two-sided p values of McNemar's test: exact, after the binomial
// distribution of the tasks that changed, and its mid-p variant, which is less
// conservative.
type McNemar struct {
	Exact float64 `json:"exact_p"`
	Mid   float64 `json:"mid_p"`
}

// T is the two-sided paired t test. With clusters, the standard error is the
// cluster-robust one, and there is one degree of freedom less than clusters.
type T struct {
	StandardError float64 `json:"standard_error"`
	Statistic     float64 `json:"statistic"`
	Freedom       int     `json:"degrees_of_freedom"`
	P             float64 `json:"p"`
}

// pairs are the shares of passes of tasks in two runs.
type pairs struct {
	before, after []float64
	groups        []int // numbers of clusters; nil if each task is alone
	binary        bool  // one attempt each
}

func newPairs(rows []row, groups []int, i int) *pairs {
	p := &pairs{groups: groups, binary: true}
	for _, r := range rows {
		a, b := r.tasks[0], r.tasks[i]
		p.before, p.after = append(p.before, a.Share()), append(p.after, b.Share())
		p.binary = p.binary && a.Attempts == 1 && b.Attempts == 1
	}
	return p
}

// add adds pair n of another set.
func (p *pairs) add(from *pairs, n int) {
	p.before, p.after = append(p.before, from.before[n]), append(p.after, from.after[n])
	if from.groups != nil {
		p.groups = append(p.groups, from.groups[n])
	}
}

// estimate computes the difference. Figures are rounded, so that the same runs
// give the same bytes on every machine.
func (p *pairs) estimate(o Options) Estimate {
	before, after := mean(p.before), mean(p.after)
	sums, sizes := p.sums()
	// Of the differences themselves: what is left of each after d is taken away
	// must not be the rounding of two other means.
	d := sum(sums) / float64(len(p.before))
	e := Estimate{Tasks: len(p.before), Before: report.Rounded(before), After: report.Rounded(after), Difference: report.Rounded(d)}
	if p.binary {
		e.Counts = p.counts()
	}
	e.Bootstrap = bootstrap(sums, sizes, o.Resamples, o.Seed)
	var se, freedom float64
	if len(sums) > 1 {
		se, freedom = standardError(sums, sizes, d), float64(len(sums)-1)
	}
	if se > 0 {
		t := d / se
		e.T = &T{*significant(se), *significant(t), int(freedom), *significant(studentTail(t, freedom))}
	}
	switch {
	case p.binary && p.groups == nil:
		e.McNemar = mcnemar(e.Counts.Gained, e.Counts.Lost)
		e.Test, e.P = mcNemarTest, &e.McNemar.Exact
		e.Method, e.Interval = newcombeInterval, newcombe(*e.Counts)
		return e
	case p.groups != nil:
		e.Method = clusterInterval
	default:
		e.Method = pairedInterval
	}
	if e.T != nil {
		half := studentQuantile(freedom) * se
		e.Interval, e.Test, e.P = roundedInterval(max(d-half, -1), min(d+half, 1)), e.Method, &e.T.P
	} else {
		e.untested = p.untested(len(sums))
	}
	return e
}

// rounding is above what adding up shares of passes loses, and far below the
// standard error of shares that differ.
const rounding = 1e-12

// untested says why there is no standard error over so many clusters.
func (p *pairs) untested(clusters int) string {
	var least, most float64
	for i, before := range p.before {
		d := p.after[i] - before
		if i == 0 {
			least, most = d, d
		}
		least, most = min(least, d), max(most, d)
	}
	switch {
	case len(p.before) == 1:
		return "one task"
	case least == 0 && most == 0:
		return "nothing varies"
	case clusters == 1:
		return "one cluster"
	case most-least > rounding:
		return "every cluster changed equally"
	}
	return "every task changed equally"
}

// counts counts the tasks of runs with one attempt each.
func (p *pairs) counts() *Counts {
	c := &Counts{}
	for i, before := range p.before {
		switch after := p.after[i]; {
		case before == 1 && after == 1:
			c.Both++
		case before == 1:
			c.Lost++
		case after == 1:
			c.Gained++
		default:
			c.Neither++
		}
	}
	return c
}

// sums are the sums of the differences of each cluster, and their sizes. Without
// clusters, each task is one.
func (p *pairs) sums() (sums []float64, sizes []int) {
	place := map[int]int{}
	for i := range p.before {
		at := i
		if p.groups != nil {
			var known bool
			if at, known = place[p.groups[i]]; !known {
				at = len(sums)
				place[p.groups[i]] = at
			}
		}
		if at == len(sums) {
			sums, sizes = append(sums, 0), append(sizes, 0)
		}
		sums[at] += p.after[i] - p.before[i]
		sizes[at]++
	}
	return sums, sizes
}

// standardError is that of the mean d of the differences: with clusters of one
// task the usual one, else the cluster-robust one with the correction G/(G-1). It
// is 0 where nothing but rounding varies.
func standardError(sums []float64, sizes []int, d float64) float64 {
	var squares float64
	n := 0
	for i, sum := range sums {
		r := sum - float64(sizes[i])*d
		squares += r * r
		n += sizes[i]
	}
	g := float64(len(sums))
	se := math.Sqrt(squares*g/(g-1)) / float64(n)
	if se < rounding {
		return 0
	}
	return se
}

// mcnemar tests whether gains and losses are equally likely: Q. McNemar, "Note on
// the sampling error of the difference between correlated proportions or
// percentages", Psychometrika 12 (1947), 153-157; mid-p after M. W. Fagerland et
// al., BMC Medical Research Methodology 13 (2013), 91.
func mcnemar(gained, lost int) *McNemar {
	n, k := gained+lost, min(gained, lost)
	if n == 0 {
		return &McNemar{1, 1}
	}
	equal := choose(n, k)
	upTo := halfBinomial(n, k)
	return &McNemar{*significant(min(1, 2*upTo)), *significant(min(1, 2*upTo-equal))}
}

// halfBinomial is the probability of at most k of n, each with probability 1/2.
func halfBinomial(n, k int) float64 {
	if k >= n {
		return 1
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 0.5)
}

// choose is the probability of k of n, each with probability 1/2.
func choose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return math.Exp(a - b - c - float64(n)*math.Ln2)
}

// newcombe is the 95 % interval for a difference of paired proportions: R. G.
// Newcombe, "Improved confidence intervals for the difference between binomial
// proportions based on paired data", Statistics in Medicine 17 (1998), 2635-2650,
// method 10 with the continuity-corrected correlation. It also holds at the ends,
// where an interval from the standard error would have no width.
func newcombe(c Counts) *Interval {
	e, f, g, h := float64(c.Both), float64(c.Gained), float64(c.Lost), float64(c.Neither)
	n := e + f + g + h
	p1, p2 := (e+f)/n, (e+g)/n // after, before
	w1, w2 := report.Wilson(p1, int(n)), report.Wilson(p2, int(n))
	phi := 0.0
	if product := (e + f) * (g + h) * (e + g) * (f + h); product > 0 {
		a := e*h - f*g
		if a > 0 {
			a = max(a-n/2, 0)
		}
		phi = a / math.Sqrt(product)
	}
	down := func(dl, du float64) float64 { return math.Sqrt(max(0, dl*dl-2*phi*dl*du+du*du)) }
	return roundedInterval(p1-p2-down(p1-w1[0], w2[1]-p2), p1-p2+down(w1[1]-p1, p2-w2[0]))
}

// bootstrap is the 95 % percentile interval of the mean difference over resamples
// of the clusters: B. Efron, R. J. Tibshirani, "An Introduction to the Bootstrap"
// (1993), chapter 13. The draws follow from the seed: cluster number
// floor(x*n / 2^64), where x are the values of a PCG-DXSM generator, in the form
// of Go's math/rand/v2, seeded with the seed and 0.
func bootstrap(sums []float64, sizes []int, resamples int, seed uint64) *Interval {
	if resamples < 1 || len(sums) < 2 {
		return nil
	}
	draws, n := rand.NewPCG(seed, 0), uint64(len(sums))
	means := make([]float64, resamples)
	for i := range means {
		var sum float64
		size := 0
		for range n {
			at, _ := bits.Mul64(draws.Uint64(), n)
			sum += sums[at]
			size += sizes[at]
		}
		means[i] = sum / float64(size)
	}
	slices.Sort(means)
	return roundedInterval(quantile(means, 0.025), quantile(means, 0.975))
}

// quantile interpolates linearly between sorted values.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// studentTail is the two-sided p value of Student's t.
func studentTail(t, freedom float64) float64 {
	return mathext.RegIncBeta(freedom/2, 0.5, freedom/(freedom+t*t))
}

// studentQuantile is the 97.5 % quantile of Student's t.
func studentQuantile(freedom float64) float64 {
	x := mathext.InvRegIncBeta(freedom/2, 0.5, 0.05)
	return math.Sqrt(freedom * (1 - x) / x)
}

func mean(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	return sum(xs) / float64(len(xs))
}

func sum(xs []float64) (total float64) {
	for _, x := range xs {
		total += x
	}
	return total
}

// significant keeps six significant digits: p values may be very small.
func significant(x float64) *float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	if err != nil {
		y = x
	}
	return &y
}
