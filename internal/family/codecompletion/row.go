package codecompletion

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/codecompletion/analysis"
	"securebench/internal/family/codecompletion/forms"
	"securebench/internal/verdict"
)

// row is what a verification needs of a task.
type row struct {
	prompt, tests string
	reference     *string // nil where the row has none
	entry         []string
	mutates       bool
	operators     bool
}

// testsObject is the row's tests. The family's schema has checked its shape;
// what does not fit here has no verifier.
type testsObject struct {
	Source     string         `json:"source"`
	Code       string         `json:"code"`
	EntryPoint jsontext.Value `json:"entry_point"`
	Mutates    bool           `json:"mutates"`
	Operators  bool           `json:"operators"`
}

// readRow takes a row from the lanes that this zone may see. A [family.Failure] says
// that no verifier exists for such a row.
func readRow(c family.Case) (row, error) {
	prompt, _ := c.Sandbox.Get("prompt")
	tests, ok := c.Sandbox.Get("tests")
	var t testsObject
	if !ok || json.Unmarshal(tests.Value, &t) != nil {
		return row{}, family.Fail(verdict.NoVerifier, "the row's tests are not of a known form")
	}
	if t.Source != forms.Inline {
		return row{}, family.Fail(verdict.NoVerifier, "tests.source of this kind has no verifier")
	}
	if language, ok := c.Sandbox.Get("language"); ok {
		if name, _ := language.Text(); name != forms.Python {
			return row{}, family.Fail(verdict.NoVerifier, "inline tests of languages other than python have no verifier")
		}
	}
	out := row{tests: t.Code, mutates: t.Mutates, operators: t.Operators, reference: readReference(c)}
	out.prompt, _ = prompt.Text()
	var err error
	out.entry, err = readEntry(t.EntryPoint)
	return out, err
}

// readEntry reads a name or a list of names.
func readEntry(v jsontext.Value) ([]string, error) {
	var one string
	var many []string
	switch {
	case len(v) == 0:
		return nil, nil
	case v.Kind() == '"' && json.Unmarshal(v, &one) == nil:
		return []string{one}, nil
	case v.Kind() == '[' && json.Unmarshal(v, &many) == nil:
		return many, nil
	}
	return nil, family.Fail(verdict.NoVerifier, "tests.entry_point is not a name or a list of names")
}

// readReference returns the row's own solution. It goes to the
// analysis, which executes nothing, and to no sandbox in which anything runs.
func readReference(c family.Case) *string {
	if r, ok := c.Evaluator.Get(referenceField(c)); ok {
		s, _ := r.Text()
		return &s
	}
	return nil
}

// referenceField is the field that holds the row's own solution, or "".
func referenceField(c family.Case) string {
	for _, name := range []string{"reference_solution", "canonical_solution"} {
		if r, ok := c.Evaluator.Get(name); ok {
			if s, ok := r.Text(); ok && strings.TrimSpace(s) != "" {
				return name
			}
		}
	}
	return ""
}

// analysed is what is known of a row: the analysis, and what the row declares.
type analysed struct {
	analysis.Analysis
	operators bool // objects of the candidate's answer special methods
}

// objects says what the tests may do with objects of the candidate's.
func (a analysed) objects() string {
	switch {
	case a.operators:
		return "operators"
	case a.Handles:
		return "handles"
	}
	return ""
}

// texts are those of the row's texts that are analysed.
func (r row) texts() analysis.Row {
	return analysis.Row{Prompt: r.prompt, Tests: r.tests, Reference: r.reference, Entry: r.entry}
}

// analyse analyses the row of a case.
func (v *Verifier) analyse(ctx context.Context, c family.Case, r row) (analysed, error) {
	a, err := v.analyst.Analyse(ctx, c.Image, c.Limits, r.texts())
	a.Handles = a.Handles || r.operators
	return analysed{a, r.operators}, err
}
