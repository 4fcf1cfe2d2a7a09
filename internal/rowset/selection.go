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
	FewShot  *Shown     `json:"few_shot,omitzero"`
	Rows     Set        `json:"rows"` // positions, as [first, last]
}

// Shown says which rows were left out because a model was shown them as solved examples:
// so many of each family.
type Shown struct {
	Count int      `json:"count"`
	Tasks []string `json:"tasks"` // their ids
	// Same are the ids of other rows that ask the same as one of them.
	Same []string `json:"same,omitzero"`
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
	if f := s.FewShot; f != nil {
		out = append(out, f.String())
	}
	return strings.Join(out, " ")
}

// String says in the words of the flag which rows were shown, and left out, and which were
// left out with them.
func (s *Shown) String() string {
	list := func(ids []string) string {
		quoted := make([]string, len(ids))
		for i, id := range ids {
			quoted[i] = redact.QuoteShort(id, 60)
		}
		return strings.Join(quoted, ", ")
	}
	text := fmt.Sprintf("--few-shot %d (left out, as solved examples: %s", s.Count, list(s.Tasks))
	if len(s.Same) > 0 {
		text += "; which ask the same: " + list(s.Same)
	}
	return text + ")"
}
