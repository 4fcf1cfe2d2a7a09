package console

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"securebench/internal/redact"
)

// DefaultWidth is the width of what is printed to anything but a terminal.
const DefaultWidth = 80

const (
	minWidth = 40 // narrower terminals wrap the lines themselves
	gap      = 2  // columns between cells, and of the indentation of further rows
)

// width returns how many columns a line on w may use.
func width(w io.Writer) int {
	if columns := Columns(w); columns > 0 {
		return max(columns, minWidth)
	}
	return DefaultWidth
}

// Table lays out lines of cells in columns that fit the width of its writer.
// Cells are separated by tabs; lines without a tab are text. Consecutive lines of
// cells share their columns. What does not fit continues in the next row of its
// own column. In the first column that row is indented, so that text from outside
// cannot begin a line there.
//
// Cells must hold no control characters.
type Table struct {
	w     io.Writer
	width int
	buf   bytes.Buffer
}

// NewTable returns a table that Flush writes to w.
func NewTable(w io.Writer) *Table { return &Table{w: w, width: width(w)} }

// Write adds lines. It never fails.
func (t *Table) Write(p []byte) (int, error) { return t.buf.Write(p) }

// Line adds a line.
func (t *Table) Line(format string, args ...any) { fmt.Fprintf(&t.buf, format+"\n", args...) }

// More says how many rows were left out, if any were.
func (t *Table) More(n int) {
	if n > 0 {
		t.Line("  and %d more", n)
	}
}

// Cell makes a name from outside one word of at most limit characters, and "-" of an
// empty one.
func Cell[T ~string](s T, limit int) string {
	if s == "" {
		return "-"
	}
	return redact.QuoteShort(string(s), limit)
}

// Flush lays out the lines and writes them.
func (t *Table) Flush() error {
	var out strings.Builder
	var block [][]string
	flush := func() {
		layOut(&out, block, t.width)
		block = nil
	}
	for line := range strings.Lines(t.buf.String()) {
		line = strings.TrimSuffix(line, "\n")
		if strings.Contains(line, "\t") {
			block = append(block, strings.Split(line, "\t"))
			continue
		}
		flush()
		out.WriteString(strings.Join(fold(line, t.width, gap), "\n") + "\n")
	}
	flush()
	t.buf.Reset()
	_, err := io.WriteString(t.w, out.String())
	return err
}

// layOut writes lines that share their columns.
func layOut(out *strings.Builder, block [][]string, width int) {
	widths := columns(block, width)
	for _, cells := range block {
		rows, height := make([][]string, len(cells)), 1
		for i, cell := range cells {
			hang := 0
			if i == 0 {
				hang = gap
			}
			rows[i] = fold(cell, widths[i], hang)
			height = max(height, len(rows[i]))
		}
		for y := range height {
			var line strings.Builder
			for i, cell := range rows {
				text := ""
				if y < len(cell) {
					text = cell[y]
				}
				line.WriteString(text + strings.Repeat(" ", max(widths[i]-ansi.StringWidth(text), 0)+gap))
			}
			out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		}
	}
}

// columns returns the widths of the columns. If they do not fit, the widest of them get
// the same, smaller width, but none less than its longest word. Where such words do not
// fit beside each other, the longest of them are broken.
func columns(block [][]string, width int) []int {
	var widths, least []int
	for _, cells := range block {
		for i, cell := range cells {
			if i == len(widths) {
				widths, least = append(widths, 0), append(least, 0)
			}
			widths[i] = max(widths[i], ansi.StringWidth(cell))
			least[i] = max(least[i], longest(cell, i == 0))
		}
	}
	for i, w := range widths {
		least[i] = min(max(least[i], 2*gap), w)
	}
	room := width - gap*(len(widths)-1)
	for sum(least) > room {
		i := slices.Index(least, slices.Max(least))
		if least[i] <= 2*gap {
			break
		}
		least[i] = 2 * gap
	}
	for excess := sum(widths) - room; excess > 0 && shrink(widths, least, excess); {
		excess = sum(widths) - room
	}
	return widths
}

