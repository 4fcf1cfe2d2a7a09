package rubric

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
)

// The bounds of what is compared without an order.
const (
	maxKeyed = 1 << 20 // rows that are joined by a key
	maxItems = 1 << 18 // rows, or elements, in any order
	maxLoose = 1 << 20 // values of these rows
	// What it may cost to find which row is which, where numbers may differ, in pairs
	// of rows.
	pairsAtLeast = 1 << 16
	pairsPerRow  = 64
	pairsAtMost  = 1 << 22
)

// item is a row, or an element of a list, among others in any order.
type item struct {
	key     [16]byte  // digest of all but its numbers, and of where these stand
	numbers []float64 // that may differ
	index   int       // where it was
}

func keyOf(b []byte) (out [16]byte) {
	sum := sha256.Sum256(b)
	copy(out[:], sum[:])
	return out
}

func byItem(a, b item) int {
	return cmp.Or(bytes.Compare(a.key[:], b.key[:]), slices.Compare(a.numbers, b.numbers))
}

// unordered pairs items of the candidate with those of the reference, one to one. How
// numbers may differ follows from the place of an item of the reference.
type unordered struct {
	got, want []item
	near      func(index int) []leniency
	budget    int // of pairs that may still be looked at
	what      string
}

// compare adds what is left over on either side.
func (u *unordered) compare(d *differences) {
	u.budget = pairsAtLeast + min(pairsAtMost, pairsPerRow*len(u.want))
	slices.SortFunc(u.got, byItem)
	slices.SortFunc(u.want, byItem)
	for got, want := u.got, u.want; len(got) > 0 || len(want) > 0; {
		key := lowest(got, want)
		var a, b []item
		a, got = cut(got, key)
		b, want = cut(want, key)
		if !u.group(a, b, d) {
			return
		}
	}
}

// lowest is the lower of the first keys.
func lowest(a, b []item) [16]byte {
	if len(b) == 0 || len(a) > 0 && bytes.Compare(a[0].key[:], b[0].key[:]) < 0 {
		return a[0].key
	}
	return b[0].key
}

// cut cuts the items with a key off the front.
func cut(items []item, key [16]byte) (front, rest []item) {
	n := 0
	for n < len(items) && items[n].key == key {
		n++
	}
	return items[:n], items[n:]
}

// group compares items that differ in their numbers alone, and reports whether more
// differences are of any use.
func (u *unordered) group(got, want []item, d *differences) bool {
	if len(got) == len(want) && u.sameOrder(got, want) {
		return true
	}
	m := newMatching(u, got, want)
	m.greedy()
	m.augment()
	more := true
	for i, g := range got {
		if m.owner[i] < 0 {
			more = d.add("%s %d is not wanted, or not so often", u.what, g.index+1) && more
		}
	}
	for i, w := range want {
		if m.partner[i] < 0 {
			more = d.add("%s %d of the reference is missing", u.what, w.index+1) && more
		}
	}
	return more
}

// sameOrder reports whether sorted items are equal one by one, as they mostly are.
func (u *unordered) sameOrder(got, want []item) bool {
	if len(want) == 0 {
		return true
	}
	near := u.near(want[0].index)
	for i := range want {
		if !equalNumbers(near, got[i].numbers, want[i].numbers) {
			return false
		}
	}
	return true
}

func equalNumbers(near []leniency, got, want []float64) bool {
	for i, l := range near {
		if !l.near(got[i], want[i]) {
			return false
		}
	}
	return true
}

// matching finds which item is which where numbers may differ.
type matching struct {
	u              *unordered
	got, want      []item
	near           []leniency
	column         int   // that tells most items apart
	order          []int // of the candidate's items by that column
	partner, owner []int // of an item of the reference, of the candidate; or -1
	left, right    []int // the next place in order that is free, at or beside a place; shifted by 1
}

func newMatching(u *unordered, got, want []item) *matching {
	m := &matching{u: u, got: got, want: want, partner: all(len(want), -1), owner: all(len(got), -1)}
	if len(got) == 0 || len(want) == 0 {
		return m
	}
	m.near = u.near(want[0].index)
	if len(m.near) == 0 {
		for i := range min(len(got), len(want)) {
			m.partner[i], m.owner[i] = i, i
		}
		return m
	}
	fewest := math.MaxInt
	for c := range m.near {
		order := m.sorted(c)
		if n := m.windows(c, order); n < fewest {
			fewest, m.column, m.order = n, c, order
		}
	}
	m.left, m.right = places(len(got)+2), places(len(got)+2)
	return m
}

func all(n, v int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// places are the numbers from 0 to n-1.
func places(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// sorted is the order of the candidate's items by one number.
func (m *matching) sorted(c int) []int {
	order := places(len(m.got))
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(m.got[a].numbers[c], m.got[b].numbers[c]) })
	return order
}

