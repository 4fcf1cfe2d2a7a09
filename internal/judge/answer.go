package judge

import (
	"errors"
	"fmt"
	"strings"
)

// maxAnswer bounds an answer that is read.
const maxAnswer = 1 << 20

// errVoid is wrapped if an answer decides nothing.
var errVoid = errors.New("the judge's answer has another form")

// readAnswer reads what an answer says of each criterion, in the order of the rubric. A
// criterion is met only if the judge quotes the candidate for it.
func readAnswer(text, candidate string, r Rubric) ([]bool, error) {
	var of struct {
		Criteria []struct {
			ID    *string `json:"id"`
			Met   *bool   `json:"met"`
			Quote *string `json:"quote"`
		} `json:"criteria"`
	}
	if err := decode(text, &of); err != nil {
		return nil, err
	}
	if len(of.Criteria) != len(r.Criteria) {
		return nil, fmt.Errorf("%w: it is about %d criteria, and there are %d", errVoid, len(of.Criteria), len(r.Criteria))
	}
	place := map[string]int{}
	for i, c := range r.Criteria {
		place[c.ID] = i
	}
	met, seen := make([]bool, len(r.Criteria)), map[string]bool{}
	escaped, bare := collapse(visible(candidate)), collapse(unseen(candidate))
	for _, c := range of.Criteria {
		if c.ID == nil || c.Met == nil || c.Quote == nil {
			return nil, errVoid
		}
		i, known := place[*c.ID]
		if !known || seen[*c.ID] {
			return nil, fmt.Errorf("%w: it does not name every criterion once", errVoid)
		}
		seen[*c.ID] = true
		quote := collapse(unseen(*c.Quote)) // a model may leave out what is not seen, or repeat its escape
		met[i] = *c.Met && quote != "" && (strings.Contains(bare, quote) || strings.Contains(escaped, quote))
	}
	return met, nil
}

// collapse writes each run of blanks as one, and none at either end.
func collapse(s string) string { return strings.Join(strings.Fields(s), " ") }
