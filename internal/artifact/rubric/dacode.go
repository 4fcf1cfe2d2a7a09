package rubric

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/family/textmatch"
	"securebench/internal/source"
	"securebench/internal/verdict"
)

// What the scorer of DA-Code has as constants.
const (
	dacode          = "dacode"
	dacodeTolerance = 1e-2
	dacodeRelative  = 1e-9
	dacodeRows      = 10_000
)

// dacodeTable is compare_csv of DA-Code: each column of the reference must equal some
// column of the result, whatever its name, and whatever else is there.
type dacodeTable struct {
	columns   []string // of the reference that count, nil for all
	order     string
	scoreRule string
}

func readDacodeTable(n *source.Node) (rule, source.Problems) {
	r := &dacodeTable{order: asIs, scoreRule: "divide"}
	var ps source.Problems
	ps.Closed(n, "a rubric of type table with match", "type", "match", "columns", "order", "score_rule")
	var match string
	source.Optional(&ps, n, "match", &match, one(dacode))
	source.Optional(&ps, n, "columns", &r.columns, texts)
	source.Optional(&ps, n, "order", &r.order, one(asIs, anyOrder))
	source.Optional(&ps, n, "score_rule", &r.scoreRule, one("divide", "all"))
	return r, ps
}

func (r *dacodeTable) official() string { return dacode }

func (r *dacodeTable) check(*artifact.File) []string { return nil }

func (r *dacodeTable) compare(got, want *artifact.File) (Result, error) {
	gold, err := r.gold(want)
	if err != nil {
		return Result{}, err
	}
	if got.Table == nil || len(got.Table.Rows) < 2 {
		return fail("the file has no rows"), nil
	}
	rows := got.Table.Rows[1:min(len(got.Table.Rows), dacodeRows+1)]
	f := newFrame(rows, places(len(rows[0])))
	left := len(gold)
	found := make([]bool, len(gold))
	for c := range f.kinds {
		v := f.vector(c, r.order == anyOrder)
		if v.infinite {
			return fail("column %d has a number that is not finite", c+1), nil
		}
		for i := range gold {
			if !found[i] && v.equal(gold[i]) {
				found[i] = true
				left--
			}
		}
	}
	var d differences
	for i := range gold {
		if !found[i] {
			d.add("no column is column %s of the reference", shown(want.Table.Rows[0][gold[i].column]))
		}
	}
	res := d.result()
	if r.scoreRule == "divide" {
		res.Measure = &verdict.Measure{Name: dacode, Value: float64(len(gold)-left) / float64(len(gold))}
	}
	return res, nil
}

// gold returns the columns of the reference that count.
func (r *dacodeTable) gold(want *artifact.File) ([]vector, error) {
	if want.Table == nil || len(want.Table.Rows) < 2 {
		return nil, errors.New("the reference is no table with rows to compare with")
	}
	rows := want.Table.Rows[1:min(len(want.Table.Rows), dacodeRows+1)]
	columns, err := r.counted(want.Table.Rows[0])
	if err != nil {
		return nil, err
	}
	f := newFrame(rows, columns)
	out := make([]vector, len(columns))
	for i := range columns {
		if out[i] = f.vector(i, r.order == anyOrder); out[i].infinite {
			return nil, errors.New("the reference has a number that is not finite")
		}
	}
	return out, nil
}

// counted returns which columns of the reference count. A name that comes twice is the
// first column with it, then the next.
func (r *dacodeTable) counted(header []string) (out []int, err error) {
	if r.columns == nil {
		return places(len(header)), nil
	}
	seen := map[string]int{}
	for _, name := range r.columns {
		at := slices.Index(header[seen[name]:], name)
		if at < 0 {
			return nil, fmt.Errorf("columns names %s, which the reference lacks", shown(name))
		}
		out = append(out, seen[name]+at)
		seen[name] += at + 1
	}
	return out, nil
}

// py is a value as Python has it.
type py struct {
	kind   pyKind
	number float64
	text   string // of a string, or what str returns, which is needed to sort
}

type pyKind uint8

const (
	pyNone pyKind = iota // NaN in a table, None in data
	pyInt
	pyFloat
	pyBool
	pyStr
	pyList // and all below: in data alone
	pyDict
)

// frame is some columns of a table as pandas types them: each by all of its values.
type frame struct {
	rows    [][]string
	columns []int
	kinds   []pyKind
	floats  bool // all are numbers, and some no whole ones: then all are floats
}

func newFrame(rows [][]string, columns []int) *frame {
	f := &frame{rows: rows, columns: columns, kinds: make([]pyKind, len(columns)), floats: true}
	some := false
	for i, c := range columns {
		f.kinds[i] = kindOf(rows, c)
		some = some || f.kinds[i] == pyFloat
		f.floats = f.floats && (f.kinds[i] == pyFloat || f.kinds[i] == pyInt)
	}
	f.floats = f.floats && some
	return f
}

// isNA reports whether pandas reads a field as missing.
func isNA(s string) bool {
	switch s {
	case "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
		"<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null":
		return true
	}
	return false
}

