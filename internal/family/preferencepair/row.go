package preferencepair

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family/textmatch/compare"
	"securebench/internal/task"
)

// What a presentation can be said to show: that a candidate is better, by its place there,
// or that neither is. A set of none is no verdict.
const (
	first compare.Set = 1 << iota
	second
	tie
)

// labels are how a row and an agent call them.
func labels() []string { return []string{"A", "B", "tie"} }

// label names one verdict.
func label(s compare.Set) string {
	for i, l := range labels() {
		if s == 1<<i {
			return l
		}
	}
	return ""
}

// named returns the verdict with a label, 0 for none.
func named(l string) compare.Set {
	for i, known := range labels() {
		if l == known {
			return 1 << i
		}
	}
	return 0
}

// exchanged returns the verdict in the other order.
func exchanged(s compare.Set) compare.Set {
	switch s {
	case first:
		return second
	case second:
		return first
	}
	return s
}

// The ways in which two presentations decide.
const (
	consistent = "consistent"
	bySum      = "sum"
	byFirst    = "first"
)

// bothOrders is the value of orders with two presentations.
const bothOrders = "both"

// gold is what a row says is right.
type gold struct {
	right  compare.Set // 0 without a preference
	draw   bool        // it is of people whose votes are a tie
	decide string
}

// ballot is a preference that people voted on.
type ballot struct {
	Votes map[string]int `json:"votes"`
}

// preferred reads a preference: a label, or the most votes.
func preferred(v jsontext.Value) (right compare.Set, draw bool) {
	var l string
	if json.Unmarshal(v, &l) == nil {
		return named(l), false
	}
	var b ballot
	if json.Unmarshal(v, &b) != nil {
		return 0, false
	}
	most := 0
	for l, n := range b.Votes {
		switch {
		case n > most:
			right, most = named(l), n
		case n == most && n > 0:
			right |= named(l)
		}
	}
	if right.Several() || right == tie {
		return tie, true
	}
	return right, false
}

// goldOf returns what a row says is right.
func goldOf(v task.EvaluatorView) gold {
	r, _ := v.Get("preference")
	g := gold{decide: consistent}
	g.right, g.draw = preferred(r.Value)
	if d, ok := v.Get("decide"); ok {
		g.decide, _ = d.Text()
	}
	return g
}

// getter is a view of a task.
type getter interface {
	Get(name string) (task.Resource, bool)
}

// isBoth reports whether a row is presented in both orders.
func isBoth(v getter) bool {
	r, ok := v.Get("orders")
	orders, _ := r.Text()
	return !ok || orders == bothOrders
}

// allowsTie reports whether an agent may call a pair a tie.
func allowsTie(v getter) bool {
	r, _ := v.Get("allow_tie")
	return r.Value.Kind() == 't'
}

// said is a candidate: a text, or a list of messages.
type said struct {
	text   string // all of it
	length int    // in characters, of what is said
}

// read reads a candidate.
func read(v jsontext.Value) said {
	var text string
	if json.Unmarshal(v, &text) == nil {
		return said{text, utf8.RuneCountInString(text)}
	}
	var messages []struct {
		Content string `json:"content"`
	}
	_ = json.Unmarshal(v, &messages) // the schema has seen it
	s := said{text: string(v)}
	for _, m := range messages {
		s.length += utf8.RuneCountInString(m.Content)
	}
	return s
}

// pair returns the candidates of a row as written.
func pair(v getter) (a, b said) {
	ra, _ := v.Get("candidate_a")
	rb, _ := v.Get("candidate_b")
	return read(ra.Value), read(rb.Value)
}

// longer returns the candidate that has more characters, 0 if none has.
func longer(a, b said) compare.Set {
	switch {
	case a.length > b.length:
		return first
	case b.length > a.length:
		return second
	}
	return 0
}
