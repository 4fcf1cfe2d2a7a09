package rubric

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/source"
)

// cellsRule compares the cells of ranges, or of a whole sheet.
type cellsRule struct {
	sheet   string
	areas   []area // none: all cells that either sheet has
	what    string
	formats []string
	leniency
}

// defaultTolerance is how far numbers of cells may be apart unless a rubric says otherwise.
const defaultTolerance = 0.005

// What of cells is compared.
const (
	byValue   = "value"
	byFormula = "formula"
	byBoth    = "both"
	byFormat  = "format"
)

func readCells(n *source.Node) (rule, source.Problems) {
	if n.Get("match") != nil {
		return readSpreadsheetBench(n)
	}
	r := &cellsRule{what: byValue}
	var ps source.Problems
	ps.Closed(n, "a rubric of type cells", leniencyKeys("type", "sheet", "range", "compare", "formats", "match")...)
	source.Optional(&ps, n, "sheet", &r.sheet, (*source.Node).Str)
	source.Optional(&ps, n, "range", &r.areas, areas)
	source.Optional(&ps, n, "compare", &r.what, one(byValue, byFormula, byBoth, byFormat))
	source.Optional(&ps, n, "formats", &r.formats, some(formatNames()...))
	r.read(&ps, n, "")
	if r.tolerance == nil && r.relative == nil {
		tolerance := defaultTolerance
		r.tolerance = &tolerance
	}
	if r.formats != nil && r.what != byFormat {
		ps.Add(n.Pos, "add compare: format", "a rubric of type cells has formats")
	}
	return r, ps
}

// some reads a list of some of the words, each once.
func some(words ...string) func(n *source.Node, what string) ([]string, *source.Problem) {
	return func(n *source.Node, what string) ([]string, *source.Problem) {
		out, p := texts(n, what)
		for i, w := range out {
			if !slices.Contains(words, w) || slices.Contains(out[:i], w) {
				return nil, &source.Problem{Pos: n.Pos, Message: fmt.Sprintf("%s has %s, or has it twice", what, shown(w)), Fix: "known: " + strings.Join(words, ", ")}
			}
		}
		return out, p
	}
}

func (r *cellsRule) official() string { return "" }

// has reports whether a cell is compared.
func (r *cellsRule) has(row, column int) bool {
	return len(r.areas) == 0 || slices.ContainsFunc(r.areas, func(a area) bool { return a.has(row, column) })
}

// sheetPair finds a sheet of both workbooks. What the candidate lacks is in the result.
func sheetPair(got, want *artifact.File, name string) (g, w *artifact.Sheet, res Result, err error) {
	if want.Workbook == nil {
		return nil, nil, res, errors.New("the reference is no workbook to compare with")
	}
	if w, err = sheetOf(want.Workbook, name); err != nil {
		return nil, nil, res, fmt.Errorf("the reference cannot be compared with: %w", err)
	}
	if got.Workbook == nil {
		return nil, w, fail("the file is no workbook"), nil
	}
	if g, err = sheetOf(got.Workbook, name); err != nil {
		return nil, w, fail("the file cannot be compared: %v", err), nil
	}
	if g.Hidden && !w.Hidden {
		return nil, w, fail("sheet %s is hidden", shown(g.Name)), nil
	}
	return g, w, Result{Pass: true}, nil
}

func (r *cellsRule) compare(got, want *artifact.File) (Result, error) {
	g, w, res, err := sheetPair(got, want, r.sheet)
	if err != nil || g == nil {
		return res, err
	}
	if r.what != byFormat {
		if res, ok := doubt(g, w, r.has); ok {
			return res, nil
		}
	}
	var d differences
	eachCell(g, w, r.has, func(row, column int, a, b *artifact.Cell) bool {
		if problem := r.differ(a, b); problem != "" {
			return d.add("cell %s: %s", artifact.CellName(row, column), problem)
		}
		return true
	})
	return d.result(), nil
}

// eachCell calls do with all cells that either sheet has, by row, then by column. One that
// is missing is empty.
func eachCell(got, want *artifact.Sheet, has func(row, column int) bool, do func(row, column int, got, want *artifact.Cell) bool) {
	var none artifact.Cell
	for g, w := got.Cells, want.Cells; len(g) > 0 || len(w) > 0; {
		a, b := &none, &none
		var order int
		switch {
		case len(g) == 0:
			order = 1
		case len(w) == 0:
			order = -1
		default:
			order = artifact.ByPlace(g[0], w[0])
		}
		if order <= 0 {
			a, g = &g[0], g[1:]
		}
		if order >= 0 {
			b, w = &w[0], w[1:]
		}
		row, column := max(a.Row, b.Row), max(a.Column, b.Column)
		if has(row, column) && !do(row, column, a, b) {
			return
		}
	}
}

