package importer_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/digest"
	"securebench/internal/importer"
	"securebench/internal/importer/packdir"
	"securebench/internal/source"
)

// Rows in the form of each data set, written for these tests.
const (
	humanEvalRow = `{"task_id": "HumanEval/7", "prompt": "def twice(x):\n    \"\"\" Double x. \"\"\"\n", ` +
		`"entry_point": "twice", "canonical_solution": "    return 2 * x\n", ` +
		`"test": "def check(candidate):\n    assert candidate(2) == 4\n"}`
	mbppRow = `{"text": "Write a function to add.", "code": "def add(a,b): \r\n\treturn a + b\r", "task_id": 11, ` +
		`"test_setup_code": "one = 1\r\n", "test_list": ["assert add(one, 2) == 3", "assert add(2, 2) == 4"], ` +
		`"challenge_test_list": ["assert add(9, 9) == 18"]}`
	gsm8kRow      = `{"question": "How much are 1,000 and 125?", "answer": "It is <<1000+125=1125>>1125.\n#### 1,125", "row": 3}`
	truthfulQARow = `{"row": 9, "Type": "Adversarial", "Category": "Law", "Question": "May I?", "Best Answer": "no", ` +
		`"Best Incorrect Answer": "yes", "Correct Answers": "no", "Incorrect Answers": "yes; maybe", "Source": "x", ` +
		`"mc0_targets": {"no": 1, "yes": 0}, "mc1_targets": {"no": 1, "yes": 0, "maybe": 0, "": 0}, "mc2_targets": {"no": 1, "yes": 0}}`
	answersRow = `{"question": "q", "ground_truth": "A: 2", ` +
		`"6b_finetuning": {"is_correct": false, "solution": "A: 1"}, "6b_verification": {"is_correct": true, "solution": "A: 2"}, ` +
		`"175b_finetuning": {"is_correct": false, "solution": "A: 3"}, "175b_verification": {"is_correct": true, "solution": "so\nA: 2"}, "row": 3}`
)

