package reader

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"securebench/internal/artifact"
)

// Bounds of workbooks.
const (
	maxSheets    = 1_000
	maxNames     = 1_000
	maxBookCells = 500_000  // of all sheets
	maxBookText  = 64 << 20 // bytes of all texts, formulas and formats of cells
	maxCellText  = 256 << 10
)

// A book is a workbook that is being read.
type book struct {
	*pack
	shared       []string
	styles       styles
	date1904     bool
	recalculated bool // the writer asks for all formulas to be calculated: what it stored is no claim
	names        []definedName
	sheets       []*sheet
	cells        int
	text         int
}

// A definedName is a name for a formula, in one sheet or, with -1, in all.
type definedName struct {
	name    string
	sheet   int
	formula string
}

// A sheet is a sheet that is being read.
type sheet struct {
	*artifact.Sheet
	part      string
	relations map[string]relation
	groups    map[string]sharedFormula
	last      [2]int          // row and column of the cell that was read last
	arrays    map[[2]int]bool // cells whose formulas take or fill ranges at once
}

// A sharedFormula is a formula that other cells have as well, moved.
type sharedFormula struct {
	row, column int
	formula     string
}

func readXLSX(data []byte, f *artifact.File) error {
	p, err := openPack(data)
	if err != nil {
		return err
	}
	b := &book{pack: p}
	if err := b.open(); err != nil {
		return err
	}
	f.Workbook = &artifact.Workbook{}
	for _, s := range b.sheets {
		if err := b.readSheet(s); err != nil {
			return err
		}
	}
	if err := b.calculate(); err != nil {
		return err
	}
	b.unclaim()
	for _, s := range b.sheets {
		if err := b.readExtras(s); err != nil {
			return err
		}
		f.Workbook.Sheets = append(f.Workbook.Sheets, *s.Sheet)
	}
	return nil
}

// open reads what the sheets share.
func (b *book) open() error {
	main, err := b.main("spreadsheetml.sheet", "a workbook")
	if err != nil {
		return err
	}
	root, err := b.tree(main)
	if err != nil {
		return err
	}
	relations, err := b.relations(main)
	if err != nil {
		return err
	}
	b.recalculated = isTrue(root.child("calcPr").attr("fullCalcOnLoad"))
	b.date1904 = isTrue(root.child("workbookPr").attr("date1904"))
	if err := b.readShared(related(relations, "sharedStrings")); err != nil {
		return err
	}
	if err := b.readStyles(relations); err != nil {
		return err
	}
	for _, n := range root.child("definedNames").all("definedName") {
		in := -1
		if id := n.attr("localSheetId"); id != "" {
			if in, err = strconv.Atoi(id); err != nil {
				return refuse("has a name whose sheet is not valid")
			}
		}
		b.names = append(b.names, definedName{n.attr("name"), in, string(n.text)})
	}
	if len(b.names) > maxNames { // each is looked for among all of them; formulas with names stay uncomputed
		b.names = nil
	}
	return b.listSheets(root, relations)
}

func (b *book) listSheets(root *node, relations map[string]relation) error {
	list := root.child("sheets").all("sheet")
	if len(list) > maxSheets {
		return refuse("has more than %d sheets", maxSheets)
	}
	seen, parts := map[string]bool{}, map[string]bool{}
	for _, n := range list {
		r, ok := relations[n.attr(":id")]
		name := n.attr("name")
		switch key := strings.ToLower(name); {
		case name == "" || len(name) > 255:
			return refuse("has a sheet without a name")
		case seen[key]:
			return refuse("has two sheets of the name %q", name)
		case !ok || r.external || b.byName[r.target] == nil:
			return refuse("lacks the sheet %q", name)
		case parts[r.target]:
			return refuse("has one sheet under two names: %q", name)
		case strings.Contains(strings.ToLower(r.kind), "macrosheet"):
			return refuse("has macros")
		default:
			seen[key], parts[r.target] = true, true
		}
		own, err := b.relations(r.target)
		if err != nil {
			return err
		}
		s := &artifact.Sheet{Name: name, Hidden: n.attr("state") == "hidden" || n.attr("state") == "veryHidden"}
		b.sheets = append(b.sheets, &sheet{Sheet: s, part: r.target, relations: own, groups: map[string]sharedFormula{}, arrays: map[[2]int]bool{}})
	}
	if len(b.sheets) == 0 {
		return refuse("has no sheets")
	}
	return nil
}

