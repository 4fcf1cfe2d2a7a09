package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/agent"
	"securebench/internal/agent/answers"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

const patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b \r\n"

// replayFile writes a replay file and opens it.
func replayFile(t *testing.T, content string) (*agent.Replay, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "preds.json")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := agent.OpenReplay(file, answers.Map{}, agent.Bounds{})
	if err != nil {
		err = errorText(strings.ReplaceAll(err.Error(), file, "F"))
	}
	return r, err
}

type errorText string

func (e errorText) Error() string { return string(e) }

// TestPredictions: predictions are taken byte for byte in each form that tools
// write; an empty one is no candidate.
func TestPredictions(t *testing.T) {
	const quoted = `"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b \r\n"`
	for name, tt := range map[string]struct{ content, want, none string }{
		"a line":            {content: `{"instance_id":"q","model_patch":` + quoted + `,"model_name_or_path":"m","cost":1.5}`, want: patch},
		"a later line":      {content: "\n" + `{"instance_id":"p","model_patch":"x"}` + "\n" + `{"instance_id":"q","model_patch":` + quoted + "}\n", want: patch},
		"a list":            {content: `[{"instance_id":"p","model_patch":"x"},{"instance_id":"q","model_patch":` + quoted + `}]`, want: patch},
		"a list of lines":   {content: "[\n  {\n \"instance_id\": \"q\",\n \"model_patch\": " + quoted + "\n}\n]\n", want: patch},
		"by task":           {content: `{"p":{"model_patch":"x"},"q":{"model_patch":` + quoted + `,"instance_id":"q"}}`, want: patch},
		"by task, in lines": {content: "{\n  \"q\": {\n    \"model_patch\": " + quoted + "\n  }\n}\n", want: patch},
		"a line in lines":   {content: `{"task_id":"q","patch":` + quoted + `}`, want: patch},
		"an empty patch":    {content: `{"instance_id":"q","model_patch":""}`, none: "model_patch is empty"},
		"a blank patch":     {content: `{"q":{"model_patch":" \n"}}`, none: "model_patch is empty"},
		"null":              {content: `[{"instance_id":"q","model_patch":null}]`, none: "model_patch is empty"},
		"another task":      {content: `{"instance_id":"p","model_patch":"x"}`, none: "no line for this attempt"},
		"an empty list":     {content: `[]`, none: "no line for this attempt"},
		"an empty file":     {content: "", none: "no line for this attempt"},
		"tasks of any name": {content: `{"task_id2":{"model_patch":"x"},"q":{"model_patch":` + quoted + `}}`, want: patch},
		"a patch of spaces": {content: `{"task_id":"q","patch":" "}`, want: " "},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := replayFile(t, tt.content)
			if err != nil {
				t.Fatal(err)
			}
			res, err := captured(t, r, task.Patch)
			if err != nil {
				t.Fatal(err)
			}
			if tt.none != "" {
				if res.Rejection == nil || res.Rejection.Reason != verdict.CandidateMissing || !strings.Contains(res.Rejection.Message, tt.none) {
					t.Errorf("got %+v, want %q", res, tt.none)
				}
				return
			}
			if res.Candidate == nil {
				t.Fatalf("got %+v", res)
			}
			if got, err := res.Candidate.Bytes(); err != nil || string(got) != tt.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	r, err := replayFile(t, `{"instance_id":"q","model_patch":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := captured(t, r, task.Text); err != nil || res.Rejection == nil || !strings.Contains(res.Rejection.Message, "holds a patch, the family takes a text") {
		t.Errorf("for a family of texts: %+v, %v", res, err)
	}
}

// TestReplayProblems: each names its place.
func TestReplayProblems(t *testing.T) {
	const line, prediction = `{"task_id":"a","text":"x"}`, `{"instance_id":"a","model_patch":"x"}`
	for name, tt := range map[string]struct{ content, want string }{
		"mixed":                   {line + "\n\n" + prediction, "F:3:1: the file has both replay lines (task_id) and predictions (instance_id)"},
		"mixed, the other way":    {prediction + "\n" + line, "F:2:1: the file has both"},
		"both keys":               {`{"task_id":"a","instance_id":"b","model_patch":"x"}`, "F:1:1: write task_id for a replay line or instance_id"},
		"the same twice":          {prediction + "\n" + prediction, `F:2:1: task "a" has this attempt twice`},
		"the same twice, listed":  {"[" + prediction + ",\n " + prediction + "]", `F:2:2: task "a" has this attempt twice`},
		"the same twice, by task": {`{"a":{"model_patch":"x"},` + "\n" + `"a":{"model_patch":"y"}}`, `F:2:1: invalid JSON: duplicate key "a"`},
		"no patch":                {`{"instance_id":"a"}`, "F:1:1: model_patch must be a string or null"},
		"a number":                {`{"instance_id":"a","model_patch":5}`, "F:1:1: model_patch must be"},
		"an id that is a number":  {`{"instance_id":5,"model_patch":""}`, "F:1:16: instance_id must be a non-empty string"},
		"an empty id by task":     {`{"":{"model_patch":"x"}}`, "F:1:2: instance_id must be a non-empty string"},
		"another id":              {`{"a":{"model_patch":"x","instance_id":"b"}}`, `F:1:39: the prediction for "a" has another instance_id`},
		"words in a list":         {`["a"]`, "F:1:2: a list in a replay file holds objects"},
		"something else":          {"5", "F:1:1: a replay line must be an object"},
		"neither":                 {"{}", "F:1:1: task_id must be a non-empty string"},
		"cut off":                 {"[" + prediction, "F:2:1: invalid JSON"},
		"two documents":           {"[]\n[]", "F:2:1: data follows the JSON value"},
		"lines after a document":  {`{"a":{"model_patch":"x"}}` + "\n" + prediction, "F:2:1: data follows"},
	} {
		if _, err := replayFile(t, tt.content); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// FuzzReplay: no file makes the reader fail without naming it, and what it
// accepts is the same on a second reading.
func FuzzReplay(f *testing.F) {
	f.Add(`{"task_id":"a","text":"x"}`)
	f.Add("[\n{\"instance_id\":\"a\",\"model_patch\":\"x\"}]")
	f.Add(`{"a":{"model_patch":null}}`)
	f.Fuzz(func(t *testing.T, content string) {
		one, err := replayFile(t, content)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "F:") {
				t.Errorf("the error names no place: %v", err)
			}
			return
		}
		if two, err := replayFile(t, content); err != nil || two.Digest() != one.Digest() {
			t.Errorf("read again: %v", err)
		}
	})
}
