// Package artifact is what a delivered file says once it has been read: a bounded, typed
// model of a table, a workbook, a document, a picture, an archive or plain data. It keeps
// the readers, which meet hostile files in a sandbox, apart from the rules that compare in
// the runner, which sees models alone.
package artifact

import (
	"cmp"
	"strconv"
)

// Type is the type of a file, as an output_spec names it.
type Type string

// The types of files.
const (
	CSV  Type = "csv"
	JSON Type = "json"
	Text Type = "text"
	XLSX Type = "xlsx"
	DOCX Type = "docx"
	PPTX Type = "pptx"
	PDF  Type = "pdf"
	PNG  Type = "png"
	JPEG Type = "jpeg"
	NPY  Type = "npy"
	ZIP  Type = "zip"
	Any  Type = "any" // of which the digest alone is known
)

// File is the model of one file. Of the fields after SHA256, those that its type has are
// set.
type File struct {
	Type   Type
	Bytes  int64
	SHA256 string // lower-case hexadecimal, of the file's bytes

	Table    *Table    // csv
	Text     *string   // json, text: in UTF-8, without a byte order mark
	Workbook *Workbook // xlsx
	Document *Document // docx, pptx, pdf
	Image    *Image    // png, jpeg
	Array    *Array    // npy
	Members  []Member  // zip, in the order of their names
}

// Table is a table of texts. Its first row is its header; all rows have as many fields.
type Table struct{ Rows [][]string }

// Workbook is what a spreadsheet says. Nothing in it was calculated by the program that
// wrote it: see [Cell].
type Workbook struct{ Sheets []Sheet }

// Sheet is one sheet, in the order of the workbook.
type Sheet struct {
	Name       string
	Hidden     bool
	Cells      []Cell // that are not empty and without a format, in the order of [ByPlace]
	Merged     []string
	Freeze     string // the top left cell of what scrolls, "" without frozen panes
	Filter     string // the range of its filter, "" without
	Charts     []Chart
	Pivots     []Pivot
	Conditions []Condition
}

// Kind is the kind of a cell's value.
type Kind uint8

// The kinds of values.
const (
	Empty Kind = iota
	Number
	String
	Bool
	Date
	Failed // an error value such as #REF!
)

// The last row and column of a sheet, and the letters that number columns.
const (
	MaxRow    = 1 << 20
	MaxColumn = 1 << 14
	Letters   = 26
)

// Cell is one cell. Its value is the stored one if it has no formula. Otherwise it is what
// the formula yields, and Stored is what the writer claims, where it stored something.
type Cell struct {
	Row, Column int // from 1 to [MaxRow] and [MaxColumn]
	Value       Value
	Formula     string // without =, "" without
	Stored      *Value // beside a formula
	Uncomputed  bool   // the formula could not be calculated: Value is the stored one
	Format      Format
}

// ByPlace compares the places of cells: by row, then by column.
func ByPlace(a, b Cell) int {
	return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Column, b.Column))
}

// CellName is the name of a cell, such as B7.
func CellName(row, column int) string { return ColumnName(column) + strconv.Itoa(row) }

// ColumnName is the name of a column, such as AB.
func ColumnName(column int) string {
	var b [4]byte
	i := len(b)
	for ; column > 0 && i > 0; column = (column - 1) / Letters {
		i--
		b[i] = byte('A' + (column-1)%Letters)
	}
	return string(b[i:])
}

// Value is the value of a cell.
type Value struct {
	Kind   Kind
	Number float64 // of a number, a date (days since 1899-12-30, in the 1900 system) or a Boolean
	Text   string  // of a text or an error
}

// Format is what a cell looks like, as far as rubrics ask.
type Format struct {
	Number       string // the number format's code
	Bold, Italic bool
	Underline    bool
	Font         string
	Size         float64
	Color, Fill  string // RRGGBB
	Link         string
}

// Chart is a chart of a sheet.
type Chart struct {
	Type, Title string
	Series      []Series
	Legend      bool
}

// Series names the ranges of a chart's series.
type Series struct{ Name, Categories, Values string }

// Pivot is a pivot table of a sheet.
type Pivot struct {
	Name, Source           string
	Rows, Columns, Filters []string
	Values                 []PivotValue
}

// PivotValue is a field whose values a pivot table summarises.
type PivotValue struct{ Field, Summary string }

// Condition is a conditional format of a sheet.
type Condition struct {
	Range, Type, Operator string
	Formulas              []string
	Format                Format
}

// Document is a text with pages or slides.
type Document struct {
	Pages  int     // of a PDF, slides of a presentation; 0 where only a renderer knows
	Blocks []Block // in order
}

// Block is a paragraph or a table of a document.
type Block struct {
	Page  int    // from 1; 0 where pages are not known
	Style string // the paragraph's style by name, "" without
	Text  string // of a paragraph
	Table [][]string
}

// Image is a picture. Its pixels are RGBA, not premultiplied.
type Image struct {
	Width, Height int
	Pixels        string // SHA-256 of width, height (4 bytes each, big-endian) and all pixels
	Small         []byte // luma of the picture at SmallSide x SmallSide, by rows
	// Shown is the picture for people, on white: a JPEG in which no byte of the file is,
	// at most [ShownSide] pixels on a side and [MaxShown] bytes.
	Shown []byte
}

// The bounds of the form of a picture that is for people.
const (
	ShownSide = 1024
	MaxShown  = 1 << 20
)

// SmallSide is the side of a picture's small form, in pixels.
const SmallSide = 256

// Array is an array of numbers in row-major order.
type Array struct {
	Shape  []int
	Values []float64
}

// Member is a file of an archive.
type Member struct {
	Name   string
	Bytes  int64
	SHA256 string
}
