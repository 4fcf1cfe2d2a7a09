package task_test

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/task"
)

// The canaries are in the lanes that the agent must not see.
const (
	hiddenCanary = "CANARY-hidden"
	inputCanary  = "CANARY-input"
)

func config() task.Config {
	return task.Config{
		ID: "pack/1", Family: "code_completion", Pack: task.Pack{ID: "pack", Version: 3}, Index: 4, Line: 7,
		Resources: []task.Resource{
			{Name: "prompt", Lane: task.Public, Value: jsontext.Value(`"write it"`)},
			{Name: "options", Lane: task.Public, Value: jsontext.Value(`[1, 2]`)},
			{Name: "tests", Lane: task.EvaluationInputs, Value: jsontext.Value(`{"code": "` + inputCanary + `"}`)},
			{Name: "answer", Value: jsontext.Value(`"` + hiddenCanary + `"`)}, // no lane
		},
		Assets:      []task.Asset{{Path: "a", Mount: "b"}},
		Environment: task.Environment{Image: "img", Timeout: time.Second},
		Extraction:  task.Extraction{Mode: task.FromFile, Kind: task.Code, Path: "candidate.py"},
		Instruction: "write candidate.py",
		Row:         []byte(`{"id": "pack/1", "eval": "` + hiddenCanary + `"}`),
	}
}

func newTask(t *testing.T) task.Task {
	t.Helper()
	tk, err := task.New(config())
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

func TestNewRefuses(t *testing.T) {
	tests := map[string]struct {
		change func(*task.Config)
		want   string
	}{
		"no id":      {func(c *task.Config) { c.ID = "" }, "needs an id"},
		"no family":  {func(c *task.Config) { c.Family = "" }, "a family"},
		"no pack id": {func(c *task.Config) { c.Pack.ID = "" }, "a pack id"},
		"twice, in one lane": {func(c *task.Config) {
			c.Resources = append(c.Resources, c.Resources[0])
		}, "duplicate compiled resource name: prompt"},
		"twice, in two lanes": {func(c *task.Config) {
			c.Resources = append(c.Resources, task.Resource{Name: "answer", Lane: task.Public})
		}, "duplicate compiled resource name: answer"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := config()
			tt.change(&c)
			if _, err := task.New(c); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New: %v, want %q", err, tt.want)
			}
		})
	}
}

// A value that nobody classified is hidden: Lane's zero value.
func TestLanes(t *testing.T) {
	var zero task.Lane
	for lane, want := range map[task.Lane]string{zero: "hidden", task.Hidden: "hidden",
		task.EvaluationInputs: "evaluation_inputs", task.Public: "public", 99: "hidden"} {
		if got := lane.String(); got != want {
			t.Errorf("lane %d is %q, want %q", lane, got, want)
		}
	}
}

func TestViews(t *testing.T) {
	tk := newTask(t)
	views := map[string]struct {
		payload []task.Resource
		get     func(string) (task.Resource, bool)
		want    []string
	}{
		"agent":        {tk.Agent().Payload(), tk.Agent().Get, []string{"prompt", "options"}},
		"test sandbox": {tk.TestSandbox().Payload(), tk.TestSandbox().Get, []string{"prompt", "options", "tests"}},
		"evaluator":    {tk.Evaluator().Payload(), tk.Evaluator().Get, []string{"prompt", "options", "answer"}},
		"result":       {tk.Result().Payload(), nil, []string{"prompt", "options", "tests", "answer"}},
	}
	for name, v := range views {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range v.payload {
				got = append(got, r.Name)
			}
			if diff := cmp.Diff(v.want, got); diff != "" {
				t.Errorf("payload (-want +got):\n%s", diff)
			}
			if v.get == nil {
				return
			}
			seen := map[string]bool{}
			for _, n := range v.want {
				seen[n] = true
			}
			for _, r := range config().Resources {
				if _, ok := v.get(r.Name); ok != seen[r.Name] {
					t.Errorf("Get(%q) finds it: %v", r.Name, ok)
				}
			}
		})
	}
}

// What a payload's receiver does to it stays with the receiver.
func TestPayloadIsACopy(t *testing.T) {
	tk := newTask(t)
	tk.Result().Payload()[3].Value = jsontext.Value(`"changed"`)
	tk.Agent().Payload()[0].Name = "changed"
	answer, _ := tk.Evaluator().Get("answer")
	if got, _ := answer.Text(); got != hiddenCanary {
		t.Errorf("the answer is %q", got)
	}
	if _, ok := tk.Agent().Get("prompt"); !ok {
		t.Error("the prompt is gone")
	}
}

func TestAgentView(t *testing.T) {
	c := config()
	v := newTask(t).Agent()
	if v.ID() != c.ID || v.Family() != c.Family || v.Instruction() != c.Instruction {
		t.Errorf("view of %q, %q, %q", v.ID(), v.Family(), v.Instruction())
	}
	if diff := cmp.Diff(c.Environment, v.Environment()); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(c.Extraction, v.Extraction()); diff != "" {
		t.Errorf("extraction (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(c.Assets, v.Assets()); diff != "" {
		t.Errorf("assets (-want +got):\n%s", diff)
	}
}

func TestResultRedacts(t *testing.T) {
	v := newTask(t).Result()
	for _, r := range v.Payload() {
		if text, _ := r.Text(); (text == task.Redacted) != (r.Lane != task.Public) {
			t.Errorf("%s in lane %v is %s", r.Name, r.Lane, r.Value)
		}
	}
	got, err := json.Marshal(v.Summary(), json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"kind":"text","name":"prompt","value":"write it","visibility":"public"},` +
		`{"kind":"json","name":"options","value":[1,2],"visibility":"public"},` +
		`{"kind":"json","name":"tests","redacted":true,"visibility":"evaluation_inputs"},` +
		`{"kind":"text","name":"answer","redacted":true,"visibility":"hidden"}]`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

// A whole task must not get into a log, a message or a file by accident.
func TestTaskDoesNotPrintItsLanes(t *testing.T) {
	tk := newTask(t)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "task", tk)
	if strings.Contains(log.String(), "CANARY") || !strings.Contains(log.String(), `"task":{"id":"pack/1","family":"code_completion"}`) {
		t.Errorf("a task is logged as %s", log.String())
	}
	// Compared whole: a lane's bytes would print as numbers.
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, x := range []any{tk, &tk} {
			if got := fmt.Sprintf(verb, x); got != "task pack/1" {
				t.Errorf("%s prints a task as %s", verb, got)
			}
		}
	}
	if b, err := stdjson.Marshal(tk); err == nil {
		t.Errorf("encoding/json marshals a task: %s", b)
	}
	if b, err := json.Marshal(map[string]any{"task": tk}); err == nil {
		t.Errorf("json marshals a task: %s", b)
	}
}

func TestResource(t *testing.T) {
	tests := []struct {
		value, kind, text string
		isText            bool
	}{
		{`"a\u00e9\n"`, "text", "aé\n", true},
		{`""`, "text", "", true},
		{`null`, "json", "", false},
		{`12`, "json", "", false},
		{`["a"]`, "json", "", false},
		{`{"a": "b"}`, "json", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.value, func(t *testing.T) {
			r := task.Resource{Value: jsontext.Value(tt.value)}
			text, ok := r.Text()
			if r.Kind() != tt.kind || text != tt.text || ok != tt.isText {
				t.Errorf("kind %q, text %q, %v; want %q, %q, %v", r.Kind(), text, ok, tt.kind, tt.text, tt.isText)
			}
		})
	}
}
