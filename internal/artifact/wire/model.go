package wire

import "securebench/internal/artifact"

// parts says whether a file has what those of each type have.
func parts(f *artifact.File) map[artifact.Type]bool {
	return map[artifact.Type]bool{artifact.CSV: f.Table != nil, artifact.JSON: f.Text != nil, artifact.Text: f.Text != nil,
		artifact.XLSX: f.Workbook != nil, artifact.DOCX: f.Document != nil, artifact.PPTX: f.Document != nil, artifact.PDF: f.Document != nil,
		artifact.PNG: f.Image != nil, artifact.JPEG: f.Image != nil, artifact.NPY: f.Array != nil, artifact.ZIP: true, artifact.Any: true}
}

// file codes a model.
func (c *coder) file(f *artifact.File) {
	name := string(f.Type)
	c.text(&name)
	f.Type = artifact.Type(name)
	c.number(&f.Bytes)
	c.text(&f.SHA256)
	optional(c, &f.Table, table)
	optional(c, &f.Text, text)
	optional(c, &f.Workbook, func(c *coder, b *artifact.Workbook) { list(c, &b.Sheets, sheet) })
	optional(c, &f.Document, document)
	optional(c, &f.Image, image)
	optional(c, &f.Array, array)
	list(c, &f.Members, func(c *coder, m *artifact.Member) {
		c.text(&m.Name)
		c.number(&m.Bytes)
		c.text(&m.SHA256)
	})
	if c.err == nil && !parts(f)[f.Type] {
		c.invalid("its type is not known, or lacks what files of it have")
	}
}

func table(c *coder, t *artifact.Table) {
	list(c, &t.Rows, texts)
	for _, row := range t.Rows {
		if len(row) != len(t.Rows[0]) {
			c.invalid("the rows of a table have different numbers of fields")
			return
		}
	}
}

func sheet(c *coder, s *artifact.Sheet) {
	c.text(&s.Name)
	c.bool(&s.Hidden)
	formats(c, s)
	texts(c, &s.Merged)
	c.text(&s.Freeze)
	c.text(&s.Filter)
	list(c, &s.Charts, chart)
	list(c, &s.Pivots, pivot)
	list(c, &s.Conditions, condition)
}

// formats codes the cells of a sheet. Most have one of a few formats, which are said once.
func formats(c *coder, s *artifact.Sheet) {
	var known []artifact.Format
	places := map[artifact.Format]int{}
	if !c.reads {
		for i := range s.Cells {
			f := s.Cells[i].Format
			if i > 0 && f == s.Cells[i-1].Format {
				continue
			}
			if _, ok := places[f]; !ok {
				places[f] = len(known)
				known = append(known, f)
			}
		}
	}
	list(c, &known, format)
	var last artifact.Format // of the cell before, at its place
	var before artifact.Cell // its row and column
	at := places[last]
	list(c, &s.Cells, func(c *coder, v *artifact.Cell) {
		c.int(&v.Row)
		c.int(&v.Column)
		if place := (artifact.Cell{Row: v.Row, Column: v.Column}); v.Row < 1 || v.Row > artifact.MaxRow || v.Column < 1 || v.Column > artifact.MaxColumn || artifact.ByPlace(before, place) >= 0 {
			c.invalid("a cell is not in a sheet, or not behind the one before it")
		} else {
			before = place
		}
		value(c, &v.Value)
		c.text(&v.Formula)
		optional(c, &v.Stored, value)
		c.bool(&v.Uncomputed)
		if !c.reads && v.Format != last {
			last, at = v.Format, places[v.Format]
		}
		c.int(&at)
		if !c.reads || c.err != nil {
			return
		}
		if at >= len(known) {
			c.invalid("a format is not among those of the sheet")
			return
		}
		v.Format = known[at]
	})
}

func value(c *coder, v *artifact.Value) {
	kind := int(v.Kind)
	c.int(&kind)
	if kind > int(artifact.Failed) {
		c.invalid("the kind of a value is not known")
		return
	}
	v.Kind = artifact.Kind(kind)
	c.float(&v.Number)
	c.text(&v.Text)
}

func format(c *coder, f *artifact.Format) {
	c.text(&f.Number)
	c.bool(&f.Bold)
	c.bool(&f.Italic)
	c.bool(&f.Underline)
	c.text(&f.Font)
	c.float(&f.Size)
	c.text(&f.Color)
	c.text(&f.Fill)
	c.text(&f.Link)
}

func chart(c *coder, v *artifact.Chart) {
	c.text(&v.Type)
	c.text(&v.Title)
	list(c, &v.Series, func(c *coder, s *artifact.Series) {
		c.text(&s.Name)
		c.text(&s.Categories)
		c.text(&s.Values)
	})
	c.bool(&v.Legend)
}

func pivot(c *coder, p *artifact.Pivot) {
	c.text(&p.Name)
	c.text(&p.Source)
	texts(c, &p.Rows)
	texts(c, &p.Columns)
	texts(c, &p.Filters)
	list(c, &p.Values, func(c *coder, v *artifact.PivotValue) {
		c.text(&v.Field)
		c.text(&v.Summary)
	})
}

func condition(c *coder, v *artifact.Condition) {
	c.text(&v.Range)
	c.text(&v.Type)
	c.text(&v.Operator)
	texts(c, &v.Formulas)
	format(c, &v.Format)
}

func document(c *coder, d *artifact.Document) {
	c.int(&d.Pages)
	list(c, &d.Blocks, func(c *coder, b *artifact.Block) {
		c.int(&b.Page)
		c.text(&b.Style)
		c.text(&b.Text)
		list(c, &b.Table, texts)
	})
}

func image(c *coder, v *artifact.Image) {
	c.int(&v.Width)
	c.int(&v.Height)
	c.text(&v.Pixels)
	c.bytes(&v.Small)
	c.bytes(&v.Shown)
	if len(v.Shown) > artifact.MaxShown {
		c.invalid("a picture for people is too large")
	}
}

func array(c *coder, a *artifact.Array) {
	list(c, &a.Shape, integer)
	list(c, &a.Values, float)
}