// readShared reads the table of texts.
func (b *book) readShared(part string) error {
	data, err := b.part(part)
	if data == nil || err != nil {
		return err
	}
	s, err := scanXML(data)
	if err != nil {
		return err
	}
	for {
		t, err := s.next()
		if err != nil {
			return err
		}
		if t == end {
			return nil
		}
		if t == opening && s.name == "si" {
			text, err := s.richText()
			if err != nil {
				return err
			}
			b.shared = append(b.shared, text)
		}
	}
}

// richText returns the text of the element that was opened last, and leaves it. What is
// said about the pronunciation is left out.
func (s *scanner) richText() (string, error) {
	var parts []string
	inText := false
	for depth := 1; depth > 0; {
		t, err := s.next()
		if err != nil {
			return "", err
		}
		switch {
		case t == opening && s.name == "rPh":
			if err := s.pass(); err != nil {
				return "", err
			}
		case t == opening:
			inText = s.name == "t"
			depth++
		case t == closing:
			inText = false
			depth--
		case t == chars && inText:
			text, err := s.content()
			if err != nil {
				return "", err
			}
			parts = append(parts, text)
		}
	}
	return escapes(strings.Join(parts, "")), nil
}

// escapes replaces the notation of characters that XML has not, such as _x000D_.
func escapes(s string) string {
	if !strings.Contains(s, "_x") {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); {
		if i+7 <= len(s) && s[i] == '_' && s[i+1] == 'x' && s[i+6] == '_' {
			if n, err := strconv.ParseUint(s[i+2:i+6], 16, 16); err == nil && (n < 0xd800 || n > 0xdfff) {
				out.WriteRune(rune(n))
				i += 7
				continue
			}
		}
		out.WriteByte(s[i])
		i++
	}
	return out.String()
}

// readSheet reads the cells of a sheet.
func (b *book) readSheet(s *sheet) error {
	data, err := b.part(s.part)
	if err != nil {
		return err
	}
	in, err := scanXML(data)
	if err != nil {
		return err
	}
	row := 0
	for {
		t, err := in.next()
		switch {
		case err != nil:
			return err
		case t == end:
			return b.sortCells(s)
		case t != opening:
		case in.name == "row" && len(in.open) == 3:
			row, err = rowNumber(in.raw("r"), row+1)
		case in.name == "c" && len(in.open) == 4:
			err = b.readCell(s, in, row)
		case len(in.open) == 2 && in.name != "sheetData":
			var n *node
			if n, err = b.forest.tree(in); err == nil {
				err = b.readFeature(s, n)
			}
		}
		if err != nil {
			return err
		}
	}
}

// rowNumber returns the number of a row, or the one that is next if none is named.
func rowNumber(raw []byte, next int) (int, error) {
	n := next
	if raw != nil {
		var err error
		if n, err = strconv.Atoi(string(raw)); err != nil {
			return 0, refuse("has a row whose number is not valid")
		}
	}
	if n < 1 || n > artifact.MaxRow {
		return 0, refuse("has a cell beyond the last row")
	}
	return n, nil
}

// sortCells puts the cells in order; no place has two.
func (b *book) sortCells(s *sheet) error {
	if !slices.IsSortedFunc(s.Cells, artifact.ByPlace) {
		slices.SortFunc(s.Cells, artifact.ByPlace)
	}
	for i := 1; i < len(s.Cells); i++ {
		if artifact.ByPlace(s.Cells[i-1], s.Cells[i]) == 0 {
			return refuse("has the cell %s of %q twice", artifact.CellName(s.Cells[i].Row, s.Cells[i].Column), s.Name)
		}
	}
	return nil
}

// A raw cell is what the XML of a cell says.
type rawCell struct {
	kind, value, text string
	formula           string
	shared, group     string
	hasFormula        bool
}

