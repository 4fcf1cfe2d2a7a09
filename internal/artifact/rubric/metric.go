package rubric

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/source"
	"securebench/internal/verdict"
)

// metricRule measures predictions: rows of the candidate and of the reference have the
// same ids, each once.
type metricRule struct {
	name            string
	metric          metric
	sheet, id       string
	targets         []string
	positive        string
	k               int
	atLeast, atMost *float64
}

// metric is how predictions are measured.
type metric struct {
	loss bool // less is better
	many bool // of several columns
	// score measures. Its errors say what is wrong with the predictions.
	score func(r *metricRule, p *predictions) (float64, error)
}

// metrics are the metrics that there are. Their definitions are in docs/families.
func metrics() map[string]metric {
	return map[string]metric{
		"accuracy":        {many: true, score: accuracy},
		"f1":              {score: f1(binary)},
		"f1_macro":        {score: f1(macro)},
		"f1_micro":        {score: f1(micro)},
		"f1_weighted":     {score: f1(weighted)},
		"auc":             {many: true, score: perColumn(auc)},
		"log_loss":        {loss: true, many: true, score: logLoss},
		"rmse":            {loss: true, many: true, score: perColumn(rmse)},
		"mae":             {loss: true, many: true, score: perColumn(mae)},
		"rmsle":           {loss: true, many: true, score: perColumn(rmsle)},
		"r2":              {many: true, score: perColumn(r2)},
		"map_at_k":        {score: mapAtK},
		"quadratic_kappa": {score: perColumn(quadraticKappa)},
	}
}

// The bounds of what is measured.
const (
	maxTargets   = 256
	maxPredicted = 1 << 21 // values
)

func readMetric(n *source.Node) (rule, source.Problems) {
	r := &metricRule{}
	var ps source.Problems
	ps.Closed(n, "a rubric of type metric", "type", "metric", "sheet", "id", "target", "positive", "k", "at_least", "at_most")
	source.Optional(&ps, n, "metric", &r.name, one(slices.Sorted(maps.Keys(metrics()))...))
	source.Optional(&ps, n, "sheet", &r.sheet, (*source.Node).Str)
	source.Optional(&ps, n, "id", &r.id, (*source.Node).Str)
	source.Optional(&ps, n, "target", &r.targets, target)
	source.Optional(&ps, n, "positive", &r.positive, (*source.Node).Str)
	source.Optional(&ps, n, "k", &r.k, func(n *source.Node, what string) (int, *source.Problem) {
		v, p := n.Int(what, 1, 1000)
		return int(v), p
	})
	source.Optional(&ps, n, "at_least", &r.atLeast, limit)
	source.Optional(&ps, n, "at_most", &r.atMost, limit)
	if len(ps) == 0 {
		r.complete(&ps, n)
	}
	return r, ps
}

// complete adds what does not go together.
func (r *metricRule) complete(ps *source.Problems, n *source.Node) {
	r.metric = metrics()[r.name]
	bad := func(is bool, fix, message string, args ...any) {
		if is {
			ps.Add(n.Pos, fix, "a rubric of type metric "+message, args...)
		}
	}
	bad(r.name == "" || r.id == "" || len(r.targets) == 0, "", "needs metric, id and target")
	if r.name == "" {
		return
	}
	bad(r.metric.loss && (r.atMost == nil || r.atLeast != nil), "less of it is better", "needs at_most for %s, and no at_least", r.name)
	bad(!r.metric.loss && (r.atLeast == nil || r.atMost != nil), "more of it is better", "needs at_least for %s, and no at_most", r.name)
	bad(!r.metric.many && len(r.targets) > 1, "", "has several targets, and %s is of one", r.name)
	bad((r.name == "f1") != (r.positive != ""), "", "needs positive, a label, for f1 and for no other")
	bad((r.name == "map_at_k") != (r.k != 0), "", "needs k for map_at_k and for no other")
	bad(slices.Contains(r.targets, r.id), "", "has the column %s as id and as target", shown(r.id))
}

