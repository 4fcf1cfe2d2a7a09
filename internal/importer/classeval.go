package importer

import (
	_ "embed" // the licence
	"fmt"
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
)

//go:embed licences/classeval.txt
var classEvalLicence string

func classEval() dataset {
	return dataset{
		format:  ClassEval,
		family:  "code_completion",
		convert: convertClassEval,
		image:   "securebench-pytest:1", // tests that share a process with the candidate need pytest
		array:   true,
		licence: classEvalLicence,
		about: `# ClassEval

Rows of ClassEval, Fudan University and Nanyang Technological University, from the
repository FudanSELab/ClassEval (data/ClassEval_data.json). Xueying Du and others,
"ClassEval: A Manually-Crafted Benchmark for Evaluating LLMs on Class-level Code
Generation" (2023), https://arxiv.org/abs/2308.01861

Licence: MIT (LICENSE).
`,
		changes: "- `prompt` is `skeleton`, and the tests are `test` after `import_statement`.\n" +
			"- Rows that need packages outside of Python's standard library are left out, and those whose solution does not pass their own tests, or not always.\n" +
			"- Tests that need to be in one process with the candidate are marked `shared`.\n" +
			"- The reference solution is `import_statement` followed by `solution_code`.\n",
	}
}

// classEvalTime is the time of a row in seconds: one of them computes for six on a
// quiet machine.
const classEvalTime = 120

func convertClassEval(o *object, c converter) row {
	o.only("task_id", "skeleton", "test", "solution_code", "import_statement", "class_description", "class_name", "test_classes", "class_constructor", "fields", "methods_info")
	id, skeleton, solution, test := o.text("task_id"), o.text("skeleton"), o.text("solution_code"), o.text("test")
	imports := ""
	if n := o.get("import_statement"); n != nil {
		list, p := n.Strings("import_statement")
		o.problems.Note(p)
		imports = strings.Join(list, "\n")
	}
	e, left := classEvalOf(id, imports, solution, test)
	c.leave(left)
	return row{ID: id, Input: codeInput{skeleton, "python"}, Eval: e, Metadata: map[string]any{"dataset": "ClassEval"}}
}

// classEvalOf keeps tests and candidate as far apart as the tests allow. left says why
// the row is left out, "" if it is not.
func classEvalOf(id, imports, solution, test string) (e codeEval, left string) {
	left = classEvalFaulty()[id]
	if m := otherPackages.FindStringSubmatch(imports + "\n" + test); m != nil {
		left = fmt.Sprintf("it needs the package %s", m[1])
	}
	e = codeEval{codeTests{Source: "inline", Code: imports + "\n\n" + test, Timeout: classEvalTime}, imports + "\n\n" + solution}
	if slices.Contains(classEvalShared(), id) {
		e.Tests.Containment = "shared"
	}
	return e, left
}

// classEvalShared are the rows that "securebench validate" proposes to score in one
// process with the candidate: their tests pass it objects of their own, use private
// names, or share files and lists with it. It proposes nothing for the others, nor for these once they
// say so.
func classEvalShared() []string {
	return []string{
		"ClassEval_2", "ClassEval_4", "ClassEval_14", "ClassEval_16", "ClassEval_18", "ClassEval_23", "ClassEval_25",
		"ClassEval_26", "ClassEval_33", "ClassEval_36", "ClassEval_39", "ClassEval_41", "ClassEval_50", "ClassEval_60",
		"ClassEval_67", "ClassEval_83", "ClassEval_84", "ClassEval_87", "ClassEval_92", "ClassEval_98", "ClassEval_99",
	}
}

// classEvalFaulty are the rows whose solution does not pass its own tests, or not always, and why.
func classEvalFaulty() map[string]string {
	return map[string]string{
		"ClassEval_17": "its tests expect the data set's day: the solution asks what comes after today",
		"ClassEval_20": "its tests fail if a second ends between their look at the clock and the solution's",
		"ClassEval_48": "its tests expect the name of the author's computer and a network",
	}
}

// otherPackages matches the import of a package that is not in Python's standard library,
// in the form in which the data set imports them.
var otherPackages = lazyregexp.New(`(?m)^\s*(?:import|from) (bs4|docx|gensim|nltk|numpy|openpyxl|pandas|PIL|PyPDF2|reportlab)\b`)
