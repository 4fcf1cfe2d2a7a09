package redact

import (
	"maps"
	"slices"
)

// automaton finds all patterns in one pass (Aho-Corasick). A node has a list of
// children, not a table: a long secret makes millions of nodes, and ordinary
// text rarely leaves the root.
type automaton struct {
	nodes []node
	root  [256]int32
	// pairs has a bit for every two bytes that may begin a pattern, so that
	// text can be skipped quickly at the root.
	pairs [1 << 16 / 64]uint64
	marks []string
}

// node is a prefix of a pattern. Node 0 is the root.
type node struct {
	child, next int32 // first child, next sibling; 0 is none
	fail        int32 // the longest proper suffix that is a prefix too
	depth       int32
	// match is the length of the longest pattern that ends here, 0 if none
	// does; mark is the index of its replacement.
	match int32
	mark  int32
	b     byte
}

func newAutomaton(patterns map[string]int, marks []string) *automaton {
	a := &automaton{nodes: make([]node, 1), marks: slices.Clone(marks)}
	for _, p := range slices.Sorted(maps.Keys(patterns)) {
		a.insert(p, patterns[p])
	}
	a.link()
	return a
}

func (a *automaton) insert(p string, mark int) {
	for _, second := range []byte{p[1], '\n', '\r'} { // a pattern may be wrapped anywhere
		pair := uint16(p[0])<<8 | uint16(second)
		a.pairs[pair>>6] |= 1 << (pair & 63)
	}
	s := int32(0)
	for i := range len(p) {
		t := a.step(s, p[i])
		if t == 0 {
			t = int32(len(a.nodes))
			a.nodes = append(a.nodes, node{b: p[i], depth: int32(i + 1), next: a.nodes[s].child})
			a.nodes[s].child = t
			if s == 0 {
				a.root[p[i]] = t
			}
		}
		s = t
	}
	a.nodes[s].match, a.nodes[s].mark = int32(len(p)), int32(mark)
}

// step returns the child of s by b, 0 if there is none.
func (a *automaton) step(s int32, b byte) int32 {
	if s == 0 {
		return a.root[b]
	}
	t := a.nodes[s].child
	for t != 0 && a.nodes[t].b != b {
		t = a.nodes[t].next
	}
	return t
}

// link sets the fail links, shallow nodes first.
func (a *automaton) link() {
	queue := []int32{0}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for t := a.nodes[s].child; t != 0; t = a.nodes[t].next {
			queue = append(queue, t)
			if s == 0 {
				continue
			}
			n := &a.nodes[t]
			n.fail = a.move(a.nodes[s].fail, n.b)
			if f := a.nodes[n.fail]; n.match == 0 {
				n.match, n.mark = f.match, f.mark
			}
		}
	}
}

// move returns the state after byte b in state s.
func (a *automaton) move(s int32, b byte) int32 {
	for {
		if t := a.step(s, b); t != 0 || s == 0 {
			return t
		}
		s = a.nodes[s].fail
	}
}

// skip returns the first index from i on at which a pattern may begin, or the
// last index, because the next byte is still unknown.
func (a *automaton) skip(b []byte, i int) int {
	for ; i < len(b)-1; i++ {
		pair := uint16(b[i])<<8 | uint16(b[i+1])
		if a.pairs[pair>>6]&(1<<(pair&63)) != 0 {
			return i
		}
	}
	return i
}
