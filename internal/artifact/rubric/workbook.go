package rubric

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/source"
)

// workbookRule compares what sheets have beside cells.
type workbookRule struct {
	sheet                      string // "" for all of the reference
	charts, pivots, conditions []string
	filters, frozen, sheets    bool
}

func readWorkbook(n *source.Node) (rule, source.Problems) {
	r := &workbookRule{}
	var ps source.Problems
	ps.Closed(n, "a rubric of type workbook", "type", "sheet", "charts", "pivot_tables", "conditional_formats", "filters", "frozen", "sheets")
	source.Optional(&ps, n, "sheet", &r.sheet, (*source.Node).Str)
	source.Optional(&ps, n, "charts", &r.charts, allOr(namesOf(chartParts())))
	source.Optional(&ps, n, "pivot_tables", &r.pivots, allOr(namesOf(pivotParts())))
	source.Optional(&ps, n, "conditional_formats", &r.conditions, allOr(namesOf(conditionParts())))
	source.Optional(&ps, n, "filters", &r.filters, (*source.Node).Boolean)
	source.Optional(&ps, n, "frozen", &r.frozen, (*source.Node).Boolean)
	source.Optional(&ps, n, "sheets", &r.sheets, (*source.Node).Boolean)
	if len(ps) == 0 && r.charts == nil && r.pivots == nil && r.conditions == nil && !r.filters && !r.frozen && !r.sheets {
		ps.Add(n.Pos, "such as charts: true", "a rubric of type workbook compares nothing")
	}
	return r, ps
}

// allOr reads true for all words, or a list of some.
func allOr(words []string) func(n *source.Node, what string) ([]string, *source.Problem) {
	return func(n *source.Node, what string) ([]string, *source.Problem) {
		switch {
		case n.Kind != source.Bool:
			return some(words...)(n, what)
		case n.Text == "true":
			return words, nil
		}
		return nil, nil
	}
}

// aspect is one thing that something is compared by.
type aspect[T any] struct {
	name string
	of   func(v *T) string
}

func namesOf[T any](aspects []aspect[T]) []string {
	out := make([]string, len(aspects))
	for i, a := range aspects {
		out[i] = a.name
	}
	return out
}

func chartParts() []aspect[artifact.Chart] {
	return []aspect[artifact.Chart]{
		{"type", func(c *artifact.Chart) string { return strings.ToLower(c.Type) }},
		{"title", func(c *artifact.Chart) string { return c.Title }},
		{"series", func(c *artifact.Chart) string {
			out := make([]string, len(c.Series))
			for i, s := range c.Series {
				out[i] = fmt.Sprintf("%q of %q by %q", rangeForm(s.Name), rangeForm(s.Values), rangeForm(s.Categories))
			}
			return strings.Join(slices.Sorted(slices.Values(out)), ", ")
		}},
		{"legend", func(c *artifact.Chart) string { return fmt.Sprint(c.Legend) }},
	}
}

func pivotParts() []aspect[artifact.Pivot] {
	list := func(names []string) string { return fmt.Sprintf("%q", names) }
	return []aspect[artifact.Pivot]{
		{"name", func(p *artifact.Pivot) string { return p.Name }},
		{"source", func(p *artifact.Pivot) string { return rangeForm(p.Source) }},
		{"rows", func(p *artifact.Pivot) string { return list(p.Rows) }},
		{"columns", func(p *artifact.Pivot) string { return list(p.Columns) }},
		{"filters", func(p *artifact.Pivot) string { return list(slices.Sorted(slices.Values(p.Filters))) }},
		{"values", func(p *artifact.Pivot) string {
			out := make([]string, len(p.Values))
			for i, v := range p.Values {
				out[i] = fmt.Sprintf("%q by %q", v.Field, v.Summary)
			}
			return strings.Join(slices.Sorted(slices.Values(out)), ", ")
		}},
	}
}

func conditionParts() []aspect[artifact.Condition] {
	return []aspect[artifact.Condition]{
		{"range", func(c *artifact.Condition) string { return rangeForm(c.Range) }},
		{"type", func(c *artifact.Condition) string { return c.Type }},
		{"operator", func(c *artifact.Condition) string { return c.Operator }},
		{"formulas", func(c *artifact.Condition) string {
			out := make([]string, len(c.Formulas))
			for i, f := range c.Formulas {
				out[i] = formulaForm(f)
			}
			return fmt.Sprintf("%q", out)
		}},
		{"format", func(c *artifact.Condition) string {
			var out []string
			for _, f := range cellFormats() {
				if slices.Contains([]string{"bold", "italic", "underline", "color", "fill"}, f.name) {
					out = append(out, f.name+" "+f.of(c.Format))
				}
			}
			return strings.Join(out, ", ")
		}},
	}
}