// longest returns the columns that a cell needs so that none of its words is broken.
func longest(cell string, first bool) (n int) {
	words := strings.Fields(cell)
	for _, word := range words {
		n = max(n, ansi.StringWidth(word))
	}
	n += len(cell) - len(strings.TrimLeft(cell, " "))
	if first && len(words) > 1 {
		n += gap // by which its further rows are indented
	}
	return n
}

func sum(widths []int) (n int) {
	for _, w := range widths {
		n += w
	}
	return n
}

// shrink takes at most excess columns from those that are the widest and have more than
// the least, down to the next widest. It reports whether there are any.
func shrink(widths, least []int, excess int) bool {
	widest, second, n := 0, 0, 0
	for i, w := range widths {
		switch {
		case w <= least[i]:
		case w > widest:
			widest, second, n = w, widest, 1
		case w == widest:
			n++
		default:
			second = max(second, w)
		}
	}
	if n == 0 {
		return false
	}
	each, more := excess/n, excess%n
	for i, w := range widths {
		if w == widest && w > least[i] {
			take := each
			if more > 0 {
				take, more = take+1, more-1
			}
			widths[i] = max(w-take, second, least[i])
		}
	}
	return true
}

// fold breaks text into rows of at most width columns, between words where it
// can. The rows after the first have the indentation of the first and hang more.
func fold(text string, width, hang int) []string {
	if ansi.StringWidth(text) <= width {
		return []string{text}
	}
	body := strings.TrimLeft(text, " ")
	const letter = 2 // the columns of a wide one
	first := strings.Repeat(" ", max(min(len(text)-len(body), width-hang-letter), 0))
	rows := breakLines(body, max(width-len(first)-hang, letter))
	indent := first
	for i, row := range rows {
		rows[i] = indent + row
		indent = first + strings.Repeat(" ", hang)
	}
	return rows
}

// Paragraphs lays out a text for so many columns: a paragraph with a line that is longer is
// broken anew. Lines that are indented, such as those of lists and commands, stay as they are.
func Paragraphs(text string, width int) string {
	var out, paragraph []string
	flush := func() {
		if slices.ContainsFunc(paragraph, func(line string) bool { return ansi.StringWidth(line) > width }) {
			paragraph = breakLines(strings.Join(paragraph, " "), width)
		}
		out, paragraph = append(out, paragraph...), nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			continue
		}
		flush()
		out = append(out, line)
	}
	flush()
	return strings.Join(out, "\n")
}

// breakLines breaks text at spaces, and words that are too long anywhere. Not at
// hyphens, as a library would: those of a command or a name would be lost.
func breakLines(text string, width int) []string {
	var rows []string
	row := ""
	for word := range strings.SplitAfterSeq(text, " ") {
		word, spaced := strings.CutSuffix(word, " ")
		if ansi.StringWidth(row)+ansi.StringWidth(word) > width {
			rows, row = append(rows, row), ""
		}
		pieces := strings.Split(ansi.Hardwrap(word, width, true), "\n")
		rows, row = append(rows, pieces[:len(pieces)-1]...), row+pieces[len(pieces)-1]
		if spaced && row != "" { // none begins a row
			row += " "
		}
	}
	rows = append(rows, row)
	for i := range rows {
		rows[i] = strings.TrimRight(rows[i], " ")
	}
	return slices.DeleteFunc(rows, func(row string) bool { return row == "" })
}

// shortDigest is how many digits of a digest a table shows.
const shortDigest = 12

// ShortDigest returns the first digits of a digest, without its algorithm.
func ShortDigest(d string) string {
	_, hex, ok := strings.Cut(d, ":")
	if !ok {
		hex = d
	}
	return hex[:min(len(hex), shortDigest)]
}
