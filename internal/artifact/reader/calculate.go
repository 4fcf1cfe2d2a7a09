package reader

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/xuri/excelize/v2"

	"securebench/internal/artifact"
	"securebench/internal/lazyregexp"
)

// Bounds of what is calculated. They count, so that a workbook has the same values each
// time that it is read; formulas beyond them are left uncomputed.
const (
	maxFormulas = 50_000
	maxLookedAt = 500_000 // cells that formulas refer to
	maxGrid     = 500_000 // places that the calculated copy fills
	maxGridRow  = 100_000
)

// blocked is the value of a formula that would ask a program, a server or another file.
const blocked = "#BLOCKED!"

// outside are the functions that do so.
var outside = words("WEBSERVICE FILTERXML ENCODEURL IMAGE RTD CALL REGISTER.ID REGISTER SQL.REQUEST DDE CUBEVALUE CUBEMEMBER CUBESET STOCKHISTORY EXEC PY") //nolint:gochecknoglobals // made once

// known are the functions whose results were compared with those of a spreadsheet's
// manual. A function that depends on the day or on chance, takes a reference as a text, or
// asks which rows are hidden, is not among them.
//
//nolint:gochecknoglobals // made once
var known = words(`ABS ACOS ASIN ATAN ATAN2 COS COSH DEGREES EXP INT LN LOG LOG10 MOD PI POWER PRODUCT QUOTIENT RADIANS ROUND ROUNDDOWN
	ROUNDUP SIGN SIN SINH SQRT SUM SUMIF SUMIFS SUMPRODUCT SUMSQ TAN TANH TRUNC EVEN ODD CEILING FLOOR MROUND
	AVERAGE AVERAGEIF AVERAGEIFS COUNT COUNTA COUNTBLANK COUNTIF COUNTIFS LARGE MAX MAXIFS MEDIAN MIN MINIFS SMALL
	STDEV STDEV.S STDEV.P STDEVP VAR VAR.S VAR.P VARP CORREL SLOPE INTERCEPT RANK RANK.EQ PERCENTILE PERCENTILE.INC QUARTILE QUARTILE.INC
	ISBLANK ISERR ISERROR ISEVEN ISLOGICAL ISNA ISNONTEXT ISNUMBER ISODD ISTEXT NA
	AND FALSE IF IFERROR IFNA IFS NOT OR TRUE XOR
	DATE DAY DAYS EDATE EOMONTH HOUR MINUTE MONTH TIME WEEKDAY YEAR NETWORKDAYS
	CONCAT CONCATENATE EXACT FIND LEFT LEN LOWER MID PROPER REPLACE RIGHT SEARCH SUBSTITUTE TEXTJOIN TRIM UPPER
	CHOOSE COLUMN COLUMNS HLOOKUP INDEX MATCH ROW ROWS VLOOKUP
	FV IPMT NPER PMT PPMT PV RATE SLN SYD EFFECT NOMINAL`)

// numeric are those of them that yield numbers.
//
//nolint:gochecknoglobals // made once
var numeric = words(`ABS COS EXP INT LN LOG LOG10 MOD PI POWER PRODUCT QUOTIENT RADIANS ROUND ROUNDDOWN ROUNDUP SIGN SIN SQRT SUM SUMIF SUMIFS
	SUMPRODUCT TAN TRUNC AVERAGE AVERAGEIF AVERAGEIFS COUNT COUNTA COUNTIF COUNTIFS MAX MIN MEDIAN STDEV VAR RANK DATE DAY MONTH YEAR LEN`)

// words returns a set of words, which is made when it is first asked for: most runs of the
// program read no workbook.
func words(s string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		set := map[string]bool{}
		for _, w := range strings.Fields(s) {
			set[w] = true
		}
		return set
	})
}