// target reads the name of a column, or a list of them.
func target(n *source.Node, what string) ([]string, *source.Problem) {
	if n.Kind == source.String {
		s, p := n.Str(what)
		return []string{s}, p
	}
	out, p := texts(n, what)
	if p == nil && (len(out) > maxTargets || len(slices.Compact(slices.Sorted(slices.Values(out)))) < len(out)) {
		p = source.Problemf(n.Pos, "%s must be at most %d columns, each once", what, maxTargets)
	}
	return out, p
}

// limit reads a finite number of either sign.
func limit(n *source.Node, what string) (*float64, *source.Problem) {
	var v float64
	if n.Kind != source.Number || n.Decode(&v) != nil || !finite(v) {
		return nil, source.Problemf(n.Pos, "%s must be a number, not %s", what, n.JSON())
	}
	return &v, nil
}

func (r *metricRule) official() string { return "" }

func (r *metricRule) compare(got, want *artifact.File) (Result, error) {
	w, err := r.table(want)
	if err != nil {
		return Result{}, fmt.Errorf("the reference cannot be measured against: %w", err)
	}
	g, err := r.table(got)
	if in, ok := errors.AsType[doubted](err); ok {
		return in.Result, nil
	}
	if err != nil {
		return fail("the file has no predictions: %v", err), nil
	}
	p := &predictions{got: g, want: w}
	if faults, err := p.join(); err != nil || len(faults) > 0 {
		d := differences{lines: faults}
		return d.result(), err
	}
	value, err := r.metric.score(r, p)
	switch {
	case isTruth(err):
		return Result{}, err
	case err != nil:
		return fail("%v", err), nil
	case !finite(value):
		return fail("%s is not finite", r.name), nil
	}
	res := Result{Pass: true}
	if !r.reached(value) {
		res = fail("%s is %s", r.name, floatText(value))
	}
	res.Measure = &verdict.Measure{Name: r.name, Value: value}
	return res, nil
}

// reached reports whether a value is good enough. What is so but for rounding is.
func (r *metricRule) reached(value float64) bool {
	if r.metric.loss {
		return value <= *r.atMost+nearZero
	}
	return value >= *r.atLeast-nearZero
}

// table is a file with the columns that count: the id first.
func (r *metricRule) table(f *artifact.File) (grid, error) {
	g, err := gridOf(f, r.sheet)
	if err != nil {
		return g, err
	}
	if g.rows > maxKeyed || g.rows*len(r.targets) > maxPredicted {
		return g, fmt.Errorf("it has more than %d rows or %d values", maxKeyed, maxPredicted)
	}
	if g.sheet != nil && g.sheet.Hidden {
		return g, fmt.Errorf("sheet %s is hidden", shown(g.sheet.Name))
	}
	have := g.places()
	var columns []int
	for _, name := range append([]string{r.id}, r.targets...) {
		at := have[named(name)]
		if len(at) != 1 {
			return g, fmt.Errorf("column %s comes %d times", shown(name), len(at))
		}
		columns = append(columns, at[0])
	}
	if g.sheet != nil {
		compared := func(_, column int) bool { return slices.Contains(columns, column-g.left) }
		if res, ok := doubt(g.sheet, nil, compared); ok {
			return g, doubted{res}
		}
	}
	at := g.at
	g.at = func(row, column int) scalar { return at(row, columns[column]) }
	g.columns = append([]string{r.id}, r.targets...)
	return g, nil
}

// doubted is the error of a table whose values are only its writer's word.
type doubted struct{ Result }

// Error returns what is in doubt.
func (d doubted) Error() string { return strings.Join(d.Differences, "; ") }

// predictions are rows of the candidate beside those of the reference.
type predictions struct {
	got, want grid // the id is column 0
	row       []int
}

// truthError says what is wrong with the reference.
type truthError struct{ what string }

// Error returns the message.
func (t truthError) Error() string { return "the reference " + t.what }

func isTruth(err error) bool {
	_, is := errors.AsType[truthError](err)
	return is
}

