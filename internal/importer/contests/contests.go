// Package contests reads problems of programming contests: a text, and programs'
// input and output.
package contests

import (
	"fmt"
	"regexp"
	"strings"

	"securebench/internal/source"
)

// Eval is the eval of a code_completion row that is scored by cases.
type Eval struct {
	Tests     Tests  `json:"tests"`
	Reference string `json:"reference_solution,omitzero"`
}

// Tests are the cases of a row.
type Tests struct {
	Source      string   `json:"source"`
	Command     []string `json:"command"`
	Compare     string   `json:"compare"`
	CaseSeconds float64  `json:"case_seconds"`
	Timeout     float64  `json:"timeout_seconds"`
	Cases       []Case   `json:"cases"`
}

// Case is a program's input and output.
type Case struct {
	Stdin  string            `json:"stdin,omitzero"`
	Files  map[string]string `json:"files,omitzero"`
	Expect Expect            `json:"expect"`
}

// Expect is what a case expects.
type Expect struct {
	Stdout *string           `json:"stdout,omitzero"`
	Files  map[string]string `json:"files,omitzero"`
}

// Problem is one problem of a contest.
type Problem struct {
	ID       string
	Text     string
	Eval     Eval
	Metadata map[string]any
	// Left says why the problem cannot be a row; "" if it can.
	Left string
}

const (
	// wholeTime is enough for the cases of a problem together, in seconds.
	wholeTime = 300
	// caseTime is the time of a case where the data set names none.
	caseTime = 10
	// pythonFactor is how much longer a program in Python may take than the
	// contest allows, whose limits are made for compiled languages.
	pythonFactor = 5
	// maxNumber bounds what is read as a number of a row.
	maxNumber = 1 << 31
)

// Changes says what becomes of every problem, in Markdown.
const Changes = "- The rows ask for a program in Python that reads standard input and writes standard output. " +
	"Outputs are compared word by word; a problem that has several right outputs accepts only the recorded one.\n" +
	"- Rows without tests are left out.\n"

// LicenceOfSites ends the licence of a data set of problems that others wrote.
const LicenceOfSites = "The texts of the problems\nbelong to the sites that they are from.\n"

// reader reads a row and collects what is wrong with it.
type reader struct {
	node     *source.Node
	problems source.Problems
}

func (r *reader) fail(at *source.Node, format string, args ...any) {
	r.problems.Add(at.Pos, "", format, args...)
}

// text reads a text that is there and not blank.
func (r *reader) text(name string) string {
	n := r.node.Get(name)
	if n == nil {
		r.fail(r.node, "the field %q is missing", name)
		return ""
	}
	s, p := n.Str(name)
	if p != nil {
		r.problems = append(r.problems, p)
	}
	return s
}

// number reads a whole number of an object.
func (r *reader) number(of *source.Node, name string) int64 {
	n := of.Get(name)
	if n == nil {
		r.fail(of, "the field %q is missing", name)
		return 0
	}
	i, p := n.Int(name, 0, maxNumber)
	if p != nil {
		r.problems = append(r.problems, p)
	}
	return i
}

// inputOutput reads the lists of inputs and outputs of an object.
func (r *reader) inputOutput(tests *source.Node, inputs, outputs string) (out []Case) {
	in, want := tests.Get(inputs), tests.Get(outputs)
	if in == nil || want == nil || in.Kind != source.List || want.Kind != source.List || len(in.Items) != len(want.Items) {
		r.fail(tests, "%s and %s must be lists of the same length", inputs, outputs)
		return nil
	}
	for i := range in.Items {
		given, ok := lines(in.Items[i])
		expected, fine := lines(want.Items[i])
		if !ok || !fine {
			r.fail(tests, "an element of %s and %s must be a text or a list of lines", inputs, outputs)
			return nil
		}
		out = append(out, Case{Stdin: given, Expect: Expect{Stdout: &expected}})
	}
	return out
}

