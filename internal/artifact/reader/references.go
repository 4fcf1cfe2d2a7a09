package reader

import (
	"strconv"
	"strings"

	"securebench/internal/artifact"
)

// parseCell reads the name of a cell, without signs for absolute ones.
func parseCell(s string) (column, row int, ok bool) {
	i := 0
	for ; i < len(s) && i < 3 && s[i] >= 'A' && s[i] <= 'Z'; i++ {
		column = column*26 + int(s[i]-'A') + 1
	}
	digits := s[i:]
	if i == 0 || digits == "" || len(digits) > 7 || digits[0] == '0' {
		return 0, 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, 0, false
		}
		row = row*10 + int(c-'0')
	}
	return column, row, column <= artifact.MaxColumn && row <= artifact.MaxRow
}

// parseRange reads a cell or a range of cells, as row and column.
func parseRange(s string) (first, last [2]int, ok bool) {
	from, to, two := strings.Cut(plainRange(s), ":")
	if !two {
		to = from
	}
	c1, r1, ok1 := parseCell(from)
	c2, r2, ok2 := parseCell(to)
	return [2]int{min(r1, r2), min(c1, c2)}, [2]int{max(r1, r2), max(c1, c2)}, ok1 && ok2
}

// plainRange returns a range without signs for absolute rows and columns.
func plainRange(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "$", "")) }

// A reference is a cell, a range, or whole rows or columns, as a formula names them.
type reference struct {
	from, to    int    // bytes of the formula
	sheet       string // "" if none is named
	first, last place
}

// A place is a corner of a reference: of whole columns the row is 0, of whole rows the
// column.
type place struct {
	row, column       int
	fixRow, fixColumn bool
}

// A lexer splits a formula as far as its references need it.
type lexer struct {
	formula string
	at      int
	refs    []reference
	words   []string // names, of functions with their parenthesis
	foreign bool     // brackets: another file, or a table's column
}

// scanFormula finds what a formula refers to.
func scanFormula(formula string) *lexer {
	l := &lexer{formula: formula}
	for l.at < len(formula) {
		switch c := formula[l.at]; {
		case c == '"':
			l.quoted('"')
		case c == '\'':
			l.sheetName()
		case c == '[':
			l.foreign = true
			l.at++
		case c == '#': // an error's name, with a sign after it
			l.at++
			for l.at < len(formula) && (wordByte(formula[l.at]) || strings.IndexByte("/!?", formula[l.at]) >= 0) {
				l.at++
			}
		case c >= '0' && c <= '9':
			l.numberOrRows()
		case wordByte(c) || c == '$':
			l.word("", l.at)
		default:
			l.at++
		}
	}
	return l
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '\\' || c == '?' || c >= 0x80
}

// quoted passes a text in quotes, in which two are one, and returns it.
func (l *lexer) quoted(q byte) string {
	var out strings.Builder
	for l.at++; l.at < len(l.formula); l.at++ {
		if l.formula[l.at] == q {
			if l.at+1 == len(l.formula) || l.formula[l.at+1] != q {
				l.at++
				break
			}
			l.at++
		}
		out.WriteByte(l.formula[l.at])
	}
	return out.String()
}

func (l *lexer) sheetName() {
	from := l.at
	name := l.quoted('\'')
	if l.at < len(l.formula) && l.formula[l.at] == '!' {
		l.at++
		l.foreign = l.foreign || strings.ContainsAny(name, "[]|")
		l.word(name, from)
	}
}

// run returns the next bytes that may be of a word.
func (l *lexer) run() string {
	from := l.at
	for l.at < len(l.formula) && (wordByte(l.formula[l.at]) || l.formula[l.at] == '$') {
		l.at++
	}
	return l.formula[from:l.at]
}

func (l *lexer) numberOrRows() {
	from := l.at
	text := l.run()
	if l.at < len(l.formula) && (l.formula[l.at] == '!' || l.formula[l.at] == ':') {
		l.at = from
		l.word("", from)
		return
	}
	if e := text[len(text)-1]; (e == 'e' || e == 'E') && l.at < len(l.formula) && (l.formula[l.at] == '+' || l.formula[l.at] == '-') {
		l.at++
		l.run()
	}
}