// What the library calculates otherwise than spreadsheets do.
var (
	emptyCompared = lazyregexp.New(`[=>]\s*""|""\s*[=<]`)
	criteria      = lazyregexp.New(`(?i)\b(COUNT|SUM|AVERAGE|MAX|MIN)IFS?\(`)
	emptyText     = lazyregexp.New(`""`)
	caught        = lazyregexp.New(`(?i)\b(IFERROR|IFNA|ISNA|ISERR|ISERROR)\(`)
	fragile       = lazyregexp.New(`(?i)\bSUMPRODUCT\(`)
	condition     = lazyregexp.New(`(?i)\bIF\(`)
	arithmetic    = lazyregexp.New(`[A-Za-z]\(|[*/^-]`)
	text          = lazyregexp.New(`["&<>=]`)
	logical       = lazyregexp.New(`(?i)[<>=]|\b(AND|OR|NOT|XOR|IS[A-Z]+|EXACT|TRUE|FALSE)\b`)
	chosen        = lazyregexp.New(`(?i)\b(IF|IFS|IFERROR|IFNA|SWITCH|CHOOSE|INDEX|VLOOKUP|HLOOKUP)\(`)
	indexed       = lazyregexp.New(`(?i)\bINDEX\($`)
	operator      = lazyregexp.New(`[-*/^&<>=+]`)
	longNumber    = lazyregexp.New(`[0-9][0-9.]{15}`)
)

// odd says whether a formula is one of these. An empty text is not equal to an empty cell
// there, a number alone is no condition, an area of one row has no columns, and ranges are
// no operands.
func odd(formula string, l *lexer) bool {
	plain := blankTexts(formula)
	switch {
	case emptyCompared.MatchString(plain),
		criteria.MatchString(plain) && emptyText.MatchString(plain),
		caught.MatchString(plain) && fragile.MatchString(plain):
		return true
	}
	for _, at := range condition.FindAllStringIndex(plain, -1) {
		if !logical.MatchString(argument(plain[at[1]:])) {
			return true
		}
	}
	for _, r := range l.refs {
		if r.first == r.last {
			continue
		}
		before, after := strings.TrimRight(plain[:r.from], " "), strings.TrimLeft(plain[r.to:], " ")
		if !strings.HasSuffix(before, "(") && !strings.HasSuffix(before, ",") || !strings.HasPrefix(after, ")") && !strings.HasPrefix(after, ",") {
			return true
		}
		if r.first.row == r.last.row && indexed.MatchString(before) && !strings.Contains(withRow(formula), plain[r.from:r.to]+",1,") {
			return true
		}
	}
	return false
}

// withRow returns a formula in which each INDEX that has an area of one row and the number
// of a column, and nothing else, has the number of the row as well.
func withRow(formula string) string {
	refs := scanFormula(formula).refs
	for i := len(refs) - 1; i >= 0; i-- {
		r := refs[i]
		if r.first.row != r.last.row || r.first.row == 0 || !strings.HasSuffix(strings.ToUpper(formula[:r.from]), "INDEX(") || !strings.HasPrefix(formula[r.to:], ",") {
			continue
		}
		rest := formula[r.to+1:]
		if column := argument(blankTexts(rest)); strings.HasPrefix(rest[len(column):], ")") {
			formula = formula[:r.to] + ",1," + rest
		}
	}
	return formula
}

// argument returns a formula up to the end of the first argument.
func argument(formula string) string {
	depth := 0
	for i, c := range []byte(formula) {
		switch {
		case c == '(':
			depth++
		case depth == 0 && (c == ',' || c == ')'):
			return formula[:i]
		case c == ')':
			depth--
		}
	}
	return formula
}

// blankTexts returns a formula of the same length, in which texts consist of underlines.
func blankTexts(formula string) string {
	b := []byte(formula)
	for i := 0; i < len(b); i++ {
		if b[i] != '"' {
			continue
		}
		for i++; i < len(b) && (b[i] != '"' || i+1 < len(b) && b[i+1] == '"'); i++ {
			if b[i] == '"' {
				b[i] = '_'
				i++
			}
			b[i] = '_'
		}
	}
	return string(b)
}

var externalName = lazyregexp.New(`\[[^\[\]@#]*\][^\[\]()+*/,;&=<>^-]*!|\|`)

// A formulaCell is a cell whose formula may be calculated.
type formulaCell struct {
	*artifact.Cell
	sheet   int
	ranges  []area
	needs   int   // formulas that are to be calculated before
	needed  []int // formulas that are calculated after
	unknown bool  // it cannot be calculated, or one that it needs cannot
	number  bool  // it yields a number or an error, whatever it refers to
}

// An area is a rectangle of a sheet's cells.
type area struct {
	sheet       int
	first, last place
}

// A calculation is that of all formulas of a workbook.
type calculation struct {
	*book
	formulas []*formulaCell
	index    []map[int][]int // of each sheet, by column: numbers of formulas, by row
	used     []place         // of each sheet, the last row and column
	looked   int
}

