package verdict

import "fmt"

// Basis says what decides on a candidate. The zero value is Computed.
type Basis uint8

// The two bases.
const (
	Computed Basis = iota // rules, comparisons, tests
	Judged                // a model that was asked, or that may have been asked
)

// JudgedLabel labels the records of attempts at rows that a judge decides on.
const JudgedLabel = "judged"

// Bases are the bases in the order in which they are shown.
func Bases() []Basis { return []Basis{Computed, Judged} }

// String returns the word of the record format.
func (b Basis) String() string {
	switch b {
	case Computed:
		return "computed"
	case Judged:
		return "judged"
	}
	return fmt.Sprintf("basis %d", uint8(b))
}

// MarshalText returns the word of the record format.
func (b Basis) MarshalText() ([]byte, error) {
	if b > Judged {
		return nil, fmt.Errorf("there is no %s", b)
	}
	return []byte(b.String()), nil
}

// UnmarshalText reads the word of the record format.
func (b *Basis) UnmarshalText(text []byte) error {
	for _, known := range Bases() {
		if string(text) == known.String() {
			*b = known
			return nil
		}
	}
	return fmt.Errorf("the basis is %.20q, want computed or judged", text)
}

// ByBasis has a value for each basis, and nothing that puts the two together: what was
// judged does not add up with what was computed.
type ByBasis[T any] struct{ computed, judged T }

// Apart returns a value for each basis.
func Apart[T any](computed, judged T) ByBasis[T] { return ByBasis[T]{computed, judged} }

// Of returns the value of one basis.
func (by *ByBasis[T]) Of(b Basis) *T {
	if b == Judged {
		return &by.judged
	}
	return &by.computed
}

// Result is what came of an attempt, as its record says it.
type Result struct {
	Basis   Basis
	Status  Status
	Outcome Outcome
	Reason  Reason
}

// ByRule returns what a result is in sums of its row. Read says that the candidate states
// no answer by the row's rule and a judge was to read one: to the rule that is no pass,
// whatever was read. So no candidate chooses which rate it counts in, and a judge changes
// none that is computed.
func (r Result) ByRule(read bool) Result {
	if !read {
		return r
	}
	r.Basis = Computed
	if r.Status == StatusPassed {
		r.Status, r.Outcome, r.Reason = StatusFailed, Failed, WrongAnswer
	}
	return r
}

// Counts are numbers of attempts of one basis that have a record.
type Counts struct {
	Total          int `json:"total"`
	Verified       int `json:"verified"` // with a verdict
	Passed         int `json:"passed"`
	Failed         int `json:"failed"`
	Pending        int `json:"pending"` // without a verdict, infrastructure errors aside
	Infrastructure int `json:"infrastructure"`
}

// Add counts one attempt.
func (c *Counts) Add(s Status, o Outcome) {
	c.Total++
	switch {
	case o == Infrastructure:
		c.Infrastructure++
	case s == StatusPassed:
		c.Passed++
		c.Verified++
	case s == StatusFailed:
		c.Failed++
		c.Verified++
	default:
		c.Pending++
	}
}
