package judge

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxAnswer bounds an answer that is read.
const maxAnswer = 1 << 20

// errVoid is wrapped if an answer decides nothing.
var errVoid = errors.New("the judge's answer has another form")

// readAnswer reads what an answer says of each criterion, in the order of the rubric. A
// criterion is met only if the judge quotes the candidate for it.
func readAnswer(text, candidate string, r Rubric) ([]bool, error) {
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("%w: it has more than %d bytes", errVoid, maxAnswer)
	}
	var of struct {
		Criteria []struct {
			ID    *string `json:"id"`
			Met   *bool   `json:"met"`
			Quote *string `json:"quote"`
		} `json:"criteria"`
	}
	// Duplicate names and invalid UTF-8 are refused as well.
	if err := json.Unmarshal([]byte(text), &of, json.RejectUnknownMembers(true), json.MatchCaseInsensitiveNames(false)); err != nil {
		var syntax *jsontext.SyntacticError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("%w: it is not JSON", errVoid)
		}
		return nil, errVoid
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
