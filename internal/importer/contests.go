package importer

import (
	"fmt"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

func apps() dataset {
	return dataset{
		format:  APPS,
		family:  "code_completion",
		convert: convertAPPS,
		licence: "The data set is published under the MIT licence by its authors. " + licenceOfSites,
		about: `# APPS

Rows of APPS, from the repository hendrycks/apps, or in its form. Dan Hendrycks and
others, "Measuring Coding Challenge Competence With APPS" (2021),
https://arxiv.org/abs/2105.09938

Licence: MIT; see LICENSE. Each row's metadata names the place that it is from.
`,
		changes: contestChanges +
			"- Rows whose tests call a function (`fn_name`) are left out.\n" +
			"- The reference is the first of the solutions; not every one that the data set has passes its own tests.\n" +
			"- A case has 10 seconds, all of a row 300.\n",
	}
}

func codeContests() dataset {
	return dataset{
		format:  CodeContests,
		family:  "code_completion",
		convert: convertCodeContests,
		licence: "The data set is published under the licence CC BY 4.0 by its authors,\nhttps://creativecommons.org/licenses/by/4.0/legalcode. " + licenceOfSites,
		about: `# CodeContests

Rows of CodeContests, from the repository google-deepmind/code_contests, or in its form.
Yujia Li and others, "Competition-Level Code Generation with AlphaCode" (2022),
https://arxiv.org/abs/2203.07814

Licence: Creative Commons Attribution 4.0 International; see LICENSE.
`,
		changes: contestChanges +
			"- The cases are the public, private and generated tests.\n" +
			"- The reference is the first solution in Python 3, if there is one.\n" +
			"- A case has five times the problem's time limit, which is made for compiled languages, or 10 seconds if it has none; all of a row 300 seconds.\n" +
			"- Where a problem names files for input and output, they take the place of the standard streams.\n",
	}
}

const (
	// wholeTime is enough for the cases of a problem together, in seconds.
	wholeTime = 300
	// caseTime is the time of a case where the data set names none.
	caseTime = 10
	// pythonFactor is how much longer a program in Python may take than the
	// contest allows, whose limits are made for compiled languages.
	pythonFactor = 5
)

// contestChanges says what becomes of every problem, in Markdown.
const contestChanges = "- The rows ask for a program in Python that reads standard input and writes standard output. " +
	"Outputs are compared word by word; a problem that has several right outputs accepts only the recorded one.\n" +
	"- Rows without tests are left out.\n"

// licenceOfSites ends the licence of a data set of problems that others wrote.
const licenceOfSites = "The texts of the problems\nbelong to the sites that they are from.\n"

// inputOutput reads the lists of inputs and outputs of an object.
func (o *object) inputOutput(tests *source.Node, inputs, outputs string) (out []codeCase) {
	in, want := tests.Get(inputs), tests.Get(outputs)
	if in == nil || want == nil || in.Kind != source.List || want.Kind != source.List || len(in.Items) != len(want.Items) {
		o.fail(tests, "%s and %s must be lists of the same length", inputs, outputs)
		return nil
	}
	for i := range in.Items {
		given, ok := linesOf(in.Items[i])
		expected, fine := linesOf(want.Items[i])
		if !ok || !fine {
			o.fail(tests, "an element of %s and %s must be a text or a list of lines", inputs, outputs)
			return nil
		}
		c := codeCase{Stdin: given}
		c.Expect.Stdout = &expected
		out = append(out, c)
	}
	return out
}

// linesOf reads a text, or a list of lines.
func linesOf(n *source.Node) (string, bool) {
	if n.Kind == source.String {
		return n.Text, true
	}
	if n.Kind != source.List {
		return "", false
	}
	var b strings.Builder
	for _, line := range n.Items {
		if line.Kind != source.String {
			return "", false
		}
		b.WriteString(line.Text + "\n")
	}
	return b.String(), true
}

// contestCases are the cases of a program in Python.
func contestCases(cases []codeCase, seconds float64) codeTests {
	return codeTests{Source: "cases", Command: []string{"python3", "candidate.py"}, Compare: "whitespace",
		CaseSeconds: seconds, Timeout: wholeTime, Cases: cases}
}

func convertAPPS(o *object, c converter) row {
	o.problems.Closed(o.node, "the row", "id", "problem_id", "question", "solutions", "input_output", "difficulty", "url", "starter_code")
	key := "problem_id"
	if o.node.Get(key) == nil {
		key = "id"
	}
	r := row{ID: fmt.Sprintf("APPS/%d", o.number(key)), Input: codeInput{o.text("question") + "\n", "python"}, Metadata: map[string]any{"dataset": "APPS"}}
	for _, name := range []string{"difficulty", "url"} {
		if n := o.node.Get(name); n != nil {
			r.Metadata[name] = n.Any()
		}
	}
	var e codeEval
	cases, solutions := o.nested("input_output"), o.nested("solutions")
	switch {
	case cases == nil:
		c.leave("it has no tests")
	case cases.Get("fn_name") != nil:
		c.leave("its tests call a function")
	default:
		e.Tests = contestCases(o.inputOutput(cases, "inputs", "outputs"), caseTime)
		if len(e.Tests.Cases) == 0 {
			c.leave("it has no tests")
		}
	}
	if solutions != nil {
		list, problem := solutions.Strings("solutions")
		o.problems.Note(problem)
		if problem == nil && len(list) > 0 {
			e.Reference = list[0]
		}
	}
	r.Eval = e
	return r
}

// nested reads a field that is JSON in a string, or JSON itself; nil if it is
// blank or missing.
func (o *object) nested(name string) *source.Node {
	n := o.node.Get(name)
	if n == nil || n.Kind == source.Null || n.Kind == source.String && strings.TrimSpace(n.Text) == "" {
		return nil
	}
	if n.Kind != source.String {
		return n
	}
	inner, err := source.ParseJSON(n.Pos.File, n.Pos.Line, []byte(n.Text))
	if err != nil {
		o.fail(n, "%s is not JSON", name)
		return nil
	}
	return inner
}

var notName = lazyregexp.New(`[^A-Za-z0-9]+`)

func convertCodeContests(o *object, c converter) row {
	o.problems.Closed(o.node, "the row", "name", "description", "public_tests", "private_tests", "generated_tests", "solutions",
		"time_limit", "input_file", "output_file", "source", "difficulty", "incorrect_solutions", "cf_contest_id", "cf_index", "cf_points",
		"cf_rating", "cf_tags", "is_description_translated", "untranslated_description", "memory_limit_bytes")
	name := o.text("name")
	var cases []codeCase
	for _, part := range []string{"public_tests", "private_tests", "generated_tests"} {
		if n := o.node.Get(part); n != nil && n.Kind == source.Map {
			cases = append(cases, o.inputOutput(n, "input", "output")...)
		}
	}
	o.throughFiles(cases)
	if len(cases) == 0 {
		c.leave("it has no tests")
	}
	return row{ID: "CodeContests/" + strings.Trim(notName.ReplaceAllString(name, "-"), "-"), Input: codeInput{o.text("description") + "\n", "python"},
		Eval:     codeEval{contestCases(cases, o.timeLimit()), o.python3()},
		Metadata: map[string]any{"dataset": "CodeContests", "name": name}}
}

// throughFiles gives cases their input and output in files, where the row names
// some.
func (o *object) throughFiles(cases []codeCase) {
	input, output := o.fileName("input_file"), o.fileName("output_file")
	for i := range cases {
		c := &cases[i]
		if input != "" {
			c.Files, c.Stdin = map[string]string{input: c.Stdin}, ""
		}
		if output != "" {
			c.Expect.Files, c.Expect.Stdout = map[string]string{output: *c.Expect.Stdout}, nil
		}
	}
}

// fileName reads the name of a file, which may be missing, null or blank.
func (o *object) fileName(field string) string {
	n := o.node.Get(field)
	if n == nil || n.Kind != source.String {
		return ""
	}
	if strings.ContainsAny(n.Text, "/\\\x00") || n.Text == "." || n.Text == ".." {
		o.fail(n, "%s must be a plain name", field)
		return ""
	}
	return n.Text
}

// timeLimit is the time of one case in seconds.
func (o *object) timeLimit() float64 {
	n := o.node.Get("time_limit")
	if n == nil || n.Kind != source.Map {
		return caseTime
	}
	seconds := float64(0)
	if n.Get("seconds") != nil {
		seconds = float64(o.numberOf(n, "seconds"))
	}
	if n.Get("nanos") != nil {
		seconds += float64(o.numberOf(n, "nanos")) / 1e9
	}
	if seconds == 0 {
		return caseTime
	}
	return seconds * pythonFactor
}

// python3 returns the first solution in Python 3, or "".
func (o *object) python3() string {
	n := o.node.Get("solutions")
	if n == nil || n.Kind != source.Map {
		return ""
	}
	languages, texts := n.Get("language"), n.Get("solution")
	if languages == nil || texts == nil || len(languages.Items) != len(texts.Items) {
		o.fail(n, "language and solution must be lists of the same length")
		return ""
	}
	for i, l := range languages.Items {
		if l.Text == "3" || l.Text == "PYTHON3" {
			return texts.Items[i].Text
		}
	}
	return ""
}