// differ says how two cells differ, "" if they do not.
func (r *cellsRule) differ(got, want *artifact.Cell) string {
	if r.what == byFormat {
		return formatsDiffer(got.Format, want.Format, r.formats)
	}
	if a, b := formulaForm(got.Formula), formulaForm(want.Formula); a != b && (r.what != byValue || want.Uncomputed && want.Stored == nil) {
		return fmt.Sprintf("its formula is %s, not %s", shown(got.Formula), shown(want.Formula))
	}
	if r.what == byFormula && want.Formula != "" || want.Uncomputed && want.Stored == nil {
		return ""
	}
	a, b := ofValue(got.Value), ofValue(want.Value)
	if !r.same(a, b) {
		return fmt.Sprintf("%s is not %s", a, b)
	}
	return ""
}

// aSecond is a second in days.
const aSecond = 1.0 / (24 * 60 * 60)

// same reports whether values are equal: dates by their day, times of a day by the second.
func (r *cellsRule) same(got, want scalar) bool {
	if got.kind != date || want.kind != date {
		return r.equal(got, want)
	}
	if got.number < 1 && want.number < 1 {
		return math.Abs(got.number-want.number) < aSecond
	}
	return math.Floor(got.number) == math.Floor(want.number)
}

// formulaForm is a formula in the form in which formulas are compared: without blanks
// and in capitals, but for what stands in quotes, and without the prefixes that files have
// before the names of newer functions.
func formulaForm(s string) string {
	if s == "" {
		return ""
	}
	var b strings.Builder
	var quote rune
	for _, c := range s {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == ' ' || c == '\n' || c == '\r' || c == '\t':
			continue
		case c >= 'a' && c <= 'z':
			c -= 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return newerFunctions.Replace(b.String())
}

// newerFunctions removes the prefixes that files have before the names of newer functions.
var newerFunctions = strings.NewReplacer("_XLFN.", "", "_XLWS.", "") //nolint:gochecknoglobals // a constant

// format is one thing that a cell looks like.
type format struct {
	name string
	of   func(f artifact.Format) string
}

// cellFormats are what formats of cells are compared by.
func cellFormats() []format {
	yes := func(v bool) string {
		if v {
			return "on"
		}
		return "off"
	}
	or := func(s, plain string) string {
		if s == "" {
			return plain
		}
		return s
	}
	return []format{
		{"number", func(f artifact.Format) string { return or(f.Number, "General") }},
		{"bold", func(f artifact.Format) string { return yes(f.Bold) }},
		{"italic", func(f artifact.Format) string { return yes(f.Italic) }},
		{"underline", func(f artifact.Format) string { return yes(f.Underline) }},
		{"font", func(f artifact.Format) string { return f.Font }},
		{"size", func(f artifact.Format) string { return floatText(f.Size) }},
		{"color", func(f artifact.Format) string { return or(strings.ToUpper(f.Color), "000000") }},
		{"fill", func(f artifact.Format) string { return or(strings.ToUpper(f.Fill), "none") }},
		{"link", func(f artifact.Format) string { return f.Link }},
	}
}

func formatNames() (names []string) {
	for _, f := range cellFormats() {
		names = append(names, f.name)
	}
	return names
}

// formatsDiffer says how formats differ in what is compared, or in anything.
func formatsDiffer(got, want artifact.Format, names []string) string {
	for _, f := range cellFormats() {
		if names != nil && !slices.Contains(names, f.name) {
			continue
		}
		if a, b := f.of(got), f.of(want); a != b {
			return fmt.Sprintf("its %s is %s, not %s", f.name, shown(a), shown(b))
		}
	}
	return ""
}

func (r *cellsRule) check(want *artifact.File) (faults []string) {
	_, w, _, err := sheetPair(want, want, r.sheet)
	if err != nil {
		return []string{err.Error()}
	}
	for _, a := range r.areas {
		if !slices.ContainsFunc(w.Cells, func(c artifact.Cell) bool {
			return a.has(c.Row, c.Column) && (r.what == byFormat || isFilled(c))
		}) {
			faults = append(faults, fmt.Sprintf("range names %s, where the reference has nothing", shown(a.name)))
		}
	}
	if len(r.areas) == 0 && len(w.Cells) == 0 {
		faults = append(faults, "the reference's sheet is empty")
	}
	return faults
}
