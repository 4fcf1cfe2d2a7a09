package multiplechoice

import (
	_ "embed" // the schemas
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/judged"
	"securebench/internal/family/textmatch"
	"securebench/internal/judge"
	"securebench/internal/lazyregexp"
	"securebench/internal/task"
)

//go:embed schema/input.json
var inputSchema []byte

//go:embed schema/eval.json
var evalSchema []byte

// Family describes multiple_choice.
func Family() family.Family {
	return family.Family{
		Name:        "multiple_choice",
		InputSchema: inputSchema,
		EvalSchema:  evalSchema,
		Check:       check,
		Doubts:      doubtful,
		Lanes:       map[string]task.Lane{"answer": task.Hidden, "match": task.Hidden},
		Extraction:  task.Extraction{Mode: task.FromStdout, Kind: task.Text},
		Instruction: "Choose exactly one of the choices. They are labelled A, B, C and so on in their order. " +
			"End with one line that holds only the label of your choice.",
		VerifySeconds:  300,
		Reference:      reference,
		PublicMetadata: []string{"candidate_answer", "expected_answer"},
		Baselines:      baselines(),
		Chance:         chance,
		JudgeReads:     judged.Reads,
		Canaries:       canaries,
		NewVerifier:    newVerifier,
	}
}

// goldLabel is the form in which a gold answer names a label, as the
// reference reads it: one letter, with a few fixed words and marks around it.
// The words are lower case only.
var goldLabel = lazyregexp.New(
	`^\s*(?:(?:final answer|answer|choice|option)\s*)?(?:is\s*)?(?:[:-]\s*)?[(\[]?([A-Za-z])[)\].:]?\s*$`)

// Right returns the positions of the choices that a row's answer names,
// in rising order: by position for a whole number, by label for a string that
// is one, by text otherwise; a list names those of its members. Several choices
// may share a text.
func Right(choices []string, answer jsontext.Value) []int {
	var out []int
	switch answer.Kind() {
	case '[':
		var list []jsontext.Value
		if json.Unmarshal(answer, &list) == nil {
			for _, v := range list {
				out = append(out, Right(choices, v)...)
			}
		}
	case '0':
		if i, err := strconv.ParseFloat(string(answer), 64); err == nil && i >= 0 && i < float64(len(choices)) && i == float64(int(i)) {
			out = append(out, int(i))
		}
	case '"':
		var s string
		if json.Unmarshal(answer, &s) == nil {
			out = namedChoices(choices, s)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// namedChoices returns the positions that a string names: a label in range
// comes before a text, and a text as it is written before one in normal form.
// A string that normalises to nothing names nothing.
func namedChoices(choices []string, s string) (out []int) {
	if m := goldLabel.FindStringSubmatch(s); m != nil {
		if i := int(strings.ToUpper(m[1])[0] - 'A'); i < len(choices) {
			return []int{i}
		}
	}
	if textmatch.Normalize(s) == "" {
		return nil
	}
	s = textmatch.NFC(s)
	for _, form := range [...]func(string) string{textmatch.Strip, textmatch.Collapse, textmatch.Normalize} {
		for i, c := range choices {
			if form(textmatch.NFC(c)) == form(s) {
				out = append(out, i)
			}
		}
		if out != nil {
			break
		}
	}
	return out
}

// check refuses an answer that no candidate could give.
func check(row family.Row) []family.Problem {
	if _, _, err := declared(row.Eval["match"]); err != nil {
		return []family.Problem{{Path: []string{"eval", "match"}, Message: "cannot be used: " + err.Error()}}
	}
	choices := texts(row.Input["choices"])
	if choices == nil || len(Right(choices, row.Eval["answer"])) > 0 {
		return nil
	}
	return []family.Problem{{
		Path:    []string{"eval", "answer"},
		Message: "must name at least one of the choices",
		Fix:     "write a label such as A, a choice's text, or a choice's position counted from 0",
	}}
}

// doubtful finds choices that are the same answer.
func doubtful(row family.Row) (out []family.Problem) {
	first := map[string]int{}
	for i, choice := range texts(row.Input["choices"]) {
		key := textmatch.Normalize(choice)
		if j, ok := first[key]; ok && key != "" {
			out = append(out, family.Problem{Path: []string{"input", "choices", strconv.Itoa(i)},
				Message: fmt.Sprintf("is the same answer as choices[%d]", j), Fix: "remove one of the two, or make them differ"})
			continue
		}
		first[key] = i
	}
	return out
}

// reference answers with the label of the first choice that is right.
func reference(v task.EvaluatorView) (family.Solution, bool) {
	right := Right(rowOf(v))
	if len(right) == 0 {
		return family.Solution{}, false
	}
	return family.Solve(task.Text, label(right[0])), true
}

// canaries returns what a judge is tried with that reads the answers to a row: the label
// of a right choice, and that of a wrong one.
func canaries(v task.EvaluatorView) (judge.Specimen, bool) {
	choices, answer := rowOf(v)
	right, wrong := Right(choices, answer), ""
	if len(right) == 0 {
		return judge.Specimen{}, false
	}
	for i := range choices {
		if !slices.Contains(right, i) {
			wrong = label(i)
		}
	}
	return judged.ReadCanaries(v, label(right[0]), wrong)
}

// chance is the part of the choices that is right.
func chance(v task.EvaluatorView) (float64, bool) {
	choices, answer := rowOf(v)
	if len(choices) == 0 {
		return 0, false
	}
	return float64(len(Right(choices, answer))) / float64(len(choices)), true
}

// rowOf returns the choices and the answer of a row, as far as they can be read.
func rowOf(v task.EvaluatorView) (choices []string, answer jsontext.Value) {
	list, _ := v.Get("choices")
	gold, _ := v.Get("answer")
	return texts(list.Value), gold.Value
}

// texts reads a list of strings, or nothing if it is something else.
func texts(v jsontext.Value) []string {
	var out []string
	if json.Unmarshal(v, &out) != nil {
		return nil
	}
	return out
}
