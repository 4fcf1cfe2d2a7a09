package toolcall_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/datatest"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/family/toolcall"
	"securebench/internal/importer"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// imported returns the rows of BFCL by their id.
func imported(t *testing.T) map[string]family.Case {
	t.Helper()
	data := filepath.Join(datatest.Dir(t), "bfcl", "public")
	if _, err := os.Stat(data); err != nil {
		t.Skipf("there is no %s", data)
	}
	dir := t.TempDir()
	sum, err := importer.Import(context.Background(), importer.BFCL, nil, dir, importer.Options{Name: data})
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range sum.LeftOut {
		t.Logf("left out: %s", left)
	}
	out := map[string]family.Case{}
	for _, line := range datatest.Lines(t, filepath.Join(dir, "tasks.jsonl")) {
		var row struct {
			ID    string                    `json:"id"`
			Input map[string]jsontext.Value `json:"input"`
			Eval  map[string]jsontext.Value `json:"eval"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		if problems := toolcall.Family().Check(family.Row{ID: row.ID, Input: row.Input, Eval: row.Eval}); len(problems) > 0 {
			t.Errorf("%s: %+v", row.ID, problems)
		}
		var resources []task.Resource
		for _, name := range slices.Sorted(maps.Keys(row.Input)) {
			resources = append(resources, task.Resource{Name: name, Lane: task.Public, Value: row.Input[name]})
		}
		for _, name := range slices.Sorted(maps.Keys(row.Eval)) {
			resources = append(resources, task.Resource{Name: name, Value: row.Eval[name]})
		}
		out[row.ID] = familytest.Case(t, "tool_call", resources...)
	}
	return out
}

// TestBFCLGold: the canonical calls of every row pass, and nothing and a constant do not.
func TestBFCLGold(t *testing.T) {
	v := toolcall.Family().NewVerifier(family.Resources{})
	live, passed := map[bool]int{}, map[bool]int{}
	for id, c := range imported(t) {
		of := strings.HasPrefix(id, "live_")
		live[of]++
		solution, ok := toolcall.Family().Reference(c.Evaluator)
		if !ok {
			t.Errorf("%s has no solution", id)
			continue
		}
		if got := familytest.Verify(t, v, c, solution.Candidate); got.Outcome == verdict.Passed {
			passed[of]++
		} else {
			t.Errorf("%s: %s: %s", id, familytest.Content(t, solution.Candidate), familytest.Outcome(got))
		}
		if got := familytest.Verify(t, v, c, candidate.New(task.Text, candidate.Stdout, nil)); got.Outcome != verdict.Failed {
			t.Errorf("%s: nothing is %s", id, familytest.Outcome(got))
		}
	}
	t.Logf("%d of %d canonical solutions pass, of the live rows %d of %d", passed[false], live[false], passed[true], live[true])
}

// TestBFCLVerdicts: recorded outputs have the verdicts of the data set's own scorer, as
// they are and, of those that came through a provider's interface, as JSON.
func TestBFCLVerdicts(t *testing.T) {
	verdicts := filepath.Join(datatest.Dir(t), "bfcl-verdicts", "public", "verdicts.jsonl")
	if _, err := os.Stat(verdicts); err != nil {
		t.Skipf("there is no %s", verdicts)
	}
	rows, outputs := imported(t), map[string]map[string]jsontext.Value{}
	v := toolcall.Family().NewVerifier(family.Resources{})
	lines, texts, equal, right := 0, 0, 0, 0
	for _, line := range datatest.Lines(t, verdicts) {
		var theirs struct {
			Task  string `json:"task"`
			Model string `json:"model"`
			Valid bool   `json:"official_valid"`
		}
		if err := json.Unmarshal(line, &theirs); err != nil {
			t.Fatal(err)
		}
		if outputs[theirs.Model] == nil {
			outputs[theirs.Model] = recordedOutputs(t, theirs.Model)
		}
		c, known := rows[theirs.Task]
		output, there := outputs[theirs.Model][theirs.Task]
		if !known || !there {
			t.Fatalf("there is no row, or no output of %s, for %s", theirs.Model, theirs.Task)
		}
		lines++
		for _, text := range forms(t, output) {
			texts++
			got := familytest.Verify(t, v, c, candidate.New(task.Text, candidate.Stdout, []byte(text)))
			switch passed := got.Outcome == verdict.Passed; {
			case passed != theirs.Valid:
				t.Errorf("%s, %s: theirs is %t, ours %s: %.300s", theirs.Task, theirs.Model, theirs.Valid, familytest.Outcome(got), text)
			case passed:
				right++
				fallthrough
			default:
				equal++
			}
		}
	}
	t.Logf("%d lines, %d texts: %d verdicts are equal, %d of them passed", lines, texts, equal, right)
}

// forms are an output as text: as it is, and its calls as JSON where it has any.
func forms(t *testing.T, output jsontext.Value) []string {
	t.Helper()
	var text string
	if json.Unmarshal(output, &text) == nil {
		return []string{text}
	}
	var list []map[string]string
	if err := json.Unmarshal(output, &list); err != nil {
		t.Fatal(err)
	}
	type call struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	var out []call
	for _, one := range list {
		for name, args := range one {
			if !jsontext.Value(args).IsValid() {
				return []string{string(output)}
			}
			out = append(out, call{name, jsontext.Value(args)})
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return []string{string(output), string(b)}
}

// recordedOutputs reads a model's outputs, by the ids that the rows have today.
func recordedOutputs(t *testing.T, model string) map[string]jsontext.Value {
	t.Helper()
	dir := filepath.Join(datatest.Dir(t), "bfcl-results", model)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("there is no %s", dir)
	}
	out := map[string]jsontext.Value{}
	for was, is := range map[string]string{"simple": "simple_python", "multiple_function": "multiple", "parallel_function": "parallel",
		"parallel_multiple_function": "parallel_multiple", "relevance": "irrelevance"} {
		for _, line := range datatest.Lines(t, filepath.Join(dir, "gorilla_openfunctions_v1_test_"+was+"_result.json")) {
			var row struct {
				ID     string         `json:"id"`
				Result jsontext.Value `json:"result"`
			}
			if err := json.Unmarshal(line, &row); err != nil {
				t.Fatal(err)
			}
			out[is+strings.TrimPrefix(row.ID, was)] = row.Result
		}
	}
	return out
}