func (b *book) readCell(s *sheet, in *scanner, row int) error {
	if b.cells++; b.cells > maxBookCells {
		return refuse("has more than %d cells", maxBookCells)
	}
	c := artifact.Cell{Row: row, Column: 1}
	if s.last[0] == row {
		c.Column = s.last[1] + 1
	}
	if ref := in.raw("r"); ref != nil {
		column, at, ok := parseCell(string(ref))
		if !ok || at != row {
			return refuse("has a cell out of its row: %.20q", ref)
		}
		c.Column = column
	}
	if c.Column > artifact.MaxColumn {
		return refuse("has a cell beyond the last column")
	}
	s.last = [2]int{row, c.Column}
	style := 0
	if raw := in.raw("s"); raw != nil {
		var err error
		if style, err = strconv.Atoi(string(raw)); err != nil || style < 0 {
			return refuse("has a cell without a format that is known")
		}
	}
	raw := rawCell{kind: string(in.raw("t"))}
	if err := raw.read(in); err != nil {
		return err
	}
	format, isDate, err := b.styles.of(style)
	if err != nil {
		return err
	}
	c.Format = format
	if c.Value, err = b.value(raw, isDate); err != nil {
		return err
	}
	if err := s.setFormula(&c, raw); err != nil {
		return err
	}
	if c.Value.Kind == artifact.Empty && c.Formula == "" && b.styles.plain(style) {
		return nil
	}
	b.text += len(c.Value.Text) + len(c.Formula) + len(c.Format.Number) + len(c.Format.Font)
	if b.text > maxBookText {
		return refuse("has more than %d bytes of text in its cells", maxBookText)
	}
	s.Cells = append(s.Cells, c)
	return nil
}

// read reads what is in the element of a cell, and leaves it.
func (r *rawCell) read(in *scanner) error {
	field := ""
	for {
		t, err := in.next()
		if err != nil {
			return err
		}
		switch t {
		case opening:
			switch in.name {
			case "is":
				if r.text, err = in.richText(); err != nil {
					return err
				}
			case "f":
				r.hasFormula = true
				r.shared, r.group = string(in.raw("t")), string(in.raw("si"))
				field = "f"
			case "v":
				field = "v"
			default:
				if err := in.pass(); err != nil {
					return err
				}
			}
		case chars:
			if field == "" {
				continue
			}
			text, err := in.content()
			if err != nil {
				return err
			}
			if field == "f" {
				r.formula += text
			} else {
				r.value += text
			}
			if len(r.formula)+len(r.value) > maxCellText {
				return refuse("has a cell of more than %d bytes", maxCellText)
			}
		case closing:
			if in.name == "c" && field == "" {
				return nil
			}
			field = ""
		case end:
			return in.fault("a cell does not end")
		}
	}
}

// value returns what a cell says its value is.
func (b *book) value(r rawCell, isDate bool) (artifact.Value, error) {
	switch r.kind {
	case "inlineStr":
		return artifact.Value{Kind: artifact.String, Text: r.text}, nil
	case "str":
		if r.value == "" && !r.hasFormula {
			return artifact.Value{}, nil
		}
		return artifact.Value{Kind: artifact.String, Text: escapes(r.value)}, nil
	}
	if r.value == "" {
		return artifact.Value{}, nil
	}
	switch r.kind {
	case "s":
		i, err := strconv.Atoi(r.value)
		if err != nil || i < 0 || i >= len(b.shared) {
			return artifact.Value{}, refuse("has a cell whose text is not there")
		}
		return artifact.Value{Kind: artifact.String, Text: b.shared[i]}, nil
	case "b":
		switch r.value {
		case "0", "false":
			return artifact.Value{Kind: artifact.Bool}, nil
		case "1", "true":
			return artifact.Value{Kind: artifact.Bool, Number: 1}, nil
		}
	case "e":
		return artifact.Value{Kind: artifact.Failed, Text: r.value}, nil
	case "d":
		for _, layout := range []string{"2006-01-02T15:04:05", time.RFC3339Nano, "2006-01-02"} {
			if at, err := time.Parse(layout, r.value); err == nil {
				days := (float64(at.Unix()) + float64(at.Nanosecond())/1e9) / 86_400
				return artifact.Value{Kind: artifact.Date, Number: days + 25_569}, nil
			}
		}
	case "", "n":
		x, err := strconv.ParseFloat(strings.TrimSpace(r.value), 64)
		if err == nil && !math.IsInf(x, 0) && !math.IsNaN(x) {
			return b.numeric(x, isDate), nil
		}
	}
	return artifact.Value{}, refuse("has a cell with an invalid value: %.40q", r.value)
}

// numeric returns a number, or the date that it stands for.
func (b *book) numeric(x float64, isDate bool) artifact.Value {
	if !isDate {
		return artifact.Value{Kind: artifact.Number, Number: x}
	}
	if b.date1904 {
		x += 1462
	}
	return artifact.Value{Kind: artifact.Date, Number: x}
}

