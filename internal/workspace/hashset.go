package workspace

// hashSet is a set of 64-bit hashes in an open table that is at most seven
// eighths full: packs have many tasks, and a Go map takes three times as much.
// The zero value is an empty set.
type hashSet struct {
	slots []uint64 // 0 is free
	n     int
}

// slot is where h is, or where it belongs.
func (s *hashSet) slot(h uint64) int {
	mask := uint64(len(s.slots) - 1)
	i := h & mask
	for s.slots[i] != 0 && s.slots[i] != h {
		i = (i + 1) & mask
	}
	return int(i)
}

func (s *hashSet) has(h uint64) bool {
	h = max(h, 1) // 0 means free
	return s.slots != nil && s.slots[s.slot(h)] == h
}

func (s *hashSet) add(h uint64) {
	h = max(h, 1)
	if s.has(h) {
		return
	}
	if s.n+1 > len(s.slots)/8*7 {
		s.grow()
	}
	s.slots[s.slot(h)] = h
	s.n++
}

func (s *hashSet) grow() {
	old := s.slots
	s.slots = make([]uint64, max(64, 2*len(old)))
	for _, h := range old {
		if h != 0 {
			s.slots[s.slot(h)] = h
		}
	}
}
