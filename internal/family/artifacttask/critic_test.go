package artifacttask

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/task"
)

// TestWeaknesses: what validation says of rubrics that pass wrong files, and nothing of
// those that do not.
func TestWeaknesses(t *testing.T) {
	t.Parallel()
	const table = "name,total\na,100\nb,250\nc,75\n"
	for name, tt := range map[string]struct {
		kind, reference, rubric, before string
		want                            []string
	}{
		"sound":     {"csv", table, `{"type":"table","columns":{"total":{"tolerance":0.01}}}`, "name,total\na,\nb,\nc,\n", nil},
		"unchanged": {"csv", table, `{"type":"table"}`, "name,total\na,100.0\nb,250\nc,75\n", []string{"the rubric passes where the file is as the agent finds it: compare what the brief has changed"}},
		"too wide": {"csv", table, `{"type":"table","columns":{"total":{"tolerance":50}}}`, "",
			[]string{"the rubric passes where a value is wrong by a tenth, or a text by a word (3 of 6 that were tried): narrow the tolerance"}},
		"official": {"csv", table, `{"type":"table","match":"dacode"}`, "",
			[]string{"the rubric passes where a table has every guess as a column of its own: compare columns by name, without match"}},
		"left out":        {"csv", table, `{"type":"table","columns":{"total":{"ignore":true}}}`, "", nil},
		"a column less":   {"csv", table, `{"type":"table","columns":{"price":{}}}`, "", []string{`the rubric does not fit its reference: columns names "price", which the reference lacks`}},
		"data":            {"json", `{"a": 1, "b": ["x", "y"]}`, `{"type":"json"}`, `{"a": 0}`, nil},
		"data, left out":  {"json", `{"a": 1, "b": ["x", "y"]}`, `{"type":"json","ignore":["/b"]}`, `{"a": 1}`, []string{"the rubric passes where the file is as the agent finds it: compare what the brief has changed"}},
		"text":            {"text", "Yes, it is.\n", `{"type":"text","contains":["yes"],"ignore_case":true}`, "no\n", nil},
		"an unread start": {"json", `[1]`, `{"type":"json"}`, `{`, nil},
	} {
		dir := t.TempDir()
		for _, f := range [][2]string{{"eval/want", tt.reference}, {"public/start/out.file", tt.before}} {
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(f[0])), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, f[0]), []byte(f[1]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		files, err := family.OpenFiles(filepath.Join(dir, "public"), filepath.Join(dir, "eval"), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = files.Close() })
		v, ok := newVerifier(family.Resources{Engine: engine(), RunID: "test", Files: files}).(family.Critic)
		if !ok {
			t.Fatal("the verifier tries nothing")
		}
		config := task.Config{ID: "task", Family: "artifact_task", Pack: task.Pack{ID: "pack", Version: 1}, Resources: []task.Resource{
			{Name: keyOutput, Lane: task.Public, Value: familytest.JSON(t, object{"type": tt.kind, "path": "work/out.file"})},
			{Name: keyReference, Value: familytest.JSON(t, object{"path": "want"})},
			{Name: keyRubric, Value: jsontext.Value(tt.rubric)}}}
		if tt.before != "" {
			config.Assets = []task.Asset{{Path: "start", Mount: "work"}}
		}
		row, err := task.New(config)
		if err != nil {
			t.Fatal(err)
		}
		c := family.Case{Attempt: 1, Sandbox: row.TestSandbox(), Evaluator: row.Evaluator()}
		got, err := v.Weaknesses(t.Context(), c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
