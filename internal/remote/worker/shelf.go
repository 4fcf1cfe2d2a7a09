package worker

import (
	"io"
	"os"
	"path/filepath"
	"sync"

	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/task"
)

// shelf keeps candidates as long as a job needs them.
type shelf struct {
	store *candidate.Store
	dir   string

	mu    sync.Mutex
	puts  int            // under way
	users map[string]int // by digest
	idle  map[string]bool
}

var _ attempt.Store = (*shelf)(nil)

func newShelf(store *candidate.Store, dir string) *shelf {
	return &shelf{store: store, dir: dir, users: map[string]int{}, idle: map[string]bool{}}
}

// Put stores a candidate, which stays until it is let go.
func (s *shelf) Put(kind task.CandidateKind, origin candidate.Origin, content io.Reader) (candidate.Candidate, error) {
	s.mu.Lock()
	s.puts++
	s.mu.Unlock()
	c, err := s.store.Put(kind, origin, content)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts--
	if err == nil {
		s.users[c.Digest]++
	}
	s.sweep()
	return c, err
}

// Find returns a stored candidate.
func (s *shelf) Find(c candidate.Candidate) (candidate.Candidate, error) { return s.store.Find(c) }

// keep takes a candidate that is stored already, and reports whether it is.
func (s *shelf) keep(sum string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[sum] == 0 && !s.idle[sum] {
		return false
	}
	s.users[sum]++
	return true
}

// letGo removes a candidate, unless another job needs it.
func (s *shelf) letGo(sum string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[sum]--; s.users[sum] <= 0 {
		delete(s.users, sum)
		s.idle[sum] = true
	}
	s.sweep()
}

// sweep removes what nobody needs, unless an equal candidate may be on its way. The
// caller holds the lock.
func (s *shelf) sweep() {
	if s.puts > 0 {
		return
	}
	for sum := range s.idle {
		if name, err := digest.Hex(sum); err == nil && s.users[sum] == 0 {
			_ = os.Remove(filepath.Join(s.dir, name)) // the folder goes at the end
		}
		delete(s.idle, sum)
	}
}
