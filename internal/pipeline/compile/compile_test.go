package compile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/families"
	"securebench/internal/family"
	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/task"
)

func registry() family.Registry {
	return families.All()
}

const manifest = "id: p\nversion: 1\n"

// write makes a pack with the given manifest, rows and further files.
func write(t *testing.T, manifest string, rows []string, files ...string) pack.Location {
	t.Helper()
	dir := t.TempDir()
	put := func(name, content string) {
		t.Helper()
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("manifest.yaml", manifest)
	put("tasks.jsonl", strings.Join(rows, "\n")+"\n")
	for _, f := range files {
		put(f, "content of "+f)
	}
	return pack.Location{Manifest: filepath.Join(dir, "manifest.yaml"), Tasks: filepath.Join(dir, "tasks.jsonl")}
}

// load loads a pack and returns its problems and warnings with the folder cut
// out of the places.
func load(t *testing.T, loc pack.Location) (loaded *compile.Loaded, errs, warnings string) {
	t.Helper()
	loaded, err := compile.Load(context.Background(), loc, registry(), nil)
	if err != nil {
		return nil, cut(loc, err), ""
	}
	return loaded, "", cut(loc, loaded.Warnings.Err())
}

func cut(loc pack.Location, err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), filepath.Dir(loc.Manifest)+"/", "")
}

// tasks compiles all rows of a pack.
func tasks(t *testing.T, p *compile.Loaded) []task.Task {
	t.Helper()
	var out []task.Task
	for row, err := range p.Rows(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		compiled, err := p.Compiler.Task(row)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, compiled)
	}
	return out
}

var update = flag.Bool("update", false, "rewrite the expected messages in testdata")