// lines reads a text, or a list of lines.
func lines(n *source.Node) (string, bool) {
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

// tests are the cases of a program in Python.
func tests(cases []Case, seconds float64) Tests {
	return Tests{Source: "cases", Command: []string{"python3", "candidate.py"}, Compare: "whitespace",
		CaseSeconds: seconds, Timeout: wholeTime, Cases: cases}
}

// APPS reads a row of APPS.
func APPS(node *source.Node) (Problem, source.Problems) {
	r := &reader{node: node}
	r.problems, _ = node.Check("the row", false, "id", "problem_id", "question", "solutions", "input_output", "difficulty", "url", "starter_code")
	key := "problem_id"
	if node.Get(key) == nil {
		key = "id"
	}
	p := Problem{ID: fmt.Sprintf("APPS/%d", r.number(node, key)), Text: r.text("question") + "\n", Metadata: map[string]any{"dataset": "APPS"}}
	for _, name := range []string{"difficulty", "url"} {
		if n := node.Get(name); n != nil {
			p.Metadata[name] = n.Any()
		}
	}
	cases, solutions := r.nested("input_output"), r.nested("solutions")
	switch {
	case cases == nil:
		p.Left = "it has no tests"
	case cases.Get("fn_name") != nil:
		p.Left = "its tests call a function"
	default:
		p.Eval.Tests = tests(r.inputOutput(cases, "inputs", "outputs"), caseTime)
		if len(p.Eval.Tests.Cases) == 0 {
			p.Left = "it has no tests"
		}
	}
	if solutions != nil {
		list, problem := solutions.Strings("solutions")
		if problem != nil {
			r.problems = append(r.problems, problem)
		} else if len(list) > 0 {
			p.Eval.Reference = list[0]
		}
	}
	return p, r.problems
}

// nested reads a field that is JSON in a string, or JSON itself; nil if it is
// blank or missing.
func (r *reader) nested(name string) *source.Node {
	n := r.node.Get(name)
	if n == nil || n.Kind == source.Null || n.Kind == source.String && strings.TrimSpace(n.Text) == "" {
		return nil
	}
	if n.Kind != source.String {
		return n
	}
	inner, err := source.ParseJSON(n.Pos.File, n.Pos.Line, []byte(n.Text))
	if err != nil {
		r.fail(n, "%s is not JSON", name)
		return nil
	}
	return inner
}

var notName = regexp.MustCompile(`[^A-Za-z0-9]+`)

// CodeContests reads a row of CodeContests.
func CodeContests(node *source.Node) (Problem, source.Problems) {
	r := &reader{node: node}
	r.problems, _ = node.Check("the row", false, "name", "description", "public_tests", "private_tests", "generated_tests", "solutions",
		"time_limit", "input_file", "output_file", "source", "difficulty", "incorrect_solutions", "cf_contest_id", "cf_index", "cf_points",
		"cf_rating", "cf_tags", "is_description_translated", "untranslated_description", "memory_limit_bytes")
	name := r.text("name")
	var cases []Case
	for _, part := range []string{"public_tests", "private_tests", "generated_tests"} {
		if n := node.Get(part); n != nil && n.Kind == source.Map {
			cases = append(cases, r.inputOutput(n, "input", "output")...)
		}
	}
	r.throughFiles(cases)
	p := Problem{ID: "CodeContests/" + strings.Trim(notName.ReplaceAllString(name, "-"), "-"), Text: r.text("description") + "\n",
		Eval:     Eval{tests(cases, r.timeLimit()), r.python3()},
		Metadata: map[string]any{"dataset": "CodeContests", "name": name}}
	if len(cases) == 0 {
		p.Left = "it has no tests"
	}
	return p, r.problems
}

// throughFiles gives cases their input and output in files, where the row names
// some.
func (r *reader) throughFiles(cases []Case) {
	input, output := r.fileName("input_file"), r.fileName("output_file")
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
func (r *reader) fileName(field string) string {
	n := r.node.Get(field)
	if n == nil || n.Kind != source.String {
		return ""
	}
	if strings.ContainsAny(n.Text, "/\\\x00") || n.Text == "." || n.Text == ".." {
		r.fail(n, "%s must be a plain name", field)
		return ""
	}
	return n.Text
}

// timeLimit is the time of one case in seconds.
func (r *reader) timeLimit() float64 {
	n := r.node.Get("time_limit")
	if n == nil || n.Kind != source.Map {
		return caseTime
	}
	seconds := float64(0)
	if n.Get("seconds") != nil {
		seconds = float64(r.number(n, "seconds"))
	}
	if n.Get("nanos") != nil {
		seconds += float64(r.number(n, "nanos")) / 1e9
	}
	if seconds == 0 {
		return caseTime
	}
	return seconds * pythonFactor
}

// python3 returns the first solution in Python 3, or "".
func (r *reader) python3() string {
	n := r.node.Get("solutions")
	if n == nil || n.Kind != source.Map {
		return ""
	}
	languages, texts := n.Get("language"), n.Get("solution")
	if languages == nil || texts == nil || len(languages.Items) != len(texts.Items) {
		r.fail(n, "language and solution must be lists of the same length")
		return ""
	}
	for i, l := range languages.Items {
		if l.Text == "3" || l.Text == "PYTHON3" {
			return texts.Items[i].Text
		}
	}
	return ""
}