// calculate gives the cells with formulas their values: the formulas are put in an order in
// which each comes after those that it needs, and calculated in a copy that holds nothing
// but values and formulas.
func (b *book) calculate() error {
	c := &calculation{book: b, index: make([]map[int][]int, len(b.sheets)), used: make([]place, len(b.sheets))}
	for i, s := range b.sheets {
		c.index[i] = map[int][]int{}
		for j := range s.Cells {
			cell := &s.Cells[j]
			c.used[i] = place{row: max(c.used[i].row, cell.Row), column: max(c.used[i].column, cell.Column)}
			// An error is lost when another cell refers to it: what does is left alone.
			isError := cell.Formula == "" && cell.Value.Kind == artifact.Failed
			if cell.Formula != "" || isError {
				c.index[i][cell.Column] = append(c.index[i][cell.Column], len(c.formulas))
				c.formulas = append(c.formulas, &formulaCell{Cell: cell, sheet: i, unknown: isError || s.arrays[[2]int{cell.Row, cell.Column}]})
			}
		}
	}
	if len(c.formulas) == 0 {
		return nil
	}
	for i, f := range c.formulas {
		c.study(f, i >= maxFormulas || b.date1904)
	}
	for i, f := range c.formulas {
		c.connect(i, f)
	}
	return c.run(c.order())
}

// study finds what a formula refers to, and whether it is one that can be calculated.
func (c *calculation) study(f *formulaCell, beyond bool) {
	l := scanFormula(f.Formula)
	if l.foreign && externalName.MatchString(blankTexts(f.Formula)) || slices.ContainsFunc(l.words, asksOutside) {
		f.Value, f.Uncomputed = artifact.Value{Kind: artifact.Failed, Text: blocked}, false
		return
	}
	f.unknown = f.unknown || beyond || l.foreign || len(f.Formula) > 4096 || odd(f.Formula, l)
	f.number = arithmetic.MatchString(f.Formula) && !text.MatchString(f.Formula)
	refs := l.refs
	for _, w := range l.words {
		switch {
		case strings.HasSuffix(w, "("):
			f.unknown = f.unknown || !known()[function(w)]
			f.number = f.number && numeric()[function(w)]
		case w == "TRUE" || w == "FALSE":
		default:
			named, ok := c.named(w, f.sheet)
			f.unknown = f.unknown || !ok || named.first != named.last && operator.MatchString(f.Formula)
			refs = append(refs, named)
		}
	}
	for _, r := range refs {
		a, ok := c.area(r, f.sheet)
		if ok {
			cells := max(0, a.last.row-a.first.row+1) * max(0, a.last.column-a.first.column+1)
			c.looked += cells
			f.ranges = append(f.ranges, a)
		}
		f.unknown = f.unknown || !ok || c.looked > maxLookedAt
	}
}

// asksOutside says whether a word is a function that asks a program, a server or another
// file. A name that is not called may be that of cells.
func asksOutside(word string) bool { return strings.HasSuffix(word, "(") && outside()[function(word)] }

// function returns the name of a function as a person writes it.
func function(word string) string {
	name, _ := strings.CutSuffix(word, "(")
	name = strings.TrimPrefix(name, "_XLFN.")
	return strings.TrimPrefix(name, "_XLWS.")
}

// named returns what a name stands for, if that is a reference.
func (c *calculation) named(name string, in int) (reference, bool) {
	for _, scope := range []int{in, -1} {
		for _, d := range c.names {
			if d.sheet != scope || !strings.EqualFold(d.name, name) {
				continue
			}
			l := scanFormula(d.formula)
			if len(l.refs) == 1 && len(l.words) == 0 && !l.foreign && l.refs[0].from == 0 && l.refs[0].to == len(d.formula) && l.refs[0].sheet != "" {
				return l.refs[0], true
			}
			return reference{}, false
		}
	}
	return reference{}, false
}

// area returns what a reference covers of the cells that are in use.
func (c *calculation) area(r reference, in int) (area, bool) {
	a := area{in, r.first, r.last}
	if r.sheet != "" {
		a.sheet = slices.IndexFunc(c.sheets, func(s *sheet) bool { return strings.EqualFold(s.Name, r.sheet) })
		if a.sheet < 0 {
			return area{}, false
		}
	}
	used := c.used[a.sheet]
	if a.first.row == 0 {
		a.first.row, a.last.row = 1, used.row
	}
	if a.first.column == 0 {
		a.first.column, a.last.column = 1, used.column
	}
	a.first.row, a.last.row = min(a.first.row, a.last.row), max(a.first.row, a.last.row)
	a.first.column, a.last.column = min(a.first.column, a.last.column), max(a.first.column, a.last.column)
	return a, true
}

