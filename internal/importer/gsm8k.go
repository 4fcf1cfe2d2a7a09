package importer

import (
	_ "embed"

	"securebench/internal/lazyregexp"
)

//go:embed licences/gsm8k.txt
var gsm8kLicence string

// goldNumber is the last line of a GSM8K answer.
var goldNumber = lazyregexp.New(`(?:^|\n)#### (-?[0-9][0-9,]*(?:\.[0-9]+)?)\s*$`)

func gsm8k() dataset {
	return dataset{
		format:  GSM8K,
		family:  "short_answer",
		convert: convertGSM8K,
		licence: gsm8kLicence,
		about: `# GSM8K

Rows of GSM8K (grade school math), OpenAI, from the repository
openai/grade-school-math (grade_school_math/data/test.jsonl). Karl Cobbe and
others, "Training Verifiers to Solve Math Word Problems" (2021),
https://arxiv.org/abs/2110.14168

Licence: MIT (LICENSE).
`,
		changes: "- The accepted answer is the number after `####`, as it was written; the rationale before it is left out.\n" +
			"- The id counts the rows of the data set from 0.\n",
	}
}

// shortInput is the input of a short_answer row.
type shortInput struct {
	Question string `json:"question"`
	Format   string `json:"answer_format"`
}

// shortEval is the eval of a short_answer row.
type shortEval struct {
	Accepted []string `json:"accepted_answers"`
}

func convertGSM8K(o *object, c converter) row {
	o.only("question", "answer", "row")
	number := o.numberOr("row", c.index)
	answer := o.text("answer")
	gold := goldNumber.FindStringSubmatch(answer)
	if answer != "" && gold == nil {
		o.fail(o.node.Get("answer"), "answer must end with a line of #### and a number")
	}
	r := row{
		ID:       "GSM8K/" + itoa(number),
		Input:    shortInput{o.text("question"), "a number"},
		Metadata: map[string]any{"dataset": "GSM8K", "row": number},
	}
	if gold != nil {
		r.Eval = shortEval{[]string{gold[1]}}
	}
	return r
}
