// Package spoilt makes wrong files of right ones, as models: with one value changed, without
// any, or with every value in columns of other names. A rubric that passes such a file passes
// wrong work.
package spoilt

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/artifact"
)

// How says how a value is changed.
type How int

// The ways to change a value.
const (
	// Slightly is as a mistake does: a number by a tenth, at least by 1; a text by a word.
	Slightly How = iota
	// Beyond is to what no rubric that looks at the value takes for it.
	Beyond
)

// word is what a text gets, and nonsense what takes its place.
const (
	word     = " wrong"
	nonsense = "qwzxvbnk"
)

// Values is the number of values of a file that can be changed: fields of a table below its
// header, cells of a workbook, leaves of data, paragraphs and cells of a document, numbers of
// an array.
func Values(f *artifact.File) int {
	switch {
	case f.Table != nil && len(f.Table.Rows) > 1:
		return (len(f.Table.Rows) - 1) * len(f.Table.Rows[0])
	case f.Workbook != nil:
		n := 0
		for _, s := range f.Workbook.Sheets {
			n += len(s.Cells)
		}
		return n
	case f.Type == artifact.JSON && f.Text != nil:
		n := 0
		if v, ok := data(f); ok {
			leaves(v, func(any) (any, bool) { n++; return nil, false })
		}
		return n
	case f.Document != nil:
		return len(f.Document.Blocks)
	case f.Array != nil:
		return len(f.Array.Values)
	}
	return 0
}

// Changed returns a file that differs in one value, or nil if that value cannot be changed.
func Changed(f *artifact.File, at int, how How) *artifact.File {
	out := *f
	switch {
	case f.Table != nil:
		width := len(f.Table.Rows[0])
		rows := slices.Clone(f.Table.Rows)
		row := slices.Clone(rows[1+at/width])
		if at%width >= len(row) {
			return nil
		}
		row[at%width] = text(row[at%width], how)
		rows[1+at/width] = row
		out.Table = &artifact.Table{Rows: rows}
	case f.Workbook != nil:
		return workbook(out, at, how)
	case f.Text != nil:
		v, ok := data(f)
		if !ok {
			return nil
		}
		n := -1
		changed := leaves(v, func(leaf any) (any, bool) { n++; return of(leaf, how), n == at })
		raw, err := json.Marshal(changed, json.Deterministic(true))
		if err != nil {
			return nil
		}
		s := string(raw)
		out.Text = &s
	case f.Document != nil:
		return document(out, at, how)
	case f.Array != nil:
		values := slices.Clone(f.Array.Values)
		values[at] = number(values[at], how)
		out.Array = &artifact.Array{Shape: f.Array.Shape, Values: values}
	}
	return &out
}

// number is another number.
func number(v float64, how How) float64 {
	if how == Beyond {
		return -3*v - 1e9
	}
	return v + max(1, v/10, -v/10)
}

// text is another text: of a number, another number.
func text(s string, how How) string {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	switch {
	case how == Beyond:
		return nonsense
	case err == nil && v-v == 0: // finite
		return strconv.FormatFloat(number(v, how), 'f', -1, 64)
	}
	return s + word
}

// of is another leaf of data.
func of(v any, how How) any {
	switch v := v.(type) {
	case string:
		return text(v, how)
	case float64:
		if how == Beyond {
			return nonsense
		}
		return number(v, how)
	case bool:
		if how == Beyond {
			return nonsense
		}
		return !v
	}
	if how == Beyond {
		return nonsense
	}
	return 1.0
}

func data(f *artifact.File) (v any, ok bool) {
	return v, json.Unmarshal([]byte(*f.Text), &v) == nil
}

// leaves returns a value with some leaves replaced: change is called with each, in a fixed
// order.
func leaves(v any, change func(any) (any, bool)) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			out[name] = leaves(v[name], change)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = leaves(item, change)
		}
		return out
	}
	if other, yes := change(v); yes {
		return other
	}
	return v
}

