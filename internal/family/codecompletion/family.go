// Package codecompletion is the family in which the agent writes a module of
// code that the row's tests call.
package codecompletion

import (
	_ "embed" // the schemas
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/task"
)

//go:embed schema/input.json
var inputSchema []byte

//go:embed schema/eval.json
var evalSchema []byte

// Family describes code_completion.
func Family() family.Family {
	return family.Family{
		Name:        "code_completion",
		InputSchema: inputSchema,
		EvalSchema:  evalSchema,
		Check:       check,
		Lanes: map[string]task.Lane{
			"tests":              task.EvaluationInputs,
			"reference_solution": task.Hidden,
			"canonical_solution": task.Hidden,
		},
		Extraction: task.Extraction{
			Mode: task.FromFile, Kind: task.Code, Path: "candidate.py", OrStdout: true,
		},
		Instruction: "Write one complete module that solves the task to candidate.py in the workspace. " +
			"It must contain everything that it needs, the prompt's own code included.",
		NeedsImage:     true,
		Footprint:      func(task.SandboxView) capacity.Footprint { return capacity.Footprint{Boxes: 1} }, // the candidate's
		Kept:           capacity.Footprint{Boxes: 1},                                                      // the test sandbox
		VerifySeconds:  30,
		Reference:      reference,
		PublicMetadata: []string{"language", "image", "completed_by_prompt"},
		Starter:        starter,
		Pending:        pending,
		NewVerifier:    NewVerifier,
	}
}

// testSpec is the part of eval.tests that the schema cannot check.
type testSpec struct {
	Source    string         `json:"source"`
	Code      string         `json:"code"`
	Compare   string         `json:"compare"`
	Tolerance jsontext.Value `json:"tolerance"`
	Cases     []testCase     `json:"cases"`
}

// testCase is the part of a case that the schema cannot check.
type testCase struct {
	Files  map[string]jsontext.Value `json:"files"`
	Expect struct {
		Files map[string]jsontext.Value `json:"files"`
	} `json:"expect"`
}

// check applies the rules that tie language, source and cases together.
func check(row family.Row) (out []family.Problem) {
	var spec testSpec
	if err := json.Unmarshal(row.Eval["tests"], &spec); err != nil {
		return []family.Problem{{Path: []string{"eval", "tests"}, Message: "cannot be read"}}
	}
	out = checkSize(row, spec.Code)
	language := "python"
	if v := row.Input["language"]; v != nil && json.Unmarshal(v, &language) == nil && spec.Source == "inline" && language != "python" {
		out = append(out, family.Problem{Path: []string{"input", "language"}, Message: "must be python for inline tests",
			Fix: `tests of other languages have the source "cases"`})
	}
	if spec.Tolerance != nil && spec.Compare != "numeric" {
		out = append(out, family.Problem{Path: []string{"eval", "tests", "tolerance"},
			Message: `needs the comparison "numeric"`})
	}
	for i, c := range spec.Cases {
		at := []string{"eval", "tests", "cases", strconv.Itoa(i)}
		out = append(out, checkFiles(c.Files, slices.Concat(at, []string{"files"}))...)
		out = append(out, checkFiles(c.Expect.Files, slices.Concat(at, []string{"expect", "files"}))...)
	}
	return out
}

// checkFiles checks that the names of files are paths inside a case's folder.
func checkFiles(files map[string]jsontext.Value, at []string) (out []family.Problem) {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !isLocal(name) {
			out = append(out, family.Problem{Path: slices.Concat(at, []string{name}),
				Message: "must have a relative path as its name", Fix: `no "..", no backslash, in its shortest form`})
		}
	}
	return out
}

func isLocal(name string) bool {
	return name != "" && name != "." && path.Clean(name) == name && !path.IsAbs(name) &&
		name != ".." && !strings.HasPrefix(name, "../") && !strings.ContainsAny(name, "\\\x00")
}

// reference returns the row's own solution. A canonical solution that only
// continues the prompt is returned unchanged: whether it is a module by itself
// is for a Python parser to decide, which the verifier has.
func reference(v task.EvaluatorView) (family.Solution, bool) {
	for _, name := range []string{"reference_solution", "canonical_solution"} {
		if c, ok := code(v.Get(name)); ok {
			return family.Solution{Candidate: c}, true
		}
	}
	return family.Solution{}, false
}

// starter returns the code from which the agent starts.
func starter(v task.AgentView) (candidate.Candidate, bool) { return code(v.Get("starter_code")) }

// code makes a candidate of a text resource that is not blank.
func code(r task.Resource, ok bool) (candidate.Candidate, bool) {
	text, isText := r.Text()
	if !ok || !isText || strings.TrimSpace(text) == "" {
		return candidate.Candidate{}, false
	}
	return candidate.New(task.Code, candidate.Given, []byte(text)), true
}

// maxRowText bounds what the test sandbox gets of a row in one frame, in bytes:
// prompt, tests and reference. The frame has some room beside it.
const maxRowText = maxSource - 1<<20

// checkSize refuses a row that does not fit into a frame.
func checkSize(row family.Row, tests string) []family.Problem {
	total := len(tests)
	for _, v := range []jsontext.Value{row.Input["prompt"], row.Eval["reference_solution"], row.Eval["canonical_solution"]} {
		var text string
		if v != nil && json.Unmarshal(v, &text) == nil {
			total += len(text)
		}
	}
	if total <= maxRowText {
		return nil
	}
	return []family.Problem{{Path: []string{"eval", "tests"}, Fix: "make the data in the tests instead of writing it out",
		Message: fmt.Sprintf("and the prompt and reference have %d bytes together, more than %d", total, maxRowText)}}
}