// word reads a name, a reference, or the name of a sheet with one after it.
func (l *lexer) word(sheet string, from int) {
	text := l.run()
	if l.at < len(l.formula) && l.formula[l.at] == '!' && sheet == "" && text != "" {
		l.at++
		l.word(text, from)
		return
	}
	if l.at < len(l.formula) && l.formula[l.at] == '|' { // a conversation with a program
		l.foreign = true
	}
	first, ok := parsePlace(text)
	whole := first.row == 0 || first.column == 0
	rest := l.formula[l.at:]
	if strings.HasPrefix(rest, "(") || (!ok || whole) && strings.HasPrefix(strings.TrimLeft(rest, " \t\r\n"), "(") {
		l.words = append(l.words, strings.ToUpper(text)+"(")
		return
	}
	last, two := first, false
	if ok && l.at < len(l.formula) && l.formula[l.at] == ':' {
		back := l.at
		l.at++
		second, ok2 := parsePlace(l.run())
		if two = ok2 && (second.row == 0) == (first.row == 0) && (second.column == 0) == (first.column == 0); two {
			last = second
		} else {
			l.at = back
		}
	}
	switch {
	case ok && (two || !whole):
		l.refs = append(l.refs, reference{from, l.at, sheet, first, last})
	case text != "":
		l.words = append(l.words, strings.ToUpper(text))
	default:
		l.at++
	}
}

// parsePlace reads a cell, a column or a row, with or without signs.
func parsePlace(s string) (p place, ok bool) {
	rest := s
	cut := func(fix *bool) {
		if after, found := strings.CutPrefix(rest, "$"); found {
			rest, *fix = after, true
		}
	}
	cut(&p.fixColumn)
	letters := 0
	for letters < len(rest) && letters < 4 && (rest[letters]|0x20) >= 'a' && (rest[letters]|0x20) <= 'z' {
		p.column = p.column*26 + int(rest[letters]|0x20-'a') + 1
		letters++
	}
	rest = rest[letters:]
	if letters == 0 {
		p.fixRow, p.fixColumn = p.fixColumn, false
	} else {
		cut(&p.fixRow)
	}
	if rest == "" && letters > 0 && !p.fixRow {
		return p, letters < 4 && p.column <= artifact.MaxColumn
	}
	n, err := strconv.ParseUint(rest, 10, 31)
	p.row = int(n)
	return p, err == nil && n > 0 && n <= artifact.MaxRow && letters < 4 && p.column <= artifact.MaxColumn
}

// moved returns a formula as it is in a cell so many rows and columns further.
func moved(formula string, rows, columns int) string {
	var out strings.Builder
	done := 0
	for _, r := range scanFormula(formula).refs {
		text := formula[r.from:r.to]
		at := strings.LastIndexByte(text, '!') + 1 // no reference has one after its sheet
		out.WriteString(formula[done : r.from+at])
		first, ok1 := r.first.moved(rows, columns)
		last, ok2 := r.last.moved(rows, columns)
		switch {
		case !ok1 || !ok2:
			out.WriteString("#REF!")
		case strings.Contains(text[at:], ":"):
			out.WriteString(first.String() + ":" + last.String())
		default:
			out.WriteString(first.String())
		}
		done = r.to
	}
	out.WriteString(formula[done:])
	return out.String()
}

func (p place) moved(rows, columns int) (place, bool) {
	if p.row > 0 && !p.fixRow {
		if p.row += rows; p.row < 1 || p.row > artifact.MaxRow {
			return p, false
		}
	}
	if p.column > 0 && !p.fixColumn {
		if p.column += columns; p.column < 1 || p.column > artifact.MaxColumn {
			return p, false
		}
	}
	return p, true
}

func (p place) String() string {
	s := ""
	if p.column > 0 {
		s = map[bool]string{true: "$"}[p.fixColumn] + artifact.ColumnName(p.column)
	}
	if p.row > 0 {
		s += map[bool]string{true: "$"}[p.fixRow] + strconv.Itoa(p.row)
	}
	return s
}
