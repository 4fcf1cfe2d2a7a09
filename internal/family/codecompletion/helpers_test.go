package codecompletion

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/datatest"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/sandbox"
	"securebench/internal/task"
)

// spec is a row as the tests of this package write it.
type spec struct {
	id, prompt, tests, reference string
	entry                        any // string, []string or nil
	mutates, operators           bool
	source, language             string
	limits                       sandbox.Limits
}

// makeCase compiles a row into the views that a verifier gets.
func makeCase(tb testing.TB, s spec) family.Case {
	tb.Helper()
	tests := map[string]any{"source": "inline", "code": s.tests}
	if s.source != "" {
		tests["source"] = s.source
	}
	if s.entry != nil {
		tests["entry_point"] = s.entry
	}
	if s.mutates {
		tests["mutates"] = true
	}
	if s.operators {
		tests["operators"] = true
	}
	if s.id == "" {
		s.id = "task"
	}
	resources := []task.Resource{
		{Name: "prompt", Lane: task.Public, Value: familytest.JSON(tb, s.prompt)},
		{Name: "tests", Lane: task.EvaluationInputs, Value: familytest.JSON(tb, tests)},
	}
	if s.language != "" {
		resources = append(resources, task.Resource{Name: "language", Lane: task.Public, Value: familytest.JSON(tb, s.language)})
	}
	if s.reference != "" {
		resources = append(resources, task.Resource{Name: "canonical_solution", Value: familytest.JSON(tb, s.reference)})
	}
	compiled, err := task.New(task.Config{ID: s.id, Family: "code_completion",
		Pack: task.Pack{ID: "pack", Version: 1}, Resources: resources})
	if err != nil {
		tb.Fatal(err)
	}
	return family.Case{
		Attempt: 1, Sandbox: compiled.TestSandbox(), Evaluator: compiled.Evaluator(),
		Image: sandbox.Image{Ref: "local", ID: "local"}, Limits: s.limits,
	}
}

func resources(e sandbox.Engine) family.Resources {
	return family.Resources{Engine: e, RunID: "test"}
}

func newTestVerifier(tb testing.TB, e sandbox.Engine) *Verifier {
	tb.Helper()
	v := newVerifier(resources(e)).(*Verifier)
	tb.Cleanup(func() {
		if err := v.Close(context.Background()); err != nil {
			tb.Errorf("closing the verifier: %v", err)
		}
	})
	return v
}

// verify runs one case with a candidate that is code to its verdict.
func verify(tb testing.TB, v family.Verifier, c family.Case, code string) family.Verdict {
	tb.Helper()
	return familytest.Verify(tb, v, c, familytest.Code(code))
}

// verifySaid runs one case with what an agent said to its verdict.
func verifySaid(tb testing.TB, v family.Verifier, c family.Case, words string) family.Verdict {
	tb.Helper()
	return familytest.Verify(tb, v, c, familytest.Said(words))
}

func content(tb testing.TB, c candidate.Candidate) string { return familytest.Content(tb, c) }

// describe renders a verdict for an error message.
func describe(v family.Verdict) string {
	return fmt.Sprintf("%s/%s %q %v\n%s", v.Outcome, v.Reason, v.Message, v.Metadata, v.Restricted["tests-traceback.txt"])
}

// dataRows reads a data set's rows, or skips the test.
func dataRows(tb testing.TB, set string) []map[string]any {
	tb.Helper()
	data, err := os.ReadFile(datatest.Rows(tb, set))
	if err != nil {
		tb.Fatal(err)
	}
	var out []map[string]any
	for line := range bytes.Lines(data) {
		var row map[string]any
		if err := json.Unmarshal(line, &row); err != nil {
			tb.Fatal(err)
		}
		out = append(out, row)
	}
	return out
}
