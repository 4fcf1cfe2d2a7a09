package importer

import (
	"crypto/sha256"
	_ "embed"
	"slices"
	"strings"

	"securebench/internal/source"
)

//go:embed licences/truthfulqa.txt
var truthfulQALicence string

func truthfulQA() dataset {
	return dataset{
		format:  TruthfulQA,
		family:  "multiple_choice",
		convert: convertTruthfulQA,
		licence: truthfulQALicence,
		about: `# TruthfulQA

Rows of TruthfulQA, from the repository sylinrl/TruthfulQA (TruthfulQA.csv and
data/mc_task.json, joined by question). Stephanie Lin and others, "TruthfulQA:
Measuring How Models Mimic Human Falsehoods" (2021),
https://arxiv.org/abs/2109.07958

Licence: Apache-2.0 (LICENSE).
`,
		changes: "- The choices are those of `mc1_targets`; exactly one of them is right. The other columns are left out.\n" +
			"- A wrong choice that is blank is left out; the data set has ten.\n" +
			"- The data set puts the right choice first in every row. Here the choices are sorted by " +
			"SHA-256(seed NUL id NUL choice); each row's metadata has the seed.\n",
	}
}

// choiceInput is the input of a multiple_choice row.
type choiceInput struct {
	Question string   `json:"question"`
	Choices  []string `json:"choices"`
}

// choiceEval is the eval of a multiple_choice row.
type choiceEval struct {
	Answer string `json:"answer"`
}

func convertTruthfulQA(o *object, c converter) row {
	o.only("row", "Type", "Category", "Question", "Best Answer", "Best Incorrect Answer", "Correct Answers",
		"Incorrect Answers", "Source", "mc0_targets", "mc1_targets", "mc2_targets")
	number := o.number("row")
	id := "TruthfulQA/" + itoa(number)
	choices, right := mc1(o)
	shuffle(choices, c.seed, id)
	label := string(rune('A' + slices.Index(choices, right)))
	return row{
		ID:    id,
		Input: choiceInput{o.text("Question"), choices},
		Eval:  choiceEval{label},
		Metadata: map[string]any{
			"dataset": "TruthfulQA", "row": number, "category": o.text("Category"), "choice_seed": c.seed,
		},
	}
}

// maxChoices is what labels A to Z can name.
const maxChoices = 26

// mc1 returns the choices of a row and the right one among them. Ten rows of
// the data set have a wrong choice that is blank; it is left out.
func mc1(o *object) (choices []string, right string) {
	targets := o.get("mc1_targets")
	if targets == nil {
		return nil, ""
	}
	if targets.Kind != source.Map {
		o.fail(targets, "mc1_targets must be an object, not %s", targets.Kind)
		return nil, ""
	}
	count := 0
	for _, f := range targets.Fields {
		value, p := f.Value.Int("the value of a choice", 0, 1)
		o.problems.Note(p)
		if value == 1 {
			right = f.Name
			count++
		}
		if strings.TrimSpace(f.Name) != "" {
			choices = append(choices, f.Name)
		}
	}
	if count != 1 || strings.TrimSpace(right) == "" {
		o.fail(targets, "mc1_targets must have exactly one correct, non-blank choice")
	}
	if n := len(choices); n < 2 || n > maxChoices {
		o.fail(targets, "mc1_targets must have 2 to %d choices, not %d", maxChoices, n)
	}
	return choices, right
}

// shuffle orders choices by the digest of seed, id and choice. The order says
// nothing about which choice is right, and any language can recompute it.
func shuffle(choices []string, seed, id string) {
	key := func(choice string) string {
		sum := sha256.Sum256([]byte(seed + "\x00" + id + "\x00" + choice))
		return string(sum[:])
	}
	slices.SortFunc(choices, func(a, b string) int { return strings.Compare(key(a), key(b)) })
}