// rowCase is one line of testdata/rows.jsonl: a row with every message that it
// causes. No errors and no warnings: an honest row.
type rowCase struct {
	Name     string          `json:"name"`
	Row      json.RawMessage `json:"row"`
	Files    []string        `json:"files,omitempty"`
	Errors   []string        `json:"errors,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
}

// Every rule of a row, each with the exact message and an honest twin.
func TestRowRules(t *testing.T) {
	const file = "testdata/rows.jsonl"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c := compile.New(pack.Manifest{ID: "p"}, registry()) // once: schemas take long to compile
	for line := range strings.Lines(string(b)) {
		var want rowCase
		if err := json.Unmarshal([]byte(line), &want); err != nil {
			t.Fatal(err)
		}
		t.Run(want.Name, func(t *testing.T) {
			loc := write(t, manifest, []string{string(want.Row)}, want.Files...)
			p, err := pack.Load(context.Background(), loc, compile.Texts(registry()), c.Check)
			got := want
			got.Errors, got.Warnings = messages(cut(loc, err)), nil
			if err == nil {
				got.Warnings = messages(cut(loc, p.Warnings.Err()))
			}
			if diff := cmp.Diff(want, got); diff != "" && !*update {
				t.Error(diff)
			}
			encode(t, &out, got)
		})
	}
	if *update {
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// messages splits s into lines and cuts "tasks.jsonl:1:<column>: " from each;
// columns have a test of their own.
func messages(s string) (out []string) {
	if s == "" {
		return nil
	}
	for line := range strings.SplitSeq(s, "\n") {
		if rest, ok := strings.CutPrefix(line, "tasks.jsonl:1:"); ok {
			_, line, _ = strings.Cut(rest, ": ")
		}
		out = append(out, line)
	}
	return out
}

func encode(t *testing.T, out *bytes.Buffer, v any) {
	t.Helper()
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
}

func TestPlaces(t *testing.T) {
	rows := []string{
		`{"id":"a","family":"short_answer","input":{"question":"q"},"eval":{"accepted_answers":["x"]}}`,
		``,
		`{"id":"b","family":"short_answer","input":{"question":"é","contxt":1},"eval":{"accepted_answers":["x",true],"tolerance":-1}}`,
	}
	_, errs, _ := load(t, write(t, manifest, rows))
	want := strings.Join([]string{
		`tasks.jsonl:3:59: task 'b' (short_answer).input has unknown field "contxt" (did you mean "context"?)`,
		`tasks.jsonl:3:103: task 'b' (short_answer).eval.accepted_answers[1] must be a non-empty string or a number`,
		`tasks.jsonl:3:121: task 'b' (short_answer).eval.tolerance must be a number >= 0`,
	}, "\n")
	if diff := cmp.Diff(want, errs); diff != "" {
		t.Error(diff)
	}
}

// A default that is wrong is one error with its place in the manifest, however
// many rows use it.
func TestManifestDefaultIsReportedOnce(t *testing.T) {
	m := manifest + "defaults:\n  family: x\n  environment: {timeout_seconds: true}\n"
	_, errs, _ := load(t, write(t, m, []string{`{"id":"a"}`, `{"id":"b"}`}))
	want := "manifest.yaml:5:34: environment.timeout_seconds must be a positive number, not a boolean"
	if diff := cmp.Diff(want, errs); diff != "" {
		t.Error(diff)
	}
}

func TestLanesAndOrder(t *testing.T) {
	row := `{"id":"a","family":"browser_task","eval":{"other":1,"credentials":{"k": 2},"success_check":[]},` +
		`"assets":[{"path":"f.txt","mount":"g.txt","read_only":false}],"input":{"tools":[ ],"prompt":"p"},"metadata":{"answer":"m"}}`
	p, errs, _ := load(t, write(t, manifest, []string{row}, "assets/f.txt"))
	if errs != "" {
		t.Fatal(errs)
	}
	c := tasks(t, p)[0]
	want := []task.Resource{
		{Name: "tools", Lane: task.Public, Value: []byte(`[]`)},
		{Name: "prompt", Lane: task.Public, Value: []byte(`"p"`)},
		{Name: "assets", Lane: task.Public, Value: []byte(`[{"path":"f.txt","mount":"g.txt","read_only":false}]`)},
	}
	if diff := cmp.Diff(want, c.Agent().Payload()); diff != "" {
		t.Error(diff)
	}
	want = append(want, task.Resource{Name: "credentials", Lane: task.EvaluationInputs, Value: []byte(`{"k":2}`)})
	if diff := cmp.Diff(want, c.TestSandbox().Payload()); diff != "" {
		t.Error(diff)
	}
	want = append(want[:3:3],
		task.Resource{Name: "other", Lane: task.Hidden, Value: []byte(`1`)},
		task.Resource{Name: "success_check", Lane: task.Hidden, Value: []byte(`[]`)})
	if diff := cmp.Diff(want, c.Evaluator().Payload()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]task.Asset{{Path: "f.txt", Mount: "g.txt"}}, c.Agent().Assets()); diff != "" {
		t.Error(diff)
	}
	if string(c.Row()) != row {
		t.Errorf("the row is %s", c.Row())
	}
}

// The lane table of the format, complete.
func TestLaneTable(t *testing.T) {
	want := map[string]string{
		"multiple_choice": "answer=hidden match=hidden",
		"short_answer":    "accepted_answers=hidden match=hidden tolerance=hidden",
		"free_response":   "canaries=hidden reference_answer=hidden rubric=hidden",
		"code_completion": "canonical_solution=hidden reference_solution=hidden tests=evaluation_inputs",
		"repo_patch":      "candidate_policy=evaluation_inputs gold_patch=hidden tests=evaluation_inputs",
		"terminal_task": "capture=evaluation_inputs checker=evaluation_inputs expected_state=hidden needed_commands=evaluation_inputs " +
			"run_tests=evaluation_inputs solution=hidden start=evaluation_inputs test_files=evaluation_inputs",
		"tool_call":       "answer=hidden expected_calls=hidden expected_final_state=hidden initial_state=evaluation_inputs match=hidden simulator=evaluation_inputs",
		"browser_task":    "credentials=evaluation_inputs success_check=hidden",
		"desktop_task":    "success_check=hidden",
		"artifact_task":   "canaries=hidden checker=evaluation_inputs converter=evaluation_inputs reference_artifact=hidden rubric=hidden solution=hidden",
		"multimodal_qa":   "answer=hidden match=hidden rubric=hidden",
		"preference_pair": "decide=hidden orders=evaluation_inputs preference=hidden rubric=hidden",
	}
	got := map[string]string{}
	for name, f := range registry() {
		var lanes []string
		for key, lane := range f.Lanes {
			lanes = append(lanes, key+"="+lane.String())
		}
		got[name] = sortedWords(lanes)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The samples of the format load without an error, and each row compiles.
func TestSamples(t *testing.T) {
	dir := os.Getenv("SECUREBENCH_SAMPLES")
	if dir == "" {
		t.Skip("SECUREBENCH_SAMPLES does not name a folder of sample packs")
	}
	packs, err := filepath.Glob(filepath.Join(dir, "*", "manifest.yaml"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("no packs in %s: %v", dir, err)
	}
	for _, m := range packs {
		t.Run(filepath.Base(filepath.Dir(m)), func(t *testing.T) {
			loc, err := pack.Locate(filepath.Dir(m))
			if err != nil {
				t.Fatal(err)
			}
			p, errs, warnings := load(t, loc)
			if errs != "" {
				t.Fatal(errs)
			}
			if warnings != "" {
				t.Log(warnings)
			}
			if got := len(tasks(t, p)); got != p.Count || got == 0 {
				t.Errorf("%d tasks of %d rows", got, p.Count)
			}
		})
	}
}

func sortedWords(words []string) string {
	slices.Sort(words)
	return strings.Join(words, " ")
}
