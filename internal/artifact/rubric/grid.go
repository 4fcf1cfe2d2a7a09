package rubric

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/family/textmatch"
)

// grid is a table with named columns, whose values are read where they lie.
type grid struct {
	columns []string
	rows    int // without the header
	at      func(row, column int) scalar
	sheet   *artifact.Sheet // that it is, nil for a CSV file
	left    int             // its first column on the sheet
}

var errNoTable = errors.New("it is no table")

// gridOf is the table of a file: of a CSV file, or of a sheet. Without a name, it is the
// only sheet of the workbook that has cells and is not hidden.
func gridOf(f *artifact.File, sheet string) (grid, error) {
	switch {
	case f.Table != nil && len(f.Table.Rows) > 0:
		rows := f.Table.Rows
		return grid{columns: rows[0], rows: len(rows) - 1, at: func(row, column int) scalar {
			if r := rows[row+1]; column < len(r) {
				return ofText(r[column])
			}
			return scalar{}
		}}, nil
	case f.Table != nil:
		return grid{}, errors.New("it is empty")
	case f.Workbook == nil:
		return grid{}, errNoTable
	}
	s, err := sheetOf(f.Workbook, sheet)
	if err != nil {
		return grid{}, err
	}
	return gridOfSheet(s)
}

// sheetOf finds a sheet by its name, whatever its case: workbooks have no two that differ
// in that alone.
func sheetOf(w *artifact.Workbook, name string) (*artifact.Sheet, error) {
	if name != "" {
		i := slices.IndexFunc(w.Sheets, func(s artifact.Sheet) bool { return strings.EqualFold(s.Name, name) })
		if i < 0 {
			return nil, fmt.Errorf("it has no sheet %s", shown(name))
		}
		return &w.Sheets[i], nil
	}
	var only *artifact.Sheet
	for i := range w.Sheets {
		s := &w.Sheets[i]
		switch {
		case s.Hidden || !slices.ContainsFunc(s.Cells, isFilled):
		case only != nil:
			return nil, errors.New("it has several sheets, and the rubric names none")
		default:
			only = s
		}
	}
	if only == nil {
		return nil, errors.New("it has no sheet with cells")
	}
	return only, nil
}

// isFilled reports whether a cell has a formula or a value that is not nothing.
func isFilled(c artifact.Cell) bool {
	return c.Formula != "" || c.Value.Kind != artifact.Empty && (c.Value.Kind != artifact.String || c.Value.Text != "")
}

// gridOfSheet is a sheet as a table: its first row that is not blank is the header.
func gridOfSheet(s *artifact.Sheet) (grid, error) {
	header := slices.IndexFunc(s.Cells, isFilled)
	if header < 0 {
		return grid{}, errors.New("its sheet is empty")
	}
	top := s.Cells[header].Row
	left, right, bottom := s.Cells[header].Column, 0, top
	for _, c := range s.Cells[header:] {
		if isFilled(c) {
			left, right, bottom = min(left, c.Column), max(right, c.Column), max(bottom, c.Row)
		}
	}
	find := func(row, column int) scalar {
		i, ok := slices.BinarySearchFunc(s.Cells, artifact.Cell{Row: row, Column: column}, artifact.ByPlace)
		if !ok {
			return scalar{}
		}
		return ofValue(s.Cells[i].Value)
	}
	g := grid{columns: make([]string, right-left+1), rows: bottom - top, sheet: s, left: left}
	for i := range g.columns {
		g.columns[i] = find(top, left+i).text
	}
	g.at = func(row, column int) scalar { return find(top+1+row, left+column) }
	return g, nil
}

// named is the form in which names of columns are compared.
func named(s string) string { return textmatch.Lower(textmatch.Collapse(s)) }

// places are where each name of a column stands, in order.
func (g grid) places() map[string][]int {
	out := make(map[string][]int, len(g.columns))
	for i, c := range g.columns {
		out[named(c)] = append(out[named(c)], i)
	}
	return out
}