// join finds the candidate's row for each of the reference's.
func (p *predictions) join() (faults []string, err error) {
	if p.want.rows == 0 {
		return nil, truthError{"has no rows"}
	}
	var d differences
	if p.got.rows != p.want.rows {
		d.add("it has %d rows, not %d", p.got.rows, p.want.rows)
	}
	rows := make(map[[16]byte]int, min(p.got.rows, p.want.rows))
	var b []byte
	for row := range p.got.rows {
		b = leniency{}.appendKey(b[:0], p.got.at(row, 0), false)
		key := keyOf(b)
		if before, twice := rows[key]; twice && !d.add("rows %d and %d have the same id", before+1, row+1) {
			break
		}
		rows[key] = row
	}
	p.row = make([]int, p.want.rows)
	for row := range p.want.rows {
		b = leniency{}.appendKey(b[:0], p.want.at(row, 0), false)
		key := keyOf(b)
		at, ok := rows[key]
		switch {
		case ok && at < 0:
			return nil, truthError{fmt.Sprintf("has the id %s twice", p.want.at(row, 0))}
		case !ok && !d.add("there is no row with the id %s", p.want.at(row, 0)):
			return d.result().Differences, nil
		case ok:
			p.row[row], rows[key] = at, -1
		}
	}
	return d.result().Differences, nil
}

// truth and guess are the values of a target, from 0, in a row of the reference.
func (p *predictions) truth(row, target int) scalar { return p.want.at(row, target+1) }
func (p *predictions) guess(row, target int) scalar { return p.got.at(p.row[row], target+1) }

// numbers are the numbers of a target.
func (p *predictions) numbers(target int) (guess, truth []float64, err error) {
	guess, truth = make([]float64, p.want.rows), make([]float64, p.want.rows)
	for row := range truth {
		g, t := p.guess(row, target), p.truth(row, target)
		switch {
		case t.kind != number && t.kind != digits:
			return nil, nil, truthError{fmt.Sprintf("has %s in row %d, which is no number", t, row+1)}
		case g.kind != number && g.kind != digits:
			return nil, nil, fmt.Errorf("row %d: %s is no number", p.row[row]+1, g)
		}
		guess[row], truth[row] = g.number, t.number
	}
	return guess, truth, nil
}

func (r *metricRule) check(want *artifact.File) []string {
	w, err := r.table(want)
	if err != nil || w.rows == 0 {
		return nil // the comparison with itself says so
	}
	p := &predictions{got: constant(w, r.name), want: w, row: places(w.rows)}
	if v, err := r.metric.score(r, p); err == nil && finite(v) && r.reached(v) {
		return []string{fmt.Sprintf("the same prediction in every row would pass: %s is %s", r.name, floatText(v))}
	}
	return nil
}

// constant is a table that predicts one thing in all rows: the mean of numbers, the most
// frequent of labels.
func constant(want grid, name string) grid {
	values := make([]scalar, len(want.columns))
	for c := 1; c < len(values); c++ {
		sum, most, counts := 0.0, 0, map[string]int{}
		var b []byte
		for row := range want.rows {
			v := want.at(row, c)
			sum += v.number
			b = leniency{}.appendKey(b[:0], v, false)
			if counts[string(b)]++; counts[string(b)] > most {
				most, values[c] = counts[string(b)], v
			}
		}
		switch name {
		case "log_loss", "rmse", "mae", "rmsle", "r2":
			values[c] = scalar{kind: number, number: sum / float64(want.rows)}
		}
	}
	at := want.at
	want.at = func(row, column int) scalar {
		if column == 0 {
			return at(row, 0)
		}
		return values[column]
	}
	return want
}

// perColumn is the mean of a metric over all targets.
func perColumn(one func(guess, truth []float64) (float64, error)) func(*metricRule, *predictions) (float64, error) {
	return func(r *metricRule, p *predictions) (float64, error) {
		sum := 0.0
		for t := range r.targets {
			guess, truth, err := p.numbers(t)
			if err != nil {
				return 0, err
			}
			v, err := one(guess, truth)
			if err != nil {
				return 0, err
			}
			sum += v
		}
		return sum / float64(len(r.targets)), nil
	}
}

// mean is the mean of f over all pairs.
func mean(guess, truth []float64, f func(g, t float64) float64) float64 {
	sum := 0.0
	for i := range truth {
		sum += f(guess[i], truth[i])
	}
	return sum / float64(len(truth))
}

