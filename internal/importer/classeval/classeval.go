// Package classeval turns rows of ClassEval, whose solutions are classes, into
// rows of code_completion. It keeps tests and candidate as far apart as the tests
// allow.
package classeval

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Image is the image of the rows: tests that share a process with the candidate need
// pytest.
const Image = "securebench-pytest:1"

// Source is what the data set has of a row.
type Source struct {
	ID, Skeleton, Solution, Test string
	Imports                      []string
}

// Tests are the tests of a row.
type Tests struct {
	Source      string `json:"source"`
	Containment string `json:"containment,omitzero"`
	Code        string `json:"code"`
	Timeout     int    `json:"timeout_seconds"`
}

// Eval is the eval of a row.
type Eval struct {
	Tests     Tests  `json:"tests"`
	Reference string `json:"reference_solution"`
}

// shared are the rows that "securebench validate" proposes to score in one process with
// the candidate: their tests pass it objects of their own, use private names, or share
// files and lists with it. It proposes nothing for the others, nor for these once they
// say so.
func shared() []string {
	return []string{
		"ClassEval_2", "ClassEval_4", "ClassEval_14", "ClassEval_16", "ClassEval_18", "ClassEval_23", "ClassEval_25",
		"ClassEval_26", "ClassEval_33", "ClassEval_36", "ClassEval_39", "ClassEval_41", "ClassEval_50", "ClassEval_60",
		"ClassEval_67", "ClassEval_83", "ClassEval_84", "ClassEval_87", "ClassEval_92", "ClassEval_98", "ClassEval_99",
	}
}

// faulty are the rows whose solution does not pass its own tests, or not always, and why.
func faulty() map[string]string {
	return map[string]string{
		"ClassEval_17": "its tests expect the data set's day: the solution asks what comes after today",
		"ClassEval_20": "its tests fail if a second ends between their look at the clock and the solution's",
		"ClassEval_48": "its tests expect the name of the author's computer and a network",
	}
}

// packages matches the import of a package that is not in Python's standard library,
// in the form in which the data set imports them.
var packages = regexp.MustCompile(`(?m)^\s*(?:import|from) (bs4|docx|gensim|nltk|numpy|openpyxl|pandas|PIL|PyPDF2|reportlab)\b`)

// timeout is the time of a row in seconds: one of them computes for six on a quiet
// machine.
const timeout = 120

// Convert converts a row. left says why the row has no place in a pack, "" if it has.
func Convert(s Source) (e Eval, left string) {
	imports := strings.Join(s.Imports, "\n")
	left = faulty()[s.ID]
	if m := packages.FindStringSubmatch(imports + "\n" + s.Test); m != nil {
		left = fmt.Sprintf("it needs the package %s", m[1])
	}
	e.Tests = Tests{Source: "inline", Code: imports + "\n\n" + s.Test, Timeout: timeout}
	if slices.Contains(shared(), s.ID) {
		e.Tests.Containment = "shared"
	}
	e.Reference = imports + "\n\n" + s.Solution
	return e, left
}
