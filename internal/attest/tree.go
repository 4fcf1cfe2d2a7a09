package attest

import (
	"crypto/sha256"

	"golang.org/x/mod/sumdb/tlog"

	"securebench/internal/digest"
)

// Tree computes the Merkle root of records as they are read: RFC 6962, one
// leaf per line without its newline. It holds one hash per level.
type Tree struct {
	size   int64
	levels []tlog.Hash // roots of full subtrees, of the set bits of size
}

// Add appends a leaf.
func (t *Tree) Add(line []byte) {
	h := tlog.RecordHash(line)
	for n := t.size; n&1 == 1; n >>= 1 {
		last := len(t.levels) - 1
		h = tlog.NodeHash(t.levels[last], h)
		t.levels = t.levels[:last]
	}
	t.levels = append(t.levels, h)
	t.size++
}

// Root returns the digest of the leaves added so far.
func (t *Tree) Root() string {
	if t.size == 0 {
		empty := sha256.Sum256(nil)
		return digest.Format(empty[:])
	}
	h := t.levels[len(t.levels)-1]
	for i := len(t.levels) - 2; i >= 0; i-- {
		h = tlog.NodeHash(t.levels[i], h)
	}
	return digest.Format(h[:])
}
