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
