package codecompletion

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
)

// maxRowText bounds what the test sandbox gets of a row in one frame, in bytes:
// prompt, tests and reference. The frame has some room beside it.
const maxRowText = maxSource - 1<<20

// checkSize refuses a row that does not fit into a frame.
func checkSize(row family.Row, tests string) []family.Problem {
	total := len(tests)
	for _, v := range []jsontext.Value{row.Input["prompt"], row.Eval["reference_solution"], row.Eval["canonical_solution"]} {
		var text string
		if v != nil && json.Unmarshal(v, &text) == nil {
			total += len(text)
		}
	}
	if total <= maxRowText {
		return nil
	}
	return []family.Problem{{Path: []string{"eval", "tests"}, Fix: "make the data in the tests instead of writing it out",
		Message: fmt.Sprintf("and the prompt and reference have %d bytes together, more than %d", total, maxRowText)}}
}