// connect makes a formula wait for those that it refers to.
func (c *calculation) connect(i int, f *formulaCell) {
	if f.unknown || !f.Uncomputed {
		return
	}
	for _, a := range f.ranges {
		for column := a.first.column; column <= a.last.column; column++ {
			numbers := c.index[a.sheet][column]
			at, _ := slices.BinarySearchFunc(numbers, a.first.row, func(n, row int) int { return c.formulas[n].Row - row })
			for ; at < len(numbers) && c.formulas[numbers[at]].Row <= a.last.row; at++ {
				c.formulas[numbers[at]].needed = append(c.formulas[numbers[at]].needed, i)
				f.needs++
			}
		}
	}
}

// order returns the formulas, each after those that it needs. Those of a circle, and what
// needs them, are not among them.
func (c *calculation) order() []*formulaCell {
	var ready []int
	for i, f := range c.formulas {
		if f.needs == 0 {
			ready = append(ready, i)
		}
	}
	var order []*formulaCell
	for len(ready) > 0 {
		f := c.formulas[ready[0]]
		ready = ready[1:]
		order = append(order, f)
		for _, n := range f.needed {
			if c.formulas[n].needs--; c.formulas[n].needs == 0 {
				ready = append(ready, n)
			}
		}
	}
	return order
}

// run calculates formulas in order.
func (c *calculation) run(order []*formulaCell) error {
	copied, err := c.copy(order)
	if copied == nil || err != nil {
		return err
	}
	defer func() { _ = copied.file.Close() }()
	for i, f := range order {
		if f.Uncomputed && !f.unknown {
			f.unknown = !copied.value(f, i)
		}
		// What takes an error for its argument is left alone as well: the library takes the
		// error of another cell for an empty one.
		if f.unknown || f.Value.Kind == artifact.Failed {
			for _, n := range f.needed {
				c.formulas[n].unknown = true
			}
		}
	}
	return nil
}

// A sheetCopy is the workbook that is calculated, with a sheet that asks for the types of
// results.
type sheetCopy struct {
	file  *excelize.File
	names []string
	types string
}

// copy makes the workbook that is calculated, nil if it would be too large.
func (c *calculation) copy(order []*formulaCell) (*sheetCopy, error) {
	if !slices.ContainsFunc(order, func(f *formulaCell) bool { return f.Uncomputed && !f.unknown }) || c.grid() > maxGrid {
		return nil, nil
	}
	file := excelize.NewFile()
	copied := &sheetCopy{file: file, types: "types"}
	err := file.SetSheetName("Sheet1", "0")
	for _, s := range c.sheets {
		copied.names = append(copied.names, s.Name)
		if len(s.Name) >= len(copied.types) {
			copied.types = strings.Repeat("t", min(31, len(s.Name)+1))
		}
		if strings.EqualFold(s.Name, "0") {
			return nil, errors.Join(err, file.Close())
		}
		if _, failed := file.NewSheet(s.Name); failed != nil { // of a name that no program takes
			return nil, errors.Join(err, file.Close())
		}
	}
	_, failed := file.NewSheet(copied.types)
	err = errors.Join(err, failed)
	for _, d := range c.names {
		scope := ""
		if d.sheet >= 0 && d.sheet < len(c.sheets) {
			scope = c.sheets[d.sheet].Name
		}
		if _, plain := c.named(d.name, d.sheet); plain {
			_ = file.SetDefinedName(&excelize.DefinedName{Name: d.name, RefersTo: d.formula, Scope: scope})
		}
	}
	for i, s := range c.sheets {
		for j := range s.Cells {
			err = errors.Join(err, setCell(file, copied.names[i], &s.Cells[j]))
		}
	}
	for i, f := range order {
		if f.Uncomputed && !f.unknown {
			ref := "'" + strings.ReplaceAll(copied.names[f.sheet], "'", "''") + "'!" + artifact.CellName(f.Row, f.Column)
			err = errors.Join(err, file.SetCellFormula(copied.types, artifact.CellName(i+1, 1), ref), typeOf(file, copied.types, i, f.number, ref))
		}
	}
	if err != nil {
		return nil, refuse("has cells that cannot be calculated with: %.200s", err)
	}
	return copied, nil
}

