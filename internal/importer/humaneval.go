package importer

import (
	_ "embed"

	"securebench/internal/lazyregexp"
)

//go:embed licences/humaneval.txt
var humanEvalLicence string

var (
	// rowID is what HumanEval and data sets of its form call their rows.
	rowID = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_-]*/[0-9]{1,9}$`)
	// identifier is a Python name of ASCII letters.
	identifier = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func humanEval() dataset {
	return dataset{
		format:  HumanEval,
		family:  "code_completion",
		convert: convertHumanEval,
		licence: humanEvalLicence,
		about: `# HumanEval

Rows of HumanEval, OpenAI, from the repository openai/human-eval
(data/HumanEval.jsonl.gz). Mark Chen and others, "Evaluating Large Language
Models Trained on Code" (2021), https://arxiv.org/abs/2107.03374

Licence: MIT (LICENSE).
`,
		changes: "- `prompt` is the task's prompt.\n" +
			"- The tests are `test` and a call of `check` with the entry point: the data set defines `check` but leaves the call to the runner.\n" +
			"- The reference solution is `prompt` followed by `canonical_solution`.\n",
	}
}

// codeInput is the input of a code_completion row.
type codeInput struct {
	Prompt   string `json:"prompt"`
	Language string `json:"language"`
}

// codeEval is the eval of a code_completion row.
type codeEval struct {
	Tests     codeTests `json:"tests"`
	Reference string    `json:"reference_solution,omitzero"`
}

type codeTests struct {
	Source      string     `json:"source"`
	Containment string     `json:"containment,omitzero"`
	Code        string     `json:"code,omitzero"`
	EntryPoint  string     `json:"entry_point,omitzero"`
	Operators   bool       `json:"operators,omitzero"`
	File        string     `json:"file,omitzero"`
	TestFile    string     `json:"test_file,omitzero"`
	Compile     []string   `json:"compile,omitzero"`
	Command     []string   `json:"command,omitzero"`
	Compare     string     `json:"compare,omitzero"`
	CaseSeconds float64    `json:"case_seconds,omitzero"`
	Timeout     int        `json:"timeout_seconds,omitzero"`
	Cases       []codeCase `json:"cases,omitzero"`
}

// codeCase is a program's input and output.
type codeCase struct {
	Stdin  string            `json:"stdin,omitzero"`
	Files  map[string]string `json:"files,omitzero"`
	Expect struct {
		Stdout *string           `json:"stdout,omitzero"`
		Files  map[string]string `json:"files,omitzero"`
	} `json:"expect"`
}

func convertHumanEval(o *object, _ converter) row {
	o.only("task_id", "prompt", "entry_point", "canonical_solution", "test")
	id, prompt := o.text("task_id"), o.text("prompt")
	entry, test := o.text("entry_point"), o.text("test")
	if id != "" && !rowID.MatchString(id) {
		o.fail(o.node.Get("task_id"), "task_id must look like HumanEval/0")
	}
	if entry != "" && !identifier.MatchString(entry) {
		o.fail(o.node.Get("entry_point"), "entry_point must be a Python identifier")
	}
	return row{
		ID:    id,
		Input: codeInput{prompt, "python"},
		Eval: codeEval{
			Tests:     codeTests{Source: "inline", Code: test + "\n\ncheck(" + entry + ")\n", EntryPoint: entry},
			Reference: prompt + o.text("canonical_solution"),
		},
		Metadata: map[string]any{"dataset": "HumanEval"},
	}
}