// windows counts how many items of the candidate each of the reference could be by one
// number.
func (m *matching) windows(c int, order []int) (n int) {
	for _, w := range m.want {
		v, l := w.numbers[c], m.near[c]
		n += m.first(c, order, v+l.span(v)) - m.first(c, order, v-l.span(v))
	}
	return n
}

// span is a reach that is a little longer than it must be.
func (l leniency) span(want float64) float64 {
	return l.reach(want)*(1+nearly) + 4*rounding*math.Abs(want)
}

// first is the first place in an order whose number is at least v.
func (m *matching) first(c int, order []int, v float64) int {
	i, _ := slices.BinarySearchFunc(order, v, func(at int, v float64) int { return cmp.Compare(m.got[at].numbers[c], v) })
	return i
}

// free finds the next free place from i on in one direction, and shortens the way.
func free(way []int, i int) int {
	root := i
	for way[root] != root {
		root = way[root]
	}
	for way[i] != root {
		way[i], i = root, way[i]
	}
	return root
}

// greedy gives each item of the reference the nearest free one that is equal.
func (m *matching) greedy() {
	if m.order == nil {
		return
	}
	for i := range m.want {
		v := m.want[i].numbers[m.column]
		span := m.near[m.column].span(v)
		start := m.first(m.column, m.order, v)
		l, r := free(m.left, start), free(m.right, start+1)
		for m.u.budget > 0 {
			dl, dr := math.Inf(1), math.Inf(1)
			if l > 0 {
				dl = v - m.number(l-1)
			}
			if r <= len(m.order) {
				dr = m.number(r-1) - v
			}
			if min(dl, dr) > span {
				break
			}
			at := r
			if dl <= dr {
				at = l
			}
			m.u.budget--
			if m.take(i, at) {
				break
			}
			if at == l {
				l = free(m.left, l-1)
			} else {
				r = free(m.right, r+1)
			}
		}
	}
}

// number is the telling number at a place of the order.
func (m *matching) number(place int) float64 { return m.got[m.order[place]].numbers[m.column] }

// take pairs an item of the reference with what is at a place, if they are equal.
func (m *matching) take(want, at int) bool {
	got := m.order[at-1]
	if !equalNumbers(m.near, m.got[got].numbers, m.want[want].numbers) {
		return false
	}
	m.partner[want], m.owner[got] = got, want
	m.left[at], m.right[at] = at-1, at+1
	return true
}

// augment looks, for each item without a partner, for others that can give theirs up for
// another.
func (m *matching) augment() {
	if m.order == nil {
		return
	}
	seen, from := all(len(m.got), -1), make([]int, len(m.got))
	for i := range m.want {
		if m.partner[i] < 0 {
			m.exchange(i, seen, from)
		}
	}
}

func (m *matching) exchange(start int, seen, from []int) {
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		w := queue[0]
		v := m.want[w].numbers[m.column]
		span := m.near[m.column].span(v)
		for p := m.first(m.column, m.order, v-span); p < len(m.order) && m.number(p) <= v+span; p++ {
			if m.u.budget--; m.u.budget < 0 {
				return
			}
			g := m.order[p]
			if seen[g] == start || !equalNumbers(m.near, m.got[g].numbers, m.want[w].numbers) {
				continue
			}
			seen[g], from[g] = start, w
			if m.owner[g] >= 0 {
				queue = append(queue, m.owner[g])
				continue
			}
			for g >= 0 { // hand all on
				w := from[g]
				g, m.partner[w], m.owner[g] = m.partner[w], g, w
			}
			return
		}
	}
}

// asMultiset compares rows in any order, each as a whole: columns that are right one by
// one, in rows that are not, do not fit.
func (j *join) asMultiset(d *differences) error {
	if j.want.rows > maxItems || j.want.rows*len(j.pairs) > maxLoose {
		return fmt.Errorf("the reference has more than %d rows or %d values to compare in any order: give it a key", maxItems, maxLoose)
	}
	if len(d.lines) > 0 {
		return nil // their numbers differ already
	}
	u := unordered{what: "row",
		got:  j.items(j.got, func(p pair) int { return p.got }),
		want: j.items(j.want, func(p pair) int { return p.want }),
		near: func(row int) (out []leniency) {
			for _, p := range j.pairs {
				if p.loose(j.want.at(row, p.want)) {
					out = append(out, p.leniency)
				}
			}
			return out
		},
	}
	u.compare(d)
	return nil
}

// loose reports whether a value is a number, which may differ.
func (l leniency) loose(s scalar) bool {
	k := l.plain(s).kind
	return k == number || k == date
}

func (j *join) items(g grid, at func(pair) int) []item {
	out := make([]item, g.rows)
	numbers := make([]float64, 0, g.rows*len(j.pairs))
	var b []byte
	for row := range out {
		start := len(numbers)
		b = b[:0]
		for _, p := range j.pairs {
			v := g.at(row, at(p))
			if b = p.appendKey(b, v, true); p.loose(v) {
				numbers = append(numbers, v.number)
			}
		}
		out[row] = item{keyOf(b), numbers[start:len(numbers):len(numbers)], row}
	}
	return out
}