func run(t *testing.T, format, in string, o importer.Options) (string, importer.Result, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	sum, err := importer.Import(context.Background(), format, strings.NewReader(in), dir, o)
	return dir, sum, err
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRows(t *testing.T) {
	tests := []struct {
		format, in, file, want string
	}{
		{
			importer.HumanEval, humanEvalRow, "tasks.jsonl",
			`{"id":"HumanEval/7","input":{"prompt":"def twice(x):\n    \"\"\" Double x. \"\"\"\n","language":"python"},` +
				`"eval":{"tests":{"source":"inline","code":"def check(candidate):\n    assert candidate(2) == 4\n\n\ncheck(twice)\n","entry_point":"twice"},` +
				`"reference_solution":"def twice(x):\n    \"\"\" Double x. \"\"\"\n    return 2 * x\n"},"metadata":{"dataset":"HumanEval"}}`,
		},
		{
			importer.MBPP, mbppRow, "tasks.jsonl",
			"{\"id\":\"MBPP/11\",\"input\":{\"prompt\":\"Write a function to add.\\n\\nYour code must define `def add(a,b)`.\\n\",\"language\":\"python\"}," +
				`"eval":{"tests":{"source":"inline","code":"one = 1\n\nassert add(one, 2) == 3\nassert add(2, 2) == 4\n"},` +
				`"reference_solution":"def add(a,b): \n\treturn a + b\n"},"metadata":{"dataset":"MBPP","split":"test"}}`,
		},
		{
			importer.GSM8K, gsm8kRow, "tasks.jsonl",
			`{"id":"GSM8K/3","input":{"question":"How much are 1,000 and 125?","answer_format":"a number"},` +
				`"eval":{"accepted_answers":["1,125"]},"metadata":{"dataset":"GSM8K","row":3}}`,
		},
		{
			importer.TruthfulQA, truthfulQARow, "tasks.jsonl",
			`{"id":"TruthfulQA/9","input":{"question":"May I?","choices":["maybe","yes","no"]},"eval":{"answer":"C"},` +
				`"metadata":{"category":"Law","choice_seed":"1","dataset":"TruthfulQA","row":9}}`,
		},
		{importer.GSM8KAnswers, answersRow, "175b_verification.jsonl", `{"task_id":"GSM8K/3","text":"so\nA: 2"}`},
		{importer.GSM8KAnswers, answersRow, "6b_finetuning.jsonl", `{"task_id":"GSM8K/3","text":"A: 1"}`},
	}
	for _, tt := range tests {
		t.Run(tt.format, func(t *testing.T) {
			dir, sum, err := run(t, tt.format, tt.in+"\n", importer.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want+"\n", read(t, dir, tt.file)); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
			if sum.Rows != 1 || sum.Source != digest.Bytes([]byte(tt.in+"\n")) {
				t.Errorf("summary %+v", sum)
			}
		})
	}
}

func TestPackFiles(t *testing.T) {
	dir, sum, err := run(t, importer.MBPP, mbppRow, importer.Options{ID: "mine: #1", Image: "img:2"})
	if err != nil {
		t.Fatal(err)
	}
	want := `# Imported from the mbpp data set; ATTRIBUTION.md says how.
id: "mine: #1"
version: 1

defaults:
  family: code_completion
  environment:
    image: "img:2"
`
	if diff := cmp.Diff(want, read(t, dir, "manifest.yaml")); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	about := read(t, dir, "ATTRIBUTION.md")
	for _, fact := range []string{"CC BY 4.0", "Google Research", "challenge_test_list", sum.Source} {
		if !strings.Contains(about+read(t, dir, "LICENSE"), fact) {
			t.Errorf("%q is neither in ATTRIBUTION.md nor in LICENSE", fact)
		}
	}
	var got []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff([]string{"ATTRIBUTION.md", "LICENSE", "manifest.yaml", "tasks.jsonl"}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// change replaces one part of a good row.
func change(row, old, with string) string {
	if !strings.Contains(row, old) {
		panic("the row does not hold " + old)
	}
	return strings.Replace(row, old, with, 1)
}

func TestRefused(t *testing.T) {
	tests := []struct {
		name, format, in, want string
	}{
		{"not JSON", importer.GSM8K, "\n{", "rows.jsonl:2:"},
		{"not an object", importer.GSM8K, "[]", "a row must be an object, not a list (write one object a line; jq -c '.[]' does so with a list)"},
		{"compressed", importer.GSM8K, "\x1f\x8b\x08", "rows.jsonl:1:1: the file is compressed with gzip (unpack it with gunzip)"},
		{"UTF-16", importer.GSM8K, "\xff\xfe{\x00", "the file is in UTF-16 (save it as UTF-8)"},
		{"Parquet", importer.GSM8K, "PAR1\x15", "the file is in the format Parquet"},
		{"two values", importer.GSM8K, gsm8kRow + gsm8kRow, "data follows the JSON value"},
		{"duplicate key", importer.GSM8K, change(gsm8kRow, `"row": 3`, `"question": "x"`), "duplicate key"},
		{"not UTF-8", importer.GSM8K, change(gsm8kRow, "How", "\xff"), "not UTF-8"},
		{"unknown field", importer.GSM8K, change(gsm8kRow, `"row"`, `"rows"`), `unknown field "rows"`},
		{"missing field", importer.GSM8K, `{"answer": "#### 3"}`, `the field "question" is missing`},
		{"wrong type", importer.GSM8K, change(gsm8kRow, `"row": 3`, `"row": "3"`), "row must be an integer"},
		{"no gold", importer.GSM8K, change(gsm8kRow, "#### 1,125", "1125"), "#### and a number"},
		{"gold is not a number", importer.GSM8K, change(gsm8kRow, "#### 1,125", "#### many"), "#### and a number"},
		{"same id twice", importer.GSM8K, gsm8kRow + "\n\n" + gsm8kRow, `rows.jsonl:3:1: the id "GSM8K/3" is already used on line 1`},
		{"no rows", importer.GSM8K, "\n\n", "contains no rows"},
		{"line too long", importer.GSM8K, gsm8kRow + "\n" + strings.Repeat(" ", 8<<20+1), "rows.jsonl:2: the line is longer"},
		{"entry point is code", importer.HumanEval, change(humanEvalRow, `"twice"`, `"twice); x("`), "entry_point must be a Python identifier"},
		{"id is a path", importer.HumanEval, change(humanEvalRow, "HumanEval/7", "../7"), "task_id must look like"},
		{"tests are blank", importer.HumanEval, change(humanEvalRow, `"def check(candidate):\n    assert candidate(2) == 4\n"`, `" "`), "test must be a non-empty string"},
		{"no tests", importer.MBPP, change(mbppRow, `["assert add(one, 2) == 3", "assert add(2, 2) == 4"]`, "[]"), "test_list must not be empty"},
		{"tests name nothing", importer.MBPP, change(mbppRow, "def add", "def sub"), "the tests do not use anything that the code defines"},
		{"setup is not a string", importer.MBPP, change(mbppRow, `"one = 1\r\n"`, "1"), "test_setup_code must be a string, not a number"},
		{"two right choices", importer.TruthfulQA, change(truthfulQARow, `"maybe": 0`, `"maybe": 1`), "exactly one correct, non-blank choice"},
		{"the right choice is blank", importer.TruthfulQA, change(truthfulQARow, `{"no": 1, "yes": 0, "maybe": 0, "": 0}`, `{"no": 0, "yes": 0, "": 1}`), "exactly one correct, non-blank choice"},
		{"one choice", importer.TruthfulQA, change(truthfulQARow, `{"no": 1, "yes": 0, "maybe": 0, "": 0}`, `{"no": 1, "": 0}`), "2 to 26 choices"},
		{"a value is 2", importer.TruthfulQA, change(truthfulQARow, `"maybe": 0`, `"maybe": 2`), "from 0 to 1"},
		{"targets are a list", importer.TruthfulQA, change(truthfulQARow, `{"no": 1, "yes": 0, "maybe": 0, "": 0}`, `[]`), "mc1_targets must be an object"},
		{"a model is missing", importer.GSM8KAnswers, change(answersRow, `"6b_finetuning"`, `"7b"`), `"6b_finetuning" is missing`},
		{"a model is a string", importer.GSM8KAnswers, change(answersRow, `{"is_correct": false, "solution": "A: 1"}`, `"A: 1"`), "6b_finetuning must be an object"},
		{"no answers", importer.GSM8KAnswers, "", "contains no rows"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, _, err := run(t, tt.format, tt.in, importer.Options{Name: "rows.jsonl"})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want one with %q", err, tt.want)
			}
			if entries, err := os.ReadDir(dir); len(entries) != 0 || err == nil {
				t.Errorf("the import left %v in its folder behind", entries)
			}
		})
	}
}

func TestProblemsAreTyped(t *testing.T) {
	_, _, err := run(t, importer.GSM8K, `{"question": 1, "answer": "#### 3"}`, importer.Options{Name: "rows.jsonl"})
	p, ok := errors.AsType[*source.Problem](err)
	if !ok {
		t.Fatalf("%v holds no source.Problem", err)
	}
	if diff := cmp.Diff(source.Pos{File: "rows.jsonl", Line: 1, Col: 14}, p.Pos); diff != "" {
		t.Errorf("place (-want +got):\n%s", diff)
	}
}

func TestOverwrite(t *testing.T) {
	dir := t.TempDir()
	do := func(in string, force bool) error {
		_, err := importer.Import(context.Background(), importer.GSM8K, strings.NewReader(in), dir, importer.Options{Force: force})
		return err
	}
	if err := do(gsm8kRow, false); err != nil {
		t.Fatal(err)
	}
	first := read(t, dir, "tasks.jsonl")
	if err := do(gsm8kRow, false); !errors.Is(err, packdir.ErrExists) {
		t.Errorf("second import: %v, want ErrExists", err)
	}
	if err := do("{", true); err == nil || errors.Is(err, packdir.ErrExists) {
		t.Errorf("a bad import with force: %v", err)
	}
	if got := read(t, dir, "tasks.jsonl"); got != first {
		t.Errorf("an import that was refused changed the pack:\n%s", got)
	}
	if err := do(change(gsm8kRow, `"row": 3`, `"row": 4`), true); err != nil {
		t.Fatal(err)
	}
	if got := read(t, dir, "tasks.jsonl"); !strings.Contains(got, "GSM8K/4") {
		t.Errorf("force did not replace the pack:\n%s", got)
	}
}

func TestLimit(t *testing.T) {
	in := gsm8kRow + "\n" + change(gsm8kRow, `"row": 3`, `"row": 4`) + "\nnot read\n"
	dir, sum, err := run(t, importer.GSM8K, in, importer.Options{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Rows != 2 || strings.Count(read(t, dir, "tasks.jsonl"), "\n") != 2 {
		t.Errorf("summary %+v", sum)
	}
	if want := digest.Bytes([]byte(in)); sum.Source != want {
		t.Errorf("source %s, want the digest of the whole input %s", sum.Source, want)
	}
	if _, _, err := run(t, importer.GSM8K, in, importer.Options{Limit: -1}); err == nil {
		t.Error("a limit below 0 was taken")
	}
}

func TestRowNumberIsOptional(t *testing.T) {
	plain := change(gsm8kRow, `, "row": 3`, "")
	dir, _, err := run(t, importer.GSM8K, plain+"\n"+plain, importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{`"GSM8K/0"`, `"GSM8K/1"`} {
		if !strings.Contains(read(t, dir, "tasks.jsonl"), id) {
			t.Errorf("the id %s is missing", id)
		}
	}
}

func TestSeedOrdersChoices(t *testing.T) {
	orders := make(map[string]bool)
	for _, seed := range []string{"1", "2", "3", "4", "5", "6"} {
		dir, _, err := run(t, importer.TruthfulQA, truthfulQARow, importer.Options{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		tasks := read(t, dir, "tasks.jsonl")
		if !strings.Contains(tasks, `"choice_seed":"`+seed+`"`) {
			t.Errorf("the seed %s is not recorded: %s", seed, tasks)
		}
		_, rest, _ := strings.Cut(tasks, `"choices":`)
		order, _, _ := strings.Cut(rest, "]")
		orders[order] = true
	}
	if len(orders) < 2 {
		t.Errorf("six seeds gave one order: %v", orders)
	}
}

func TestUnknownFormatAndCancel(t *testing.T) {
	if _, _, err := run(t, "gpqa", "", importer.Options{}); err == nil || !strings.Contains(err.Error(), "humaneval, mbpp") {
		t.Errorf("unknown format: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := importer.Import(ctx, importer.GSM8K, strings.NewReader(gsm8kRow), t.TempDir(), importer.Options{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled import: %v", err)
	}
}