// rangeForm is a range in the form in which ranges are compared.
func rangeForm(s string) string {
	return strings.ToUpper(bareRange.Replace(strings.TrimPrefix(s, "=")))
}

// bareRange removes signs for absolute cells, quotes and blanks.
var bareRange = strings.NewReplacer("$", "", "'", "", " ", "") //nolint:gochecknoglobals // a constant

func (r *workbookRule) official() string { return "" }

func (r *workbookRule) compare(got, want *artifact.File) (Result, error) {
	if want.Workbook == nil {
		return Result{}, errors.New("the reference is no workbook to compare with")
	}
	if got.Workbook == nil {
		return fail("the file is no workbook"), nil
	}
	var d differences
	if r.sheets {
		if a, b := sheetNames(got.Workbook), sheetNames(want.Workbook); !slices.Equal(a, b) {
			d.add("its sheets are %s, not %s", shown(strings.Join(a, ", ")), shown(strings.Join(b, ", ")))
		}
	}
	names := []string{r.sheet}
	if r.sheet == "" {
		names = nil
		for _, s := range want.Workbook.Sheets {
			names = append(names, s.Name)
		}
	}
	for _, name := range names {
		g, w, res, err := sheetPair(got, want, name)
		switch {
		case err != nil:
			return Result{}, err
		case g == nil && (r.sheet != "" || r.counted(w) > 0):
			d.add("%s", res.Differences[0])
		case g != nil:
			r.sheetsDiffer(g, w, &d)
		}
	}
	return d.result(), nil
}

// sheetNames are the names of sheets, in order, and which are hidden.
func sheetNames(w *artifact.Workbook) (out []string) {
	for _, s := range w.Sheets {
		name := s.Name
		if s.Hidden {
			name += " (hidden)"
		}
		out = append(out, name)
	}
	return out
}

// sheetsDiffer adds how two sheets differ.
func (r *workbookRule) sheetsDiffer(got, want *artifact.Sheet, d *differences) {
	at := "sheet " + shown(want.Name) + ": "
	compareAll(d, at+"chart", got.Charts, want.Charts, chartParts(), r.charts)
	compareAll(d, at+"pivot table", got.Pivots, want.Pivots, pivotParts(), r.pivots)
	compareAll(d, at+"conditional format", got.Conditions, want.Conditions, conditionParts(), r.conditions)
	if a, b := rangeForm(got.Filter), rangeForm(want.Filter); r.filters && a != b {
		d.add("%sits filter is of %s, not %s", at, shown(a), shown(b))
	}
	if a, b := rangeForm(got.Freeze), rangeForm(want.Freeze); r.frozen && a != b {
		d.add("%swhat scrolls begins at %s, not %s", at, shown(a), shown(b))
	}
}

// compareAll compares things in any order by some aspects, each with another.
func compareAll[T any](d *differences, what string, got, want []T, aspects []aspect[T], names []string) {
	if names == nil {
		return
	}
	say := func(v *T) string {
		var parts []string
		for _, a := range aspects {
			if slices.Contains(names, a.name) {
				parts = append(parts, a.name+" "+a.of(v))
			}
		}
		return strings.Join(parts, "; ")
	}
	counts := map[string]int{}
	for i := range got {
		counts[say(&got[i])]++
	}
	for i := range want {
		counts[say(&want[i])]--
	}
	for _, text := range slices.Sorted(maps.Keys(counts)) {
		switch n := counts[text]; {
		case n > 0:
			d.add("%s is not wanted: %s", what, longer(text))
		case n < 0:
			d.add("%s is missing: %s", what, longer(text))
		}
	}
}

// counted is how many of the things that are compared a sheet has.
func (r *workbookRule) counted(s *artifact.Sheet) (n int) {
	if r.charts != nil {
		n += len(s.Charts)
	}
	if r.pivots != nil {
		n += len(s.Pivots)
	}
	if r.conditions != nil {
		n += len(s.Conditions)
	}
	if r.filters && s.Filter != "" {
		n++
	}
	if r.frozen && s.Freeze != "" {
		n++
	}
	return n
}

func (r *workbookRule) check(want *artifact.File) []string {
	if _, err := r.compare(want, want); err != nil {
		return []string{err.Error()}
	}
	n := 0
	for i := range want.Workbook.Sheets {
		if s := &want.Workbook.Sheets[i]; r.sheet == "" || strings.EqualFold(s.Name, r.sheet) {
			n += r.counted(s)
		}
	}
	if n == 0 && !r.sheets {
		return []string{"the reference has nothing of what the rubric compares: a workbook without it would pass"}
	}
	return nil
}