// typeOf asks for the type of a formula's value, where that is not known.
func typeOf(file *excelize.File, sheet string, i int, isNumber bool, ref string) error {
	if isNumber {
		return nil
	}
	return file.SetCellFormula(sheet, artifact.CellName(i+1, 2), "TYPE("+ref+")")
}

// grid returns how many places the copy fills: every row up to the last, and of each all
// columns up to its last.
func (c *calculation) grid() int {
	places := 0
	for i, s := range c.sheets {
		if c.used[i].row > maxGridRow {
			return math.MaxInt
		}
		places += c.used[i].row
		for j := range s.Cells {
			if j+1 == len(s.Cells) || s.Cells[j+1].Row != s.Cells[j].Row {
				places += s.Cells[j].Column
			}
		}
	}
	return places
}

func setCell(file *excelize.File, sheet string, c *artifact.Cell) error {
	name := artifact.CellName(c.Row, c.Column)
	if c.Formula != "" {
		return file.SetCellFormula(sheet, name, withRow(c.Formula))
	}
	switch c.Value.Kind {
	case artifact.Number, artifact.Date:
		return file.SetCellFloat(sheet, name, c.Value.Number, -1, 64)
	case artifact.Bool:
		return file.SetCellBool(sheet, name, c.Value.Number != 0)
	case artifact.String:
		return file.SetCellStr(sheet, name, c.Value.Text)
	case artifact.Failed:
		return file.SetCellFormula(sheet, name, "NA()")
	}
	return nil
}

// value calculates a formula; it says whether that was possible. It is asked for from
// another cell, because the library keeps what it calculated only for cells that others ask
// for; an error is lost on that way.
func (s *sheetCopy) value(f *formulaCell, i int) bool {
	raw := excelize.Options{RawCellValue: true}
	text, err1 := s.file.CalcCellValue(s.types, artifact.CellName(i+1, 1), raw)
	kind, err2 := "1", error(nil)
	if !f.number {
		kind, err2 = s.file.CalcCellValue(s.types, artifact.CellName(i+1, 2), raw)
	}
	if err1 != nil || err2 != nil || text == "" {
		var err error
		text, err = s.file.CalcCellValue(s.names[f.sheet], artifact.CellName(f.Row, f.Column), raw)
		// Another message may be about what the library cannot do.
		if err != nil && (text == "#N/A" || slices.Contains([]string{"#DIV/0!", "#N/A", "#NUM!", "#VALUE!"}, err.Error())) {
			code := err.Error()
			if text == "#N/A" { // a lookup says more
				code = text
			}
			f.Value, f.Uncomputed = artifact.Value{Kind: artifact.Failed, Text: code}, false
			return true
		}
		if err != nil || err2 != nil {
			return false
		}
	}
	v, ok := typed(kind, text, dateCode(f.Format.Number))
	claims := f.Stored
	switch {
	case !ok:
		return false
	case claims != nil && claims.Kind == artifact.Bool && v.Kind == artifact.Number && claims.Number == v.Number && chosen.MatchString(f.Formula):
		return false // the library may have made a number of a Boolean
	case v.Kind == artifact.String && longNumber.MatchString(text):
		return false // with digits that no spreadsheet shows
	}
	f.Value, f.Uncomputed = v, false
	return true
}

// unclaim forgets what a writer stored that says itself that all is to be calculated, such
// as XlsxWriter, whose formulas all have the value 0.
func (b *book) unclaim() {
	if !b.recalculated {
		return
	}
	for _, s := range b.sheets {
		for i := range s.Cells {
			if c := &s.Cells[i]; !c.Uncomputed {
				c.Stored = nil
			}
		}
	}
}

// typed returns the value that a text stands for, by what TYPE says of it.
func typed(kind, text string, isDate bool) (artifact.Value, bool) {
	switch kind {
	case "1":
		v := artifact.Value{Kind: artifact.Number}
		if isDate {
			v.Kind = artifact.Date
		}
		if text == "" {
			return v, true
		}
		x, err := strconv.ParseFloat(text, 64)
		v.Number = x
		return v, err == nil && !math.IsInf(x, 0) && !math.IsNaN(x)
	case "2":
		return artifact.Value{Kind: artifact.String, Text: text}, true
	case "4":
		v := artifact.Value{Kind: artifact.Bool}
		if text == "TRUE" {
			v.Number = 1
		}
		return v, true
	}
	return artifact.Value{}, false
}
