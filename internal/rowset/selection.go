package rowset

import (
	"fmt"
	"strings"

	"securebench/internal/redact"
)

// Selection says how the rows of a run were chosen, and which they are.
type Selection struct {
	Tasks    []string   `json:"tasks,omitzero"` // patterns of ids
	Families []string   `json:"families,omitzero"`
	Tags     []string   `json:"tags,omitzero"`
	FailedIn *FormerRun `json:"failed_in,omitzero"`
	Sample   int        `json:"sample,omitzero"`
	Seed     string     `json:"seed,omitzero"` // a decimal number: JSON's are not exact
	Shuffle  bool       `json:"shuffle,omitzero"`
	Rows     Set        `json:"rows"` // positions, as [first, last]
}

// FormerRun names a run by its id and the Merkle root of its records.
type FormerRun struct {
	RunID   string `json:"run_id"`
	Records string `json:"records"`
}

// String says in the words of the flags how the rows were chosen. Names are
// quoted. A nil selection has none.
func (s *Selection) String() string {
	if s == nil {
		return ""
	}
	var out []string
	add := func(flag string, values ...string) {
		for _, v := range values {
			out = append(out, flag+" "+redact.QuoteShort(v, 60))
		}
	}
	add("--task", s.Tasks...)
	add("--family", s.Families...)
	add("--tag", s.Tags...)
	if s.FailedIn != nil {
		add("--failed-in", s.FailedIn.RunID)
	}
	if s.Sample != 0 {
		add("--sample", fmt.Sprint(s.Sample))
	}
	if s.Shuffle {
		out = append(out, "--shuffle")
	}
	if s.Seed != "" {
		add("--seed", s.Seed)
	}
	return strings.Join(out, " ")
}
