package reader

import (
	"cmp"
	"strconv"
	"strings"

	"securebench/internal/artifact"
)

// readExtras reads what lies in other parts than the sheet's: charts and pivot tables.
func (b *book) readExtras(s *sheet) error {
	for _, name := range allRelated(s.relations, "drawing") {
		relations, err := b.relations(name)
		if err != nil {
			return err
		}
		for _, chart := range allRelated(relations, "chart") {
			root, err := b.tree(chart)
			if err != nil {
				return err
			}
			s.Charts = append(s.Charts, b.chart(root.child("chart")))
		}
	}
	for _, name := range allRelated(s.relations, "pivotTable") {
		if err := b.readPivot(s, name); err != nil {
			return err
		}
	}
	return nil
}

// chart reads a chart. What it has stored of the cells' values is not looked at.
func (b *book) chart(n *node) artifact.Chart {
	c := artifact.Chart{Title: b.chartText(n.child("title", "tx")), Legend: n.child("legend") != nil}
	var kinds []string
	area := n.child("plotArea")
	if area == nil {
		return c
	}
	for _, plot := range area.nodes {
		kind, ok := strings.CutSuffix(plot.name, "Chart")
		if !ok {
			continue
		}
		kinds = append(kinds, chartType(kind, plot))
		for _, s := range plot.all("ser") {
			c.Series = append(c.Series, artifact.Series{
				Name:       cmp.Or(chartRange(s.child("tx")), string(s.child("tx").child("v").content())),
				Categories: cmp.Or(chartRange(s.child("cat")), chartRange(s.child("xVal"))),
				Values:     cmp.Or(chartRange(s.child("val")), chartRange(s.child("yVal"))),
			})
		}
	}
	c.Type = strings.Join(kinds, "+")
	return c
}

// chartType names what a chart draws: bars that stand are columns.
func chartType(kind string, plot *node) string {
	kind, solid := strings.CutSuffix(kind, "3D")
	if kind == "bar" && plot.child("barDir").attr("val") != "bar" {
		kind = "column"
	}
	if solid {
		kind += "_3d"
	}
	switch plot.child("grouping").attr("val") {
	case "stacked":
		kind += "_stacked"
	case "percentStacked":
		kind += "_percent"
	}
	return kind
}

// chartRange returns the range that an element refers to.
func chartRange(n *node) string {
	if n != nil {
		for _, c := range n.nodes {
			if f := c.child("f"); f != nil {
				return plainReference(string(f.text))
			}
		}
	}
	return ""
}

// plainReference returns a reference without signs and quotes, but with the case of its
// sheet's name.
func plainReference(s string) string {
	i := strings.LastIndexByte(s, '!')
	if i < 0 {
		return strings.ReplaceAll(s, "$", "")
	}
	name := s[:i]
	if inner, ok := strings.CutPrefix(name, "'"); ok {
		name = strings.ReplaceAll(strings.TrimSuffix(inner, "'"), "''", "'")
	}
	return name + "!" + plainRange(s[i+1:])
}

// chartText returns a title: its own text, or that of the cell that it refers to.
func (b *book) chartText(n *node) string {
	if rich := n.child("rich"); rich != nil {
		return strings.Join(drawingText(rich), "\n")
	}
	name, cell, _ := strings.Cut(chartRange(n), "!")
	column, row, ok := parseCell(cell)
	if !ok {
		return ""
	}
	for _, s := range b.sheets {
		if !strings.EqualFold(s.Name, name) {
			continue
		}
		if c := s.cell(row, column); c != nil {
			if c.Value.Kind == artifact.Number {
				return strconv.FormatFloat(c.Value.Number, 'g', -1, 64)
			}
			return c.Value.Text
		}
	}
	return ""
}

// drawingText returns the paragraphs of a text in a drawing.
func drawingText(n *node) []string {
	var lines []string
	for _, p := range n.all("p") {
		var line strings.Builder
		for _, r := range p.nodes {
			switch r.name {
			case "r", "fld":
				line.Write(r.child("t").content())
			case "br":
				line.WriteByte('\n')
			}
		}
		lines = append(lines, line.String())
	}
	return lines
}

// readPivot reads a pivot table, whose fields are named by the cache that it reads.
func (b *book) readPivot(s *sheet, name string) error {
	root, err := b.tree(name)
	if err != nil {
		return err
	}
	relations, err := b.relations(name)
	if err != nil {
		return err
	}
	cache, err := b.tree(related(relations, "pivotCacheDefinition"))
	if err != nil {
		return err
	}
	var fields []string
	for _, f := range cache.child("cacheFields").all("cacheField") {
		fields = append(fields, f.attr("name"))
	}
	field := func(n *node, attr string) string {
		if i, err := strconv.Atoi(n.attr(attr)); err == nil && i >= 0 && i < len(fields) {
			return fields[i]
		}
		return ""
	}
	p := artifact.Pivot{Name: root.attr("name")}
	source := cache.child("cacheSource", "worksheetSource")
	if p.Source = source.attr("name"); p.Source == "" && source != nil {
		p.Source = plainReference(source.attr("sheet") + "!" + source.attr("ref"))
	}
	// The field -2 stands for the values.
	for _, n := range root.child("rowFields").all("field") {
		if n.attr("x") != "-2" {
			p.Rows = append(p.Rows, field(n, "x"))
		}
	}
	for _, n := range root.child("colFields").all("field") {
		if n.attr("x") != "-2" {
			p.Columns = append(p.Columns, field(n, "x"))
		}
	}
	for _, n := range root.child("pageFields").all("pageField") {
		p.Filters = append(p.Filters, field(n, "fld"))
	}
	for _, n := range root.child("dataFields").all("dataField") {
		p.Values = append(p.Values, artifact.PivotValue{Field: field(n, "fld"), Summary: cmp.Or(n.attr("subtotal"), "sum")})
	}
	s.Pivots = append(s.Pivots, p)
	return nil
}