func rmse(guess, truth []float64) (float64, error) {
	return math.Sqrt(mean(guess, truth, func(g, t float64) float64 { return (g - t) * (g - t) })), nil
}

func mae(guess, truth []float64) (float64, error) {
	return mean(guess, truth, func(g, t float64) float64 { return math.Abs(g - t) }), nil
}

func rmsle(guess, truth []float64) (float64, error) {
	if slices.Min(truth) < 0 {
		return 0, truthError{"has a number below 0"}
	}
	if slices.Min(guess) < 0 {
		return 0, errors.New("a prediction is below 0")
	}
	return math.Sqrt(mean(guess, truth, func(g, t float64) float64 {
		d := math.Log1p(g) - math.Log1p(t)
		return d * d
	})), nil
}

func r2(guess, truth []float64) (float64, error) {
	middle := mean(truth, truth, func(g, _ float64) float64 { return g })
	spread := mean(truth, truth, func(g, _ float64) float64 { return (g - middle) * (g - middle) })
	if spread == 0 {
		return 0, truthError{"has the same number in every row"}
	}
	return 1 - mean(guess, truth, func(g, t float64) float64 { return (g - t) * (g - t) })/spread, nil
}

// auc is the area under the ROC curve, by ranks: how often a positive row is above a
// negative one. Equal ones count half.
func auc(guess, truth []float64) (float64, error) {
	positives := 0.0
	order := places(len(truth))
	for _, t := range truth {
		if t != 0 && t != 1 {
			return 0, truthError{"has something other than 0 and 1"}
		}
		positives += t
	}
	negatives := float64(len(truth)) - positives
	if positives == 0 || negatives == 0 {
		return 0, truthError{"has only one of 0 and 1"}
	}
	slices.SortFunc(order, func(a, b int) int {
		if guess[a] < guess[b] {
			return -1
		}
		if guess[a] > guess[b] {
			return 1
		}
		return 0
	})
	below, area := 0.0, 0.0
	for from := 0; from < len(order); {
		to, ones := from, 0.0
		for to < len(order) && guess[order[to]] == guess[order[from]] {
			ones += truth[order[to]]
			to++
		}
		zeros := float64(to-from) - ones
		area += ones * (below + zeros/2)
		below, from = below+zeros, to
	}
	return area / positives / negatives, nil
}

// leastChance is what a probability is at least, so that its logarithm is finite.
const leastChance = 1e-15

// logLoss is the cross-entropy. With one target it is the probability of 1; with several,
// each is the probability of one class, and those of a row are divided by their sum.
func logLoss(r *metricRule, p *predictions) (float64, error) {
	columns := len(r.targets)
	guess, truth := make([][]float64, columns), make([][]float64, columns)
	for t := range columns {
		var err error
		if guess[t], truth[t], err = p.numbers(t); err != nil {
			return 0, err
		}
	}
	loss := 0.0
	for row := range p.want.rows {
		sum, ones, chance := 0.0, 0.0, 0.0
		for t := range columns {
			g, y := guess[t][row], truth[t][row]
			switch {
			case y != 0 && y != 1:
				return 0, truthError{"has something other than 0 and 1"}
			case g < 0 || g > 1:
				return 0, fmt.Errorf("row %d: %s is no probability", p.row[row]+1, floatText(g))
			}
			sum, ones, chance = sum+g, ones+y, chance+g*y
		}
		switch {
		case columns == 1:
			if sum, ones = 1, 1; truth[0][row] == 0 {
				chance = 1 - guess[0][row]
			}
		case sum == 0:
			return 0, fmt.Errorf("row %d: all probabilities are 0", p.row[row]+1)
		}
		if ones != 1 {
			return 0, truthError{fmt.Sprintf("has not one 1 in row %d", row+1)}
		}
		loss -= math.Log(min(max(chance/sum, leastChance), 1-leastChance))
	}
	return loss / float64(p.want.rows), nil
}

