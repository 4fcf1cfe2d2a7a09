package verdict

import (
	"slices"
	"strconv"
)

// The labels of verdicts that have a measure.
const (
	PackChecker = "pack_checker" // a file of the pack judged
	RewardFile  = "reward_file"  // a checker wrote a reward
	Measured    = "measured"     // how near a text came to what is accepted decided
)

// IsMeasured reports whether a verdict with these labels has a measure, if it is one on
// what the candidate is worth.
func IsMeasured(labels []string) bool {
	return slices.ContainsFunc(labels, func(l string) bool { return l == PackChecker || l == RewardFile || l == Measured })
}

// Measure is how good a candidate is, beside the verdict: the score of a checker, the
// reward of a terminal task, how near a text is to what is accepted, the metric of
// predictions. It never decides by itself.
type Measure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"` // from 0 to 1, but for a metric that has other values
}

// String returns the name and the value, "" for nil.
func (m *Measure) String() string {
	if m == nil {
		return ""
	}
	return m.Name + "=" + strconv.FormatFloat(m.Value, 'g', -1, 64)
}
