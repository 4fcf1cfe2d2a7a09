package progress_test

import (
	"strconv"
	"strings"
)

// screen is a terminal that interprets what attacks use: wrapping, carriage
// return, backspace, cursor and erase sequences.
type screen struct {
	width, col, row int
	rows            [][]rune
	pending         string // an incomplete escape sequence
	written         int    // bytes
}

func newScreen(width int) *screen { return &screen{width: width, rows: make([][]rune, 1)} }

func (s *screen) Write(p []byte) (int, error) {
	for _, r := range string(p) {
		s.put(r)
	}
	s.written += len(p)
	return len(p), nil
}

// reflow gives the screen another width, and breaks the rows that no longer fit, as
// terminals do. The cursor stays at the end of the last row.
func (s *screen) reflow(width int) {
	var rows [][]rune
	for _, row := range s.rows {
		row = []rune(strings.TrimRight(string(row), " "))
		for len(row) > width {
			rows, row = append(rows, row[:width]), row[width:]
		}
		rows = append(rows, row)
	}
	s.width, s.rows, s.row = width, rows, len(rows)-1
	s.col = len(rows[s.row])
}

func (s *screen) put(r rune) {
	switch {
	case s.pending != "":
		s.sequence(r)
	case r == '\x1b':
		s.pending = "\x1b"
	case r == '\n':
		s.down()
		s.col = 0
	case r == '\r':
		s.col = 0
	case r == '\b':
		s.col = max(s.col-1, 0)
	case r >= ' ' && r != 0x7f:
		s.draw(r)
	}
}

func (s *screen) draw(r rune) {
	cells := 1
	if r >= 0x1100 {
		cells = 2 // East Asian letters
	}
	if s.col+cells > s.width {
		s.down()
		s.col = 0
	}
	row := s.rows[s.row]
	for len(row) < s.col+cells {
		row = append(row, ' ')
	}
	row[s.col] = r
	s.rows[s.row] = row
	s.col += cells
}

func (s *screen) down() {
	if s.row++; s.row == len(s.rows) {
		s.rows = append(s.rows, nil)
	}
}

// sequence takes one more character of an escape sequence.
func (s *screen) sequence(r rune) {
	s.pending += string(r)
	if s.pending == "\x1b[" || r < '@' {
		return
	}
	arg := strings.TrimPrefix(s.pending[:len(s.pending)-1], "\x1b[")
	s.pending = ""
	n, err := strconv.Atoi(arg)
	if err != nil {
		n = 1
	}
	switch r {
	case 'A':
		s.row = max(s.row-n, 0)
	case 'H':
		s.row, s.col = 0, 0
	case 'J':
		if arg == "2" {
			s.rows = make([][]rune, s.row+1)
			return
		}
		s.rows = s.rows[:s.row+1]
		s.rows[s.row] = s.rows[s.row][:min(s.col, len(s.rows[s.row]))]
	case 'K':
		s.rows[s.row] = s.rows[s.row][:min(s.col, len(s.rows[s.row]))]
	}
}

// text returns the rows without trailing spaces and empty rows.
func (s *screen) text() []string {
	var out []string
	for _, r := range s.rows {
		if t := strings.TrimRight(string(r), " "); t != "" {
			out = append(out, t)
		}
	}
	return out
}
