package analysis

import (
	_ "embed" // the program
	"fmt"
	"strconv"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/value"
)

// examineSource is the function examine of the analysis sandbox, which looks at a row without
// running anything. It needs analysis.py before it.
//
//go:embed examine.py
var examineSource string

// Texts are what an author wrote who wants to know why the reference does not pass:
// what in it cannot be right, and where the tests failed.
type Texts struct {
	Tests, Reference string
	// Solution is the field that holds the reference.
	Solution string
}

// Finding is one fault of the row's texts. Line counts from 1 in the text of the
// field; 0 is all of it.
type Finding struct {
	Field string // tests, reference or entry
	Line  int
	What  string
}

// readFindings reads what examine answers.
func readFindings(parts int, d *value.Decoder) (out []Finding, err error) {
	if parts != 1 {
		d.Fail("an examination has one part")
	}
	for _, n := range d.Value().Items {
		if n.Kind != value.KindTuple || len(n.Items) != 3 {
			d.Fail("a field, a line and a text are expected")
			break
		}
		line, err := strconv.ParseInt(string(n.Items[1].Atom), 16, 32)
		if err != nil {
			d.Fail("a line is expected")
			break
		}
		out = append(out, Finding{string(n.Items[0].Atom), int(line), string(n.Items[2].Atom)})
	}
	return out, d.End()
}

// Lines says what was found, and where the tests' traceback and the error of the
// reference's import come from.
func (r Texts) Lines(found []Finding, traceback, importError string) (out []string) {
	for _, f := range found {
		switch f.Field {
		case "tests":
			out = append(out, at("eval.tests.code", r.Tests, f.Line), f.What)
		case "reference":
			out = append(out, at(r.Solution, r.Reference, f.Line), f.What)
		case "entry":
			out = append(out, "eval.tests.entry_point: "+f.What)
		}
	}
	if importError != "" && len(found) == 0 {
		out = append(out, r.Solution+": "+importError)
	}
	return append(out, r.traceback(traceback)...)
}

// testsFrame is a line of a traceback that names a line of the tests.
var testsFrame = lazyregexp.New(`^  File "tests\.py", line ([0-9]+)`)

// traceback rewrites Python's traceback: frames of the tests name the row's field
// and show its line, those of securebench go.
func (r Texts) traceback(text string) (out []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if m := testsFrame.FindStringSubmatch(line); m != nil {
			n, err := strconv.Atoi(m[1])
			if err == nil {
				out = append(out, at("eval.tests.code", r.Tests, n))
			}
			continue
		}
		if strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "Traceback (") || strings.TrimSpace(line) == "" {
			continue // of securebench's own frames
		}
		if line == "CandidateError" {
			line = "the reference does not define what is called here, or raised an exception of its own"
		}
		out = append(out, line)
	}
	return out
}

// at names a line of a field and shows it.
func at(field, text string, n int) string {
	lines := strings.Split(text, "\n")
	if n < 1 || n > len(lines) {
		return field
	}
	return fmt.Sprintf("%s line %d: %s", field, n, strings.TrimSpace(lines[n-1]))
}