func workbook(out artifact.File, at int, how How) *artifact.File {
	sheets := slices.Clone(out.Workbook.Sheets)
	i := 0
	for at >= len(sheets[i].Cells) {
		at -= len(sheets[i].Cells)
		i++
	}
	cells := slices.Clone(sheets[i].Cells)
	c := cells[at]
	c.Formula, c.Stored, c.Uncomputed = "", nil, false // the wrong value is typed in
	switch v := &c.Value; {
	case how == Beyond:
		c.Value = artifact.Value{Kind: artifact.String, Text: nonsense}
	case v.Kind == artifact.Number || v.Kind == artifact.Date:
		v.Number = number(v.Number, how)
	case v.Kind == artifact.Bool:
		v.Number = 1 - v.Number
	case v.Kind == artifact.String:
		v.Text += word
	default:
		c.Value = artifact.Value{Kind: artifact.Number, Number: 1}
	}
	cells[at] = c
	sheets[i].Cells = cells
	out.Workbook = &artifact.Workbook{Sheets: sheets}
	return &out
}

func document(out artifact.File, at int, how How) *artifact.File {
	d := *out.Document
	d.Blocks = slices.Clone(d.Blocks)
	b := d.Blocks[at]
	switch {
	case len(b.Table) == 0:
		if strings.TrimSpace(b.Text) == "" {
			return nil
		}
		b.Text = text(b.Text, how)
	default:
		b.Table = slices.Clone(b.Table)
		row := slices.Clone(b.Table[len(b.Table)-1])
		if len(row) == 0 {
			return nil
		}
		row[len(row)-1] = text(row[len(row)-1], how)
		b.Table[len(b.Table)-1] = row
	}
	d.Blocks[at] = b
	out.Document = &d
	return &out
}

// Empty returns files of the type that say nothing: without content, or with its outline
// alone.
func Empty(f *artifact.File) (out []*artifact.File) {
	with := func(change func(*artifact.File)) {
		g := artifact.File{Type: f.Type}
		change(&g)
		out = append(out, &g)
	}
	switch {
	case f.Table != nil:
		with(func(g *artifact.File) { g.Table = &artifact.Table{} })
		if len(f.Table.Rows) > 1 {
			with(func(g *artifact.File) { g.Table = &artifact.Table{Rows: f.Table.Rows[:1]} })
		}
	case f.Workbook != nil:
		with(func(g *artifact.File) { g.Workbook = &artifact.Workbook{} })
		with(func(g *artifact.File) {
			g.Workbook = &artifact.Workbook{}
			for _, s := range f.Workbook.Sheets {
				g.Workbook.Sheets = append(g.Workbook.Sheets, artifact.Sheet{Name: s.Name})
			}
		})
	case f.Type == artifact.JSON && f.Text != nil:
		for _, s := range []string{"{}", "[]", "null", `""`} {
			if s != strings.TrimSpace(*f.Text) {
				with(func(g *artifact.File) { g.Text = &s })
			}
		}
	case f.Text != nil && strings.TrimSpace(*f.Text) != "":
		with(func(g *artifact.File) { s := ""; g.Text = &s })
	case f.Document != nil && len(f.Document.Blocks) > 0:
		with(func(g *artifact.File) { g.Document = &artifact.Document{Pages: f.Document.Pages} })
	case len(f.Members) > 0:
		with(func(g *artifact.File) { g.Members = []artifact.Member{} })
	}
	return out
}

// Guesses returns a table that has the values of all columns, and others, under names that
// are no column's: what one sends who guesses. It is nil for any other file.
func Guesses(f *artifact.File) *artifact.File {
	if f.Table == nil || len(f.Table.Rows) < 2 {
		return nil
	}
	out := *f
	var rows [][]string
	for i, row := range f.Table.Rows {
		var guessed []string
		for k, v := range row {
			if i == 0 {
				guessed = append(guessed, nonsense+strconv.Itoa(2*k), nonsense+strconv.Itoa(2*k+1))
			} else {
				guessed = append(guessed, text(v, Slightly), v)
			}
		}
		rows = append(rows, guessed)
	}
	out.Table = &artifact.Table{Rows: rows}
	return &out
}
