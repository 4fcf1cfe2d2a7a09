package importer

import (
	_ "embed"
	"strings"
)

//go:embed licences/mbpp.txt
var mbppLicence string

func mbpp() dataset {
	return dataset{
		format:  MBPP,
		family:  "code_completion",
		convert: convertMBPP,
		licence: mbppLicence,
		about: `# MBPP (Mostly Basic Python Problems)

Rows of MBPP, Google Research, from the repository
google-research/google-research (mbpp/mbpp.jsonl). Jacob Austin and others,
"Program Synthesis with Large Language Models" (2021),
https://arxiv.org/abs/2108.07732

Licence: Creative Commons Attribution 4.0 International (LICENSE).
`,
		changes: "- `prompt` is `text`, followed by the header lines of the functions and classes of `code` that the tests name. " +
			"The data set's own convention shows an assertion instead, which gives an expected value away.\n" +
			"- The tests are `test_setup_code` and `test_list`; `challenge_test_list` is left out.\n" +
			"- Line ends are LF: `code` had CR LF.\n",
	}
}

func convertMBPP(o *object, _ converter) row {
	o.only("text", "code", "task_id", "test_setup_code", "test_list", "challenge_test_list")
	number := o.number("task_id")
	text, code := unixLines(o.text("text")), unixLines(o.text("code"))
	setup := unixLines(o.anyText("test_setup_code"))
	tests := unixLines(strings.Join(o.texts("test_list"), "\n")) + "\n"
	if setup != "" {
		tests = setup + "\n" + tests
	}
	headers := headersOf(code, tests)
	if len(o.problems) == 0 && len(headers) == 0 {
		o.fail(o.node.Get("code"), "the tests do not use anything that the code defines")
	}
	return row{
		ID:       "MBPP/" + itoa(number),
		Input:    codeInput{text + "\n\nYour code must define " + listed(headers) + ".\n", "python"},
		Eval:     codeEval{Tests: codeTests{Source: "inline", Code: tests, Operators: needsOperators(code, tests)}, Reference: code},
		Metadata: map[string]any{"dataset": "MBPP", "split": mbppSplit(number)},
	}
}

// mbppSplit is the split that the paper gives a task id.
func mbppSplit(id int64) string {
	switch {
	case id <= 10:
		return "prompt"
	case id <= 510:
		return "test"
	case id <= 600:
		return "validation"
	}
	return "train"
}

// unixLines makes LF of every line end, a lone CR included, as Python does.
func unixLines(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// listed renders headers as a phrase: `a`, `b` and `c`.
func listed(headers []string) string {
	quoted := make([]string, len(headers))
	for i, h := range headers {
		quoted[i] = "`" + h + "`"
	}
	if n := len(quoted); n > 1 {
		return strings.Join(quoted[:n-1], ", ") + " and " + quoted[n-1]
	}
	return strings.Join(quoted, "")
}
