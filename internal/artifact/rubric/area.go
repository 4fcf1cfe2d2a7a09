package rubric

import (
	"fmt"
	"strconv"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/source"
)

// maxAreas is how many ranges a rubric may name.
const maxAreas = 256

// area is a rectangle of cells, with its last ones.
type area struct {
	top, left, bottom, right int
	name                     string
}

func (a area) has(row, column int) bool {
	return row >= a.top && row <= a.bottom && column >= a.left && column <= a.right
}

// areas reads ranges: cells, rectangles, whole columns or rows, separated by commas.
func areas(n *source.Node, what string) (out []area, p *source.Problem) {
	s, p := n.Str(what)
	if p != nil {
		return nil, p
	}
	parts := strings.Split(s, ",")
	if len(parts) > maxAreas {
		return nil, source.Problemf(n.Pos, "%s has more than %d ranges", what, maxAreas)
	}
	for _, part := range parts {
		a, ok := areaOf(strings.TrimSpace(part))
		if !ok {
			return nil, &source.Problem{Pos: n.Pos, Message: fmt.Sprintf("%s has %s, which is no range", what, shown(part)), Fix: "such as A1:C10, B:B or 2:5"}
		}
		out = append(out, a)
	}
	return out, nil
}

func areaOf(s string) (area, bool) {
	from, to, found := strings.Cut(strings.ToUpper(strings.ReplaceAll(s, "$", "")), ":")
	if !found {
		to = from
	}
	left, top, ok1 := corner(from)
	right, bottom, ok2 := corner(to)
	a := area{top, left, bottom, right, s}
	switch {
	case !ok1 || !ok2 || (top == 0) != (bottom == 0) || (left == 0) != (right == 0):
		return a, false
	case top == 0 && left == 0, (top == 0 || left == 0) && !found:
		return a, false
	case top == 0:
		a.top, a.bottom = 1, artifact.MaxRow
	case left == 0:
		a.left, a.right = 1, artifact.MaxColumn
	}
	return a, a.top <= a.bottom && a.left <= a.right && a.bottom <= artifact.MaxRow && a.right <= artifact.MaxColumn
}

// corner reads a cell's name, of which either part may be missing: it is 0 then.
func corner(s string) (column, row int, ok bool) {
	i := 0
	for ; i < len(s) && s[i] >= 'A' && s[i] <= 'Z'; i++ {
		if column = column*artifact.Letters + int(s[i]-'A') + 1; column > artifact.MaxColumn {
			return 0, 0, false
		}
	}
	if i == len(s) {
		return column, 0, true
	}
	row, err := strconv.Atoi(s[i:])
	return column, row, err == nil && row > 0 && s[i] != '+'
}
