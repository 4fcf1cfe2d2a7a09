package rubric

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/family/textmatch"
	"securebench/internal/source"
)

const spreadsheetBench = "spreadsheetbench"

// spreadsheetBenchRule is the comparison of SpreadsheetBench: what is stored beside a
// formula counts, and a formula without a stored value counts as empty.
type spreadsheetBenchRule struct {
	sheet string
	areas []area
}

func readSpreadsheetBench(n *source.Node) (rule, source.Problems) {
	r := &spreadsheetBenchRule{}
	var ps source.Problems
	var match, compare string
	ps.Closed(n, "a rubric of type cells with match", "type", "match", "sheet", "range", "compare")
	source.Optional(&ps, n, "match", &match, one(spreadsheetBench))
	source.Optional(&ps, n, "compare", &compare, one(byValue))
	source.Optional(&ps, n, "sheet", &r.sheet, (*source.Node).Str)
	source.Optional(&ps, n, "range", &r.areas, areas)
	if len(ps) == 0 && len(r.areas) == 0 {
		ps.Add(n.Pos, "", "a rubric of type cells with match needs a range")
	}
	return r, ps
}

func (r *spreadsheetBenchRule) official() string { return spreadsheetBench }

func (r *spreadsheetBenchRule) check(want *artifact.File) []string {
	name := r.sheet
	if want.Workbook != nil && len(want.Workbook.Sheets) > 0 {
		name = r.sheetIn(want.Workbook)
	}
	return (&cellsRule{sheet: name, areas: r.areas, what: byValue}).check(want)
}

// sheetIn is the name of the sheet that is compared: the first one unless the rubric says.
func (r *spreadsheetBenchRule) sheetIn(reference *artifact.Workbook) string {
	return cmp.Or(r.sheet, reference.Sheets[0].Name)
}

func (r *spreadsheetBenchRule) compare(got, want *artifact.File) (Result, error) {
	if want.Workbook == nil || len(want.Workbook.Sheets) == 0 {
		return Result{}, errors.New("the reference is no workbook to compare with")
	}
	name := r.sheetIn(want.Workbook)
	named := func(s artifact.Sheet) bool { return s.Name == name }
	w := slices.IndexFunc(want.Workbook.Sheets, named)
	if w < 0 {
		return Result{}, fmt.Errorf("the reference has no sheet %s", shown(name))
	}
	if got.Workbook == nil {
		return fail("the file is no workbook"), nil
	}
	g := slices.IndexFunc(got.Workbook.Sheets, named)
	if g < 0 {
		return fail("it has no sheet %s", shown(name)), nil
	}
	has := func(row, column int) bool {
		return slices.ContainsFunc(r.areas, func(a area) bool { return a.has(row, column) })
	}
	var d differences
	eachCell(&got.Workbook.Sheets[g], &want.Workbook.Sheets[w], has, func(row, column int, a, b *artifact.Cell) bool {
		if x, y := storedForm(a), storedForm(b); x.kind != y.kind || x.text != y.text || x.void {
			return d.add("cell %s: %s is not %s", artifact.CellName(row, column), shown(x.text), shown(y.text))
		}
		return true
	})
	return d.result(), nil
}

// form is a value as the scorer compares it.
type form struct {
	kind kind
	text string
	void bool // not equal to itself
}

// storedForm is what a cell has without a calculation: numbers with two decimals, also of
// truths and of texts that are numbers, and dates as whole days.
func storedForm(c *artifact.Cell) form {
	v := c.Value
	if c.Formula != "" {
		if c.Stored == nil {
			return form{}
		}
		v = *c.Stored
	}
	switch v.Kind {
	case artifact.Number, artifact.Bool:
		return twoDecimals(v.Number)
	case artifact.Date:
		if v.Number >= 0 && v.Number < 1 {
			return form{kind: text, text: minutes(v.Number)}
		}
		return twoDecimals(math.RoundToEven(v.Number))
	case artifact.Failed:
		return form{kind: text, text: v.Text}
	case artifact.String:
		s := strings.ReplaceAll(textmatch.Strip(v.Text), "_", "")
		if n, ok := pyFloatOf(s); ok {
			return twoDecimals(n)
		}
		if strings.EqualFold(strings.TrimLeft(s, "+-"), "nan") {
			return form{kind: number, void: true}
		}
		if v.Text == "" {
			return form{}
		}
		return form{kind: text, text: v.Text}
	}
	return form{}
}

func twoDecimals(v float64) form {
	if math.IsNaN(v) {
		return form{kind: number, void: true}
	}
	s := strconv.FormatFloat(v, 'f', 2, 64)
	if s == "-0.00" {
		s = "0.00"
	}
	return form{kind: number, text: s}
}

// minutes is a time of a day without its seconds, as hours and minutes.
func minutes(day float64) string {
	const sixty, hours = 60, 24
	m := int(math.Round(day/aSecond)) / sixty % (hours * sixty)
	return fmt.Sprintf("%02d:%02d", m/sixty, m%sixty)
}