// kindOf is the type of a column: the narrowest that takes all of its fields.
func kindOf(rows [][]string, c int) pyKind {
	isInt, isFloat, isBool, missing, present := true, true, true, false, false
	for _, row := range rows {
		s := row[c]
		if isNA(s) {
			missing = true
			continue
		}
		present = true
		isInt = isInt && isPyInt(s)
		if isFloat && !isInt {
			_, isFloat = pyFloatOf(s)
		}
		isBool = isBool && (strings.EqualFold(s, "true") || strings.EqualFold(s, "false"))
		if !isFloat && !isBool {
			return pyStr
		}
	}
	switch {
	case isInt && !missing:
		return pyInt
	case isFloat:
		return pyFloat
	case isBool && present:
		return pyBool
	}
	return pyStr
}

func isPyInt(s string) bool {
	s = strings.Trim(s, " \t")
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// pyFloatOf reads a number as the scorer's libraries do: what is too large is infinite.
func pyFloatOf(s string) (float64, bool) {
	s = strings.Trim(s, " \t")
	if s == "" || strings.ContainsAny(s, "_xXpP") || strings.EqualFold(strings.TrimLeft(s, "+-"), "nan") {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}

// value is a field of a column, of a number with what str returns if that is asked for.
func (f *frame) value(row, i int, written bool) py {
	s := f.rows[row][f.columns[i]]
	if isNA(s) {
		return py{}
	}
	switch f.kinds[i] {
	case pyInt, pyFloat:
		v, _ := pyFloatOf(s)
		out := py{kind: pyFloat, number: v}
		isInt := f.kinds[i] == pyInt && !f.floats
		if isInt {
			out.kind = pyInt
		}
		switch {
		case written && isInt:
			n, _ := strconv.ParseInt(strings.Trim(s, " \t"), 10, 64)
			out.text = strconv.FormatInt(n, 10)
		case written:
			out.text = floatText(v)
		}
		return out
	case pyBool:
		return pyTruth(strings.EqualFold(s, "true"))
	}
	return py{pyStr, 0, s}
}

func pyTruth(v bool) py {
	if v {
		return py{pyBool, 1, "True"}
	}
	return py{pyBool, 0, "False"}
}

// floatText is what Python's str returns of a float.
func floatText(v float64) string {
	const least, most = 1e-4, 1e16
	switch a := math.Abs(v); {
	case math.IsInf(a, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(v, 'g', -1, 64)), "+")
	case a != 0 && (a < least || a >= most):
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// vector is a column in the two forms in which it is compared: either must be equal.
type vector struct {
	column   int
	infinite bool
	plain    []py // numbers within the tolerance
	rounded  []py // numbers rounded to multiples of it
}

func (f *frame) vector(i int, sorted bool) vector {
	v := vector{column: f.columns[i], plain: make([]py, len(f.rows)), rounded: make([]py, len(f.rows))}
	for row := range f.rows {
		x := f.value(row, i, sorted)
		v.plain[row], v.rounded[row] = x, x
		switch x.kind {
		case pyFloat:
			if math.IsInf(x.number, 0) {
				v.infinite = true
				return v
			}
			r := math.RoundToEven(x.number/dacodeTolerance) * dacodeTolerance
			v.rounded[row] = py{kind: pyFloat, number: r}
			if sorted {
				v.rounded[row].text = floatText(r)
			}
		case pyStr:
			v.rounded[row].text = strings.ToLower(textmatch.Strip(x.text))
		}
	}
	if sorted {
		sortPy(v.plain, false)
		sortPy(v.rounded, true)
	}
	return v
}

// sortPy sorts by what str returns, with what is missing at one end.
func sortPy(list []py, missingLast bool) {
	slices.SortStableFunc(list, func(a, b py) int {
		if (a.kind == pyNone) != (b.kind == pyNone) {
			if (a.kind == pyNone) == missingLast {
				return 1
			}
			return -1
		}
		return strings.Compare(a.text, b.text)
	})
}

func (v vector) equal(w vector) bool {
	if len(v.plain) != len(w.plain) {
		return false
	}
	return equalPy(v.rounded, w.rounded, func(a, b float64) bool { return a == b }) || equalPy(v.plain, w.plain, closePy)
}

func equalPy(a, b []py, same func(a, b float64) bool) bool {
	for i := range a {
		if !a[i].equal(b[i], same) {
			return false
		}
	}
	return true
}

func (p py) isNumber() bool { return p.kind == pyInt || p.kind == pyFloat || p.kind == pyBool }

func (p py) equal(q py, same func(a, b float64) bool) bool {
	switch {
	case p.isNumber() && q.isNumber():
		return same(p.number, q.number)
	case p.kind != q.kind:
		return false
	case p.kind == pyStr:
		return equalPyText(p.text, q.text)
	}
	return p.kind == pyNone
}

func equalPyText(a, b string) bool {
	return a == b || strings.ToLower(textmatch.Strip(a)) == strings.ToLower(textmatch.Strip(b)) //nolint:staticcheck // as the scorer does: EqualFold finds more equal
}

// closePy is Python's math.isclose with the scorer's tolerance.
func closePy(a, b float64) bool {
	if a == b {
		return true
	}
	d := math.Abs(a - b)
	return d <= dacodeRelative*math.Abs(a) || d <= dacodeRelative*math.Abs(b) || d <= dacodeTolerance
}
