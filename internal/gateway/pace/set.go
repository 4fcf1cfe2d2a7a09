package pace

import "sync"

// Set has the paces of a run, one for each provider: all who ask the same one share it. The
// zero value has none yet; nil has a new one for each who asks.
type Set struct {
	// Tell is told when the number of requests changes that may be under way at a
	// provider; nil is told nothing. It may block.
	Tell func(provider string, s State)

	mu sync.Mutex
	of map[string]*Pace
}

// At returns the pace of a provider. Of the bounds that those have who ask for it, the
// smallest counts; 0 is none.
func (s *Set) At(provider string, most int) *Pace {
	if s == nil {
		return New(most)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of[provider]
	if p == nil {
		p = New(0)
		if s.Tell != nil {
			p.tell = func(state State) { s.Tell(provider, state) }
		}
		if s.of == nil {
			s.of = map[string]*Pace{}
		}
		s.of[provider] = p
	}
	p.bound(most)
	return p
}
