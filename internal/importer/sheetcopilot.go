package importer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

func sheetCopilot() dataset {
	return dataset{
		format:  SheetCopilot,
		family:  deliverableFamily,
		convert: convertSheetCopilot,
		rows:    sheetCopilotRows,
		folder:  func(input string) string { return beside(input, "task_sheets", "dataset") },
		image:   officeImage,
		checked: true,
		licence: `These rows and workbooks are under the GNU General Public License, version 3
(GPL-3.0): https://www.gnu.org/licenses/gpl-3.0.txt. Whoever passes this pack on must follow
it.
`,
		about: `# SheetCopilot

Rows of SheetCopilot, from the repository BraveGroup/SheetCopilot (dataset). Hongxin Li and
others, "SheetCopilot: Bringing Software Productivity to the Next Level through Large
Language Models" (2023), https://arxiv.org/abs/2305.19308

Licence: GPL-3.0 (LICENSE).
`,
		changes: "- A row is the context, the instructions and the workbook, which is changed in place. Where the expected workbooks have a sheet more, the row says what to call it.\n" +
			"- Any of the workbooks that the data set has for a row is right. Of the sheets that its `check_board` names, all cells in use are compared; the data set's scorer stops at the first row or column that is empty.\n" +
			"- Formats of cells are compared where the values alone would accept the workbook unchanged; the data set's scorer leaves them out.\n" +
			"- Of charts, type, title, legend and series are compared; of pivot tables and conditional formats all that `check_board` names, where the data set's scorer counts the fields. Axes and trend lines are not compared.\n" +
			"- Rows whose workbooks are compared in different ways, or not at all, are left out with the reason.\n",
	}
}

var sheetCopilotID = lazyregexp.New(`^[0-9]+_[A-Za-z0-9]+$`)

func convertSheetCopilot(o *object, c converter) row {
	o.only("id", "source", "context", "instructions", "categories", "golds", "check_board", "checked")
	id, golds := o.text("id"), o.texts("golds")
	r := row{ID: "sheetcopilot/" + id, Metadata: map[string]any{"dataset": "SheetCopilot", "categories": o.anyText("categories")}}
	from, board := o.text("source"), o.get("check_board")
	context, instructions := o.text("context"), o.text("instructions")
	if len(o.problems) == 0 && !sheetCopilotID.MatchString(id) {
		o.fail(o.node.Get("id"), "id must be NUMBER_NAME")
	}
	if slices.ContainsFunc(golds, func(gold string) bool { return gold != path.Base(gold) || gold == ".." || gold == "." || gold == "/" }) {
		o.fail(o.node.Get("golds"), "golds must be names of workbooks, without folders")
	}
	if len(o.problems) > 0 {
		return r
	}
	name := path.Base(from)
	s := copilotRow{id: id, board: board, golds: golds, materials: c.files}
	why := cmp.Or(c.files.file(from, path.Join("assets", name)), s.read(from))
	brief := context + "\n\n" + instructions + "\n\nThe workbook is " + name + ". Save the result under the same name."
	for _, sheet := range s.added {
		brief += fmt.Sprintf(" Call the new sheet %q.", sheet)
	}
	c.leave(why)
	r.Input = deliverableInput{Brief: brief, Output: outputSpec{Type: "xlsx", Path: name}}
	r.Assets = []mounted{{Path: name, Mount: name, ReadOnly: writable()}}
	r.Eval = deliverableEval{Reference: s.references, Rubric: s.rubric}
	return r
}

// copilotRow is what becomes of a row's workbooks.
type copilotRow struct {
	id        string
	board     *source.Node
	golds     []string
	materials *materials

	references []evalPath
	added      []string // sheets that the workbook does not have
	rubric     map[string]any
}