// cell returns the cell of a place, nil if it is empty.
func (s *sheet) cell(row, column int) *artifact.Cell {
	i, found := slices.BinarySearchFunc(s.Cells, [2]int{row, column}, func(c artifact.Cell, at [2]int) int {
		return cmp.Or(cmp.Compare(c.Row, at[0]), cmp.Compare(c.Column, at[1]))
	})
	if !found {
		return nil
	}
	return &s.Cells[i]
}

// setFormula gives a cell its formula; what was its value is then what the writer claims.
func (s *sheet) setFormula(c *artifact.Cell, r rawCell) error {
	if !r.hasFormula {
		return nil
	}
	c.Formula = strings.TrimPrefix(r.formula, "=")
	switch r.shared {
	case "shared":
		if c.Formula != "" {
			s.groups[r.group] = sharedFormula{c.Row, c.Column, c.Formula}
		} else if g, ok := s.groups[r.group]; ok {
			c.Formula = moved(g.formula, c.Row-g.row, c.Column-g.column)
		} else {
			return refuse("has a cell whose formula is not there: %s", artifact.CellName(c.Row, c.Column))
		}
	case "array", "dataTable":
		s.arrays[[2]int{c.Row, c.Column}] = true
	}
	if c.Formula == "" {
		return nil
	}
	if len(c.Formula) > 8192 {
		return refuse("has a formula of more than 8192 characters")
	}
	if c.Value.Kind != artifact.Empty {
		stored := c.Value
		c.Stored = &stored
	}
	c.Uncomputed = true
	return nil
}

// readFeature reads what a sheet has beside its cells.
func (b *book) readFeature(s *sheet, n *node) error {
	switch n.name {
	case "sheetViews":
		for _, p := range n.child("sheetView").all("pane") {
			if state := p.attr("state"); state == "frozen" || state == "frozenSplit" {
				x, errX := strconv.Atoi(cmp.Or(p.attr("xSplit"), "0"))
				y, errY := strconv.Atoi(cmp.Or(p.attr("ySplit"), "0"))
				if errX != nil || errY != nil || x < 0 || y < 0 || x >= artifact.MaxColumn || y >= artifact.MaxRow {
					return refuse("has frozen panes beyond its last cell")
				}
				s.Freeze = artifact.CellName(y+1, x+1)
			}
		}
	case "mergeCells":
		for _, m := range n.all("mergeCell") {
			s.Merged = append(s.Merged, plainRange(m.attr("ref")))
		}
		slices.Sort(s.Merged)
	case "autoFilter":
		s.Filter = plainRange(n.attr("ref"))
	case "conditionalFormatting":
		for _, rule := range n.all("cfRule") {
			c := artifact.Condition{Range: plainRange(n.attr("sqref")), Type: rule.attr("type"), Operator: rule.attr("operator")}
			for _, formula := range rule.all("formula") {
				c.Formulas = append(c.Formulas, string(formula.text))
			}
			c.Format = b.styles.differential(rule.attr("dxfId"))
			s.Conditions = append(s.Conditions, c)
		}
	case "hyperlinks":
		return b.readLinks(s, n)
	}
	return nil
}

// readLinks gives cells their links. They follow the cells in the file.
func (b *book) readLinks(s *sheet, n *node) error {
	links := map[[2]int]string{}
	for _, h := range n.all("hyperlink") {
		target := s.relations[h.attr(":id")].target
		if l := h.attr("location"); l != "" {
			target += "#" + l
		}
		first, last, ok := parseRange(h.attr("ref"))
		if !ok || (last[0]-first[0]+1)*(last[1]-first[1]+1) > 10_000 {
			return refuse("has a link whose range is not valid or too large")
		}
		for row := first[0]; row <= last[0]; row++ {
			for column := first[1]; column <= last[1]; column++ {
				links[[2]int{row, column}] = target
			}
		}
		if len(links) > maxBookCells {
			return refuse("has more than %d links", maxBookCells)
		}
	}
	for i := range s.Cells {
		c := &s.Cells[i]
		c.Format.Link = links[[2]int{c.Row, c.Column}]
		if b.text += len(c.Format.Link); b.text > maxBookText {
			return refuse("has more than %d bytes of text in its cells", maxBookText)
		}
	}
	return nil
}

func isTrue(s string) bool { return s == "1" || s == "true" }
