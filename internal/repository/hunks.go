package repository

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"sort"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// context is how many unchanged lines are around a change.
const context = 3

// edit replaces lines [a0,a1) of the old side by lines [b0,b1) of the new one.
type edit struct{ a0, a1, b0, b1 int }

// writeHunks writes the difference of two texts. An error of w stays in it, and
// is seen when it is flushed.
func writeHunks(w *bufio.Writer, before, after []byte) {
	a, b := slices.Collect(bytes.Lines(before)), slices.Collect(bytes.Lines(after))
	edits := compareLines(a, b)
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].a0-edits[n-1].a1 <= 2*context {
			n++
		}
		writeHunk(w, a, b, edits[:n])
		edits = edits[n:]
	}
}

// writeHunk writes edits that are near each other.
func writeHunk(w *bufio.Writer, a, b [][]byte, edits []edit) {
	first, last := edits[0], edits[len(edits)-1]
	lead := min(context, first.a0)
	trail := min(context, len(a)-last.a1)
	fmt.Fprintf(w, "@@ -%s +%s @@\n", span(first.a0-lead, last.a1+trail), span(first.b0-lead, last.b1+trail))
	at := first.a0 - lead
	for _, e := range edits {
		writeLines(w, ' ', a[at:e.a0])
		writeLines(w, '-', a[e.a0:e.a1])
		writeLines(w, '+', b[e.b0:e.b1])
		at = e.a1
	}
	writeLines(w, ' ', a[at:at+trail])
}

// span is a range of lines as hunks name it.
func span(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(from + 1)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

func writeLines(w *bufio.Writer, sign byte, lines [][]byte) {
	for _, line := range lines {
		_ = w.WriteByte(sign)
		_, _ = w.Write(line)
		if line[len(line)-1] != '\n' {
			_, _ = w.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// compareLines returns the edits that make b of a. Lines that occur once on
// each side are held fast first, in the longest sequence that both have in the
// same order; between them the difference is a shortest one as far as the
// library looks for it. So time and memory grow with the number of lines, not
// with its square.
func compareLines(a, b [][]byte) []edit {
	ids := map[string]int32{}
	x, y := number(a, ids), number(b, ids)
	var edits []edit
	at := [2]int{}
	for _, p := range append(anchors(x, y, len(ids)), [2]int{len(x), len(y)}) {
		if gapX, gapY := x[at[0]:p[0]], y[at[1]:p[1]]; len(gapX) == 0 || len(gapY) == 0 {
			edits = join(edits, edit{at[0], p[0], at[1], p[1]})
		} else {
			for _, d := range lcs.DiffRunes(gapX, gapY) {
				edits = join(edits, edit{at[0] + d.Start, at[0] + d.End, at[1] + d.ReplStart, at[1] + d.ReplEnd})
			}
		}
		at = [2]int{p[0] + 1, p[1] + 1}
	}
	return edits
}

// number replaces lines by numbers, equal ones by the same.
func number(lines [][]byte, ids map[string]int32) []rune {
	out := make([]rune, len(lines))
	for i, line := range lines {
		id, ok := ids[string(line)]
		if !ok {
			id = int32(len(ids)) //nolint:gosec // bounded by maxLines
			ids[string(line)] = id
		}
		out[i] = id
	}
	return out
}

// join appends an edit, unless it is empty. Edits that touch are one.
func join(edits []edit, e edit) []edit {
	if e.a0 == e.a1 && e.b0 == e.b1 {
		return edits
	}
	if n := len(edits) - 1; n >= 0 && edits[n].a1 == e.a0 && edits[n].b1 == e.b0 {
		edits[n].a1, edits[n].b1 = e.a1, e.b1
		return edits
	}
	return append(edits, e)
}

// anchors returns the places of the lines that are held fast.
func anchors(x, y []rune, ids int) [][2]int {
	type place struct{ n, at int } // how often, and where last
	inX, inY := make([]place, ids), make([]place, ids)
	for i, id := range x {
		inX[id] = place{inX[id].n + 1, i}
	}
	for i, id := range y {
		inY[id] = place{inY[id].n + 1, i}
	}
	var pairs [][2]int // of lines that are unique, in order of x
	for i, id := range x {
		if inX[id].n == 1 && inY[id].n == 1 {
			pairs = append(pairs, [2]int{i, inY[id].at})
		}
	}
	return increasing(pairs)
}

// increasing returns a longest sequence of pairs whose second parts increase.
func increasing(pairs [][2]int) [][2]int {
	var tails []int // the pair that ends the best sequence of each length
	before := make([]int, len(pairs))
	for i, p := range pairs {
		n := sort.Search(len(tails), func(k int) bool { return pairs[tails[k]][1] >= p[1] })
		before[i] = -1
		if n > 0 {
			before[i] = tails[n-1]
		}
		if n == len(tails) {
			tails = append(tails, i)
		} else {
			tails[n] = i
		}
	}
	out := make([][2]int, len(tails))
	if len(tails) == 0 {
		return out
	}
	for i, n := tails[len(tails)-1], len(tails)-1; i >= 0; i, n = before[i], n-1 {
		out[n] = pairs[i]
	}
	return out
}