// read reads the expected workbooks. It returns why the row is left out, or "".
func (s *copilotRow) read(from string) string {
	before, err := s.materials.book(from)
	if err != nil {
		return err.Error()
	}
	folder := s.folder()
	var all []copilotPart
	for _, gold := range s.golds {
		at := path.Join(folder, gold)
		if why := s.materials.file(at, evalFile(path.Join(s.id, gold))); why != "" {
			return why
		}
		s.references = append(s.references, evalPath{path.Join(s.id, gold)})
		want, err := s.materials.book(at)
		if err != nil {
			return err.Error()
		}
		parts, why := s.parts(before, want, s.board.Get(gold))
		if why != "" {
			return why
		}
		if all == nil {
			all = parts
		}
		if len(all) != len(parts) {
			return "its workbooks are compared in different ways"
		}
		for i, p := range parts {
			if all[i].compare != p.compare || all[i].sheet.name != p.sheet.name || fmt.Sprint(all[i].beside) != fmt.Sprint(p.beside) {
				return "its workbooks are compared in different ways"
			}
			all[i].sheet.rows, all[i].sheet.columns = max(all[i].sheet.rows, p.sheet.rows), max(all[i].sheet.columns, p.sheet.columns)
		}
	}
	var rubrics []map[string]any
	for _, p := range all {
		if p.beside != nil {
			rubrics = append(rubrics, p.beside)
			continue
		}
		rubrics = append(rubrics, map[string]any{"type": "cells", "sheet": p.sheet.name, "range": p.sheet.used(), "compare": p.compare})
	}
	s.rubric = combined(rubrics)
	return ""
}

// copilotPart is a sheet of an expected workbook, and how its cells are compared, or the
// rubric of what it has beside them.
type copilotPart struct {
	sheet   bookSheet
	compare string
	beside  map[string]any
}

type copilotSection struct {
	section, key string
	words        map[string]string
}

// copilotBeside returns the parts of check_board that are not about cells, with the key of our
// rubric and its word for each of their keys; "" stands for all of it.
func copilotBeside() []copilotSection {
	return []copilotSection{
		{"charts", "charts", map[string]string{"chart_type": "type", "title": "title", "legend": "legend", "series": "series"}},
		{"pivot_tables", "pivot_tables", map[string]string{"name": "name", "source": "source", "rows": "rows", "columns": "columns", "filters": "filters", "values": "values", "summary_type": "values"}},
		{"format_conditions", "conditional_formats", map[string]string{"type": "type", "operator": "operator", "formula1": "formulas",
			"color": "format", "fill_color": "format", "font": "format", "bold": "format", "italic": "format", "underline": "format"}},
		{"view", "frozen", map[string]string{"freeze_pane": ""}},
	}
}

// besideCells is the rubric of what a sheet has beside cells, nil if nothing is compared.
func besideCells(sheet string, board *source.Node) map[string]any {
	out := map[string]any{"type": "workbook", "sheet": sheet}
	for _, b := range copilotBeside() {
		section := board.Get(b.section)
		if section == nil {
			continue
		}
		var words []string
		for _, f := range section.Fields {
			if word, known := b.words[f.Name]; known && only(f.Value).yes() && !slices.Contains(words, word) {
				words = append(words, word)
			}
		}
		slices.Sort(words)
		if len(words) == 1 && words[0] == "" {
			out[b.key] = true
		} else if len(words) > 0 {
			out[b.key] = words
		}
	}
	if len(out) == 2 {
		return nil
	}
	return out
}

// folder is where the expected workbooks lie.
func (s *copilotRow) folder() string {
	_, sheet, _ := strings.Cut(s.id, "_")
	for _, at := range []string{path.Join("gold", s.id), path.Join("task_sheet_answers_v2", sheet, s.id), path.Join("task_sheet_answers", sheet, s.id)} {
		if s.materials.names(at) != nil {
			return at
		}
	}
	return path.Join("gold", s.id)
}

// combined is one rubric of several.
func combined(parts []map[string]any) map[string]any {
	if len(parts) == 1 {
		return parts[0]
	}
	return map[string]any{"all": parts}
}

