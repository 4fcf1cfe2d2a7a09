package importer_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/datatest"
	"securebench/internal/importer"
)

// Rows of BFCL in the form in which they have their category and accepted values, written
// for these tests.
const (
	bfclRow = `{"id": "multiple_7", "question": [[{"role": "user", "content": "Fill two tanks."}]], "function": [{"name": "tank.fill", ` +
		`"description": "Fills.", "parameters": {"type": "dict", "properties": {"n": {"type": "integer"}, "how": {"type": "string"}, "unit": {"type": "string"}}, "required": ["n"]}, "response": {}}], ` +
		`"category": "multiple", "ground_truth": [{"tank.fill": {"n": [2, 2.0], "how": ["", "slow"], "unit": [""]}}]}`
	bfclDeclined = `{"id": "irrelevance_1", "question": [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Sing."}]], "function": [{"name": "f", "parameters": {"type": "dict", "properties": {}}}], "category": "irrelevance"}`
)

func TestBFCLRows(t *testing.T) {
	java := change(bfclRow, `"multiple"`, `"simple_java"`)
	dir, sum, err := run(t, importer.BFCL, strings.Join([]string{bfclRow, bfclDeclined,
		change(java, "multiple_7", "java_1"), change(java, "multiple_7", "java_2"),
		change(change(bfclRow, "multiple_7", "live_1"), `[2, 2.0]`, `[]`)}, "\n"), importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"multiple_7","input":{"prompt":"Fill two tanks.","tools":[{"name":"tank.fill","description":"Fills.","parameters":{"type":"dict","properties":{"n":{"type":"integer"},"how":{"type":"string"},"unit":{"type":"string"}},"required":["n"]}}]},` +
		`"eval":{"expected_calls":[{"name":"tank.fill","accepted":{"n":[2,2.0],"how":["slow"],"unit":[""]},"optional":["how","unit"]}],"match":{"rule":"bfcl"}},"metadata":{"category":"multiple","dataset":"BFCL"}}
{"id":"irrelevance_1","input":{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Sing."}],"tools":[{"name":"f","parameters":{"type":"dict","properties":{}}}]},` +
		`"eval":{"expected_calls":[],"match":{"rule":"bfcl"}},"metadata":{"category":"irrelevance","dataset":"BFCL"}}
`
	if diff := cmp.Diff(want, read(t, dir, "tasks.jsonl")); diff != "" {
		t.Error(diff)
	}
	left := []string{`live_1: no value is accepted for the parameter "n", which cannot be left out`,
		"2 rows of simple_java: with literals of another language than Python"}
	if diff := cmp.Diff(left, sum.LeftOut); diff != "" {
		t.Error(diff)
	}
	if len(sum.Notes) != 1 || !strings.HasPrefix(sum.Notes[0], "1 rows of irrelevance are passed by whoever") || !strings.Contains(read(t, dir, "ATTRIBUTION.md"), sum.Notes[0]) {
		t.Errorf("notes %q", sum.Notes)
	}
}

// TestBFCLFolder: the data set's repository has the accepted values in another folder, and
// the category in the names of files.
func TestBFCLFolder(t *testing.T) {
	in := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(in, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(in, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	question, truth, _ := strings.Cut(bfclRow, `, "category": "multiple", `)
	put("BFCL_v4_multiple.json", question+"}")
	put("possible_answer/BFCL_v4_multiple.json", `{"id": "multiple_7", `+truth)
	put("BFCL_v4_irrelevance.json", change(bfclDeclined, `, "category": "irrelevance"`, ""))
	put("BFCL_v4_multi_turn_base.json", `{"id": "multi_turn_base_0", "question": [[], []]}`)
	put("BFCL_v4_format_sensitivity.json", `{"no": "rows"`)
	put("README.md", "x")
	importFolder := func() (string, importer.Result, error) {
		dir := filepath.Join(t.TempDir(), "out")
		sum, err := importer.Import(context.Background(), importer.BFCL, nil, dir, importer.Options{Name: in})
		return dir, sum, err
	}
	dir, sum, err := importFolder()
	if err != nil {
		t.Fatal(err)
	}
	oneFile, _, err := run(t, importer.BFCL, bfclDeclined+"\n"+bfclRow, importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read(t, oneFile, "tasks.jsonl"), read(t, dir, "tasks.jsonl")); diff != "" {
		t.Error(diff)
	}
	if want := []string{"1 row of multi_turn_base: not of a single turn, or with tools that must be called"}; !slices.Equal(sum.LeftOut, want) {
		t.Errorf("left out %q", sum.LeftOut)
	}
	put("possible_answer/BFCL_v4_multiple.json", `{"id": "multiple_8", `+truth)
	if _, _, err := importFolder(); err == nil || !strings.Contains(err.Error(), `BFCL_v4_multiple.json:1:1: the field "ground_truth" is missing`) {
		t.Errorf("without accepted values: %v", err)
	}
	in = t.TempDir()
	if _, _, err := importFolder(); err == nil || !strings.Contains(err.Error(), "has no file of BFCL") {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestBFCLProblems(t *testing.T) {
	for was, tt := range map[string]struct{ is, want string }{
		`"n": [2, 2.0]`:              {`"n": 2`, "the accepted values of n must be a list"},
		`{"tank.fill": {`:            {`{"tank": {`, `the expected call of "tank" is of no tool`},
		`"ground_truth": [{`:         {`"truth": [{`, `"ground_truth" is missing`},
		`"question": [[`:             {`"question": [[{"role":"user","content":"x"}],[`, "a list of one turn"},
		`"role": "user"`:             {`"role": "tool"`, "a message must have role and content"},
		`"name": "tank.fill"`:        {`"name": 1`, "a tool must have a name"},
		`"category": "multiple", `:   {``, `"category" is missing`},
		`"category": "multiple", "g`: {`"category": "multiple", "more": 1, "g`, `unknown field "more"`},
	} {
		if _, _, err := run(t, importer.BFCL, change(bfclRow, was, tt.is), importer.Options{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", was, err, tt.want)
		}
	}
}

// TestBFCLRefused: a row that the family refuses is left out, with the reason.
func TestBFCLRefused(t *testing.T) {
	refuse := func(family string, input, eval map[string]jsontext.Value) string {
		if family != "tool_call" || input["tools"] == nil || eval["match"] == nil {
			t.Errorf("asked about %s %v %v", family, input, eval)
		}
		if string(eval["expected_calls"]) == "[]" {
			return ""
		}
		return "eval cannot be met"
	}
	_, sum, err := run(t, importer.BFCL, bfclRow+"\n"+bfclDeclined, importer.Options{Refusal: refuse})
	if err != nil || sum.Rows != 1 || !slices.Equal(sum.LeftOut, []string{"multiple_7: eval cannot be met"}) {
		t.Errorf("%+v, %v", sum, err)
	}
}

// TestBFCLSample: the rows of the sample come out of the data set the same.
func TestBFCLSample(t *testing.T) {
	dir := filepath.Join(datatest.Dir(t), "bfcl", "public")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("there is no %s", dir)
	}
	out := t.TempDir()
	if _, err := importer.Import(context.Background(), importer.BFCL, nil, out, importer.Options{Name: dir}); err != nil {
		t.Fatal(err)
	}
	imported, same := evalByInput(t, out), 0
	for input, eval := range evalByInput(t, filepath.Join("..", "..", "packs", "bfcl-sample")) {
		switch got, ok := imported[input]; {
		case !ok: // another part of the data set
		case got != eval:
			t.Errorf("%s of the sample has the eval %s, imported it has %s", input, eval, got)
		default:
			same++
		}
	}
	t.Logf("%d of the sample's rows are among the %d imported", same, len(imported))
}
