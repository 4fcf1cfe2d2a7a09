package pack

import (
	"crypto/sha256"
	"hash/maphash"
	"slices"
)

// rowHash is the first half of a row's SHA-256. Half is enough: whoever wants
// to replace a loaded row needs a second preimage, not a collision.
type rowHash [16]byte

func hashRow(raw []byte) rowHash {
	sum := sha256.Sum256(raw)
	return rowHash(sum[:])
}

// hashChunk is the number of hashes in a chunk; chunks never move, so growing
// the list copies nothing.
const hashChunk = 1024

// rowHashes is a list of row hashes at 16 bytes each.
type rowHashes struct{ chunks [][]rowHash }

func (h *rowHashes) add(x rowHash) {
	last := len(h.chunks) - 1
	if last < 0 || len(h.chunks[last]) == hashChunk {
		h.chunks = append(h.chunks, make([]rowHash, 0, hashChunk))
		last++
	}
	h.chunks[last] = append(h.chunks[last], x)
}

func (h *rowHashes) at(i int) rowHash { return h.chunks[i/hashChunk][i%hashChunk] }

// idIndex finds duplicate ids at about 10 bytes per id. It keeps keyed 64-bit
// hashes, so a pair that it reports is very probably, but not certainly, a
// duplicate; the key is random, so no pack can be crafted to collide. Many
// buckets keep the unused capacity of growing slices small.
type idIndex struct {
	seed    maphash.Seed
	buckets [256][]uint64
}

func newIDIndex() *idIndex { return &idIndex{seed: maphash.MakeSeed()} }

func (x *idIndex) hash(id string) uint64 { return maphash.String(x.seed, id) }

func (x *idIndex) add(id string) {
	h := x.hash(id)
	x.buckets[h>>56] = append(x.buckets[h>>56], h)
}

// repeated returns up to limit hashes that occur more than once.
func (x *idIndex) repeated(limit int) map[uint64]bool {
	out := make(map[uint64]bool)
	for _, b := range x.buckets {
		slices.Sort(b)
		for i := 1; i < len(b) && len(out) < limit; i++ {
			if b[i] == b[i-1] {
				out[b[i]] = true
			}
		}
	}
	return out
}