// parts are what of an expected workbook is compared, or why there is nothing.
func (s *copilotRow) parts(before, want book, board *source.Node) (out []copilotPart, why string) {
	if board == nil {
		return nil, "check_board does not say what is compared"
	}
	if board.Kind == source.String {
		return nil, "check_board cannot be read: " + board.Text
	}
	for _, f := range board.Fields {
		i, err := strconv.Atoi(f.Name)
		if err != nil || i < 1 || i > len(want) {
			return nil, "check_board names a sheet that is not there"
		}
		cells := f.Value.Get("cells")
		values, formats := only(cells.Get("values")).yes(), only(cells.Get("formatting")).yes()
		sheet := want[i-1]
		beside := besideCells(sheet.name, f.Value)
		values, formats = values && sheet.used() != "", formats && sheet.used() != ""
		if !values && !formats && beside == nil {
			continue
		}
		old, there := before.named(sheet.name)
		if !there && !slices.Contains(s.added, sheet.name) {
			s.added = append(s.added, sheet.name)
		}
		if values {
			out = append(out, copilotPart{sheet: sheet, compare: "value"})
		}
		if formats && (!values || beside == nil && maps.Equal(old.cells, sheet.cells)) {
			out = append(out, copilotPart{sheet: sheet, compare: "format"})
		}
		if beside != nil {
			out = append(out, copilotPart{sheet: sheet, beside: beside})
		}
	}
	if len(out) == 0 {
		return nil, "it compares nothing"
	}
	return out, ""
}

// sheetCopilotRows reads a folder: rows.jsonl, or the repository's, whose rows are a
// workbook.
func sheetCopilotRows(dir string, sum io.Writer) (func() (*object, error), error) {
	base := beside(dir, "task_sheets", "dataset")
	rows := filepath.Join(dir, "rows.jsonl")
	if _, err := os.Stat(rows); err == nil {
		return oneFile(rows, sum)
	}
	m := &materials{dir: base}
	table, err := m.book("dataset.xlsx")
	if err != nil {
		return nil, fmt.Errorf("opening the data set: %w", err)
	}
	if len(table) == 0 {
		return nil, fmt.Errorf("%s has no sheet", filepath.Join(base, "dataset.xlsx"))
	}
	at := 1
	return func() (*object, error) {
		for at++; at <= table[0].rows; at++ {
			o, err := m.copilotObject(table[0], at, filepath.Join(base, "dataset.xlsx"))
			if o != nil || err != nil {
				return o, err
			}
		}
		return nil, io.EOF
	}, nil
}

// copilotObject makes a row of a line of the data set's table, nil for a line without one.
func (m *materials) copilotObject(table bookSheet, line int, file string) (*object, error) {
	field := func(title string) string {
		for column := 1; column <= table.columns; column++ {
			if table.cells[[2]int{1, column}] == title {
				return table.cells[[2]int{line, column}]
			}
		}
		return ""
	}
	sheet, number := field("Sheet Name"), field("No.") // rows of a sheet are numbered
	if sheet == "" || number == "" {
		return nil, nil
	}
	pos := source.Pos{File: file, Line: line, Col: 1}
	text := func(s string) *source.Node { return &source.Node{Kind: source.String, Pos: pos, Text: s} }
	id := number + "_" + sheet
	board, golds := &source.Node{Kind: source.Map, Pos: pos}, &source.Node{Kind: source.List, Pos: pos}
	folder := (&copilotRow{id: id, materials: m}).folder()
	for _, name := range m.names(folder) {
		if !strings.HasSuffix(name, ".xlsx") {
			continue
		}
		golds.Items = append(golds.Items, text(name))
		check, err := m.board(path.Join(folder, strings.TrimSuffix(name, ".xlsx")+"_check.yaml"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if check != nil {
			board.Fields = append(board.Fields, source.Field{Name: name, Pos: pos, Value: check})
		}
	}
	row := &source.Node{Kind: source.Map, Pos: pos}
	for _, f := range []struct {
		name  string
		value *source.Node
	}{{"id", text(id)}, {"source", text("task_sheets/" + sheet + ".xlsx")}, {"context", text(field("Context"))}, {"instructions", text(field("Instructions"))},
		{"categories", text(field("Categories"))}, {"golds", golds}, {"check_board", board}} {
		row.Fields = append(row.Fields, source.Field{Name: f.name, Pos: pos, Value: f.value})
	}
	return &object{node: row}, nil
}

// board reads what of an expected workbook is compared.
func (m *materials) board(name string) (*source.Node, error) {
	root, err := os.OpenRoot(m.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := root.ReadFile(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	n, err := source.ParseYAML(name, data)
	if err != nil { // the data set has such: their rows are left out
		return &source.Node{Kind: source.String, Text: err.Error()}, nil
	}
	return n.Get("check_board"), nil
}