// quadraticKappa is Cohen's kappa with the squares of differences as weights.
func quadraticKappa(guess, truth []float64) (float64, error) {
	const most = 1 << 20
	for i := range truth {
		if t := truth[i]; t != math.Trunc(t) || math.Abs(t) > most {
			return 0, truthError{"has a rating that is no whole number"}
		}
		if g := guess[i]; g != math.Trunc(g) || math.Abs(g) > most {
			return 0, errors.New("a rating is no whole number")
		}
	}
	first := func(g, _ float64) float64 { return g }
	square := func(g, _ float64) float64 { return g * g }
	seen := mean(guess, truth, func(g, t float64) float64 { return (g - t) * (g - t) })
	// What is expected by chance: the mean over all pairs of a prediction and a truth.
	chance := mean(guess, guess, square) + mean(truth, truth, square) - 2*mean(guess, guess, first)*mean(truth, truth, first)
	if slices.Min(truth) == slices.Max(truth) {
		return 0, truthError{"has the same rating in every row"}
	}
	return 1 - seen/chance, nil
}

// accuracy is the share of rows whose targets are all right.
func accuracy(r *metricRule, p *predictions) (float64, error) {
	right := 0
	for row := range p.want.rows {
		equal := true
		for t := range r.targets {
			equal = equal && leniency{}.equal(p.guess(row, t), p.truth(row, t))
		}
		if equal {
			right++
		}
	}
	return float64(right) / float64(p.want.rows), nil
}

// average makes one number of the counts of each label.
type average func(r *metricRule, counts map[string]*count, label func(scalar) string) float64

// count counts the rows of a label.
type count struct{ hits, guessed, true int }

func (c *count) f1() float64 { return 2 * float64(c.hits) / float64(c.guessed+c.true) }

func f1(mean average) func(*metricRule, *predictions) (float64, error) {
	return func(r *metricRule, p *predictions) (float64, error) {
		counts := map[string]*count{}
		of := func(label string) *count {
			if counts[label] == nil {
				counts[label] = &count{}
			}
			return counts[label]
		}
		label := func(s scalar) string { return string(leniency{}.appendKey(nil, s, false)) }
		for row := range p.want.rows {
			g, t := p.guess(row, 0), p.truth(row, 0)
			if t.kind == nothing {
				return 0, truthError{fmt.Sprintf("has no label in row %d", row+1)}
			}
			guess, truth := of(label(g)), of(label(t))
			guess.guessed++
			truth.true++
			if guess == truth {
				guess.hits++
			}
		}
		if positive := counts[label(ofText(r.positive))]; r.positive != "" && (positive == nil || positive.true == 0) {
			return 0, truthError{"has no row with the positive label"}
		}
		return mean(r, counts, label), nil
	}
}

func binary(r *metricRule, counts map[string]*count, label func(scalar) string) float64 {
	return counts[label(ofText(r.positive))].f1()
}

func macro(_ *metricRule, counts map[string]*count, _ func(scalar) string) float64 {
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(counts)) { // sums depend on the order
		sum += counts[name].f1()
	}
	return sum / float64(len(counts))
}

func weighted(_ *metricRule, counts map[string]*count, _ func(scalar) string) float64 {
	sum, rows := 0.0, 0
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		sum += counts[name].f1() * float64(counts[name].true)
		rows += counts[name].true
	}
	return sum / float64(rows)
}

func micro(_ *metricRule, counts map[string]*count, _ func(scalar) string) float64 {
	var total count
	for _, c := range counts {
		total = count{total.hits + c.hits, total.guessed + c.guessed, total.true + c.true}
	}
	return total.f1()
}

// mapAtK is the mean average precision of lists of at most k, separated by blanks, the
// best first. What comes twice counts once.
func mapAtK(r *metricRule, p *predictions) (float64, error) {
	sum := 0.0
	for row := range p.want.rows {
		right := map[string]bool{}
		for _, s := range strings.Fields(p.truth(row, 0).text) {
			right[s] = true
		}
		if len(right) == 0 {
			return 0, truthError{fmt.Sprintf("has nothing in row %d", row+1)}
		}
		most := min(len(right), r.k)
		hits, precision, at := 0.0, 0.0, 0.0
		for s := range strings.FieldsSeq(p.guess(row, 0).text) {
			if at++; int(at) > r.k {
				break
			}
			if right[s] {
				right[s] = false
				hits++
				precision += hits / at
			}
		}
		sum += precision / float64(most)
	}
	return sum / float64(p.want.rows), nil
}
