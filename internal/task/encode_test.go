package task_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"securebench/internal/task"
)

// drawTask makes a task with resources in every lane.
func drawTask(rt *rapid.T) task.Task {
	text := rapid.StringMatching(`[a-zA-Z0-9 é<>&"\\/\n]{0,12}`)
	c := task.Config{ID: "id" + text.Draw(rt, "id"), Family: "family", Pack: task.Pack{ID: "pack"},
		Environment: task.Environment{Image: text.Draw(rt, "image"), Workdir: text.Draw(rt, "workdir"), User: text.Draw(rt, "user"),
			Timeout: time.Duration(rapid.Int64Min(0).Draw(rt, "timeout")), MaterializeWorkdir: rapid.Bool().Draw(rt, "materialize"), OldLayout: rapid.Bool().Draw(rt, "old layout"),
			Capabilities: rapid.SampledFrom([][]string{nil, {"CHOWN"}, {"KILL", "SETUID"}}).Draw(rt, "capabilities")},
		Extraction: task.Extraction{Mode: task.FromFile, Kind: task.Code, Path: text.Draw(rt, "path"),
			OrStdout: rapid.Bool().Draw(rt, "or")},
		Instruction: text.Draw(rt, "instruction"),
	}
	values := rapid.SampledFrom([]string{`"x"`, `{"b": 1,  "a":[1e3, 1.0]}`, `"\u00e9\/"`, ` null`, `[]`, "9007199254740993"})
	for i := range rapid.IntRange(0, 6).Draw(rt, "resources") {
		c.Resources = append(c.Resources, task.Resource{Name: string(rune('a' + i)),
			Lane: rapid.SampledFrom([]task.Lane{task.Hidden, task.EvaluationInputs, task.Public}).Draw(rt, "lane"), Value: jsontext.Value(values.Draw(rt, "value"))})
	}
	for range rapid.IntRange(0, 2).Draw(rt, "assets") {
		c.Assets = append(c.Assets, task.Asset{Path: text.Draw(rt, "source"), Mount: text.Draw(rt, "mount"), ReadOnly: rapid.Bool().Draw(rt, "readonly")})
	}
	t, err := task.New(c)
	if err != nil {
		rt.Fatal(err)
	}
	return t
}

// roundTrip wants that a view comes back as it was, in every byte.
func roundTrip[T any](rt *rapid.T, v T) {
	rt.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		rt.Fatal(err)
	}
	var back T
	if err := json.Unmarshal(data, &back); err != nil {
		rt.Fatalf("%s: %v", data, err)
	}
	if !reflect.DeepEqual(v, back) {
		rt.Fatalf("%#v became %#v through %s", v, back, data)
	}
}

// TestViewsSurviveEncoding: the process that works on a view sees what the
// parent saw.
func TestViewsSurviveEncoding(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tk := drawTask(rt)
		roundTrip(rt, tk.Agent())
		roundTrip(rt, tk.Agent().Presented(map[string]jsontext.Value{"a": jsontext.Value(`"other"`)}, "mark").Within(time.Second))
		roundTrip(rt, tk.TestSandbox())
		roundTrip(rt, tk.Evaluator())
	})
}

// TestViewsRefuseOtherLanes: no view can be made to hold a lane that its owner
// may not see, and nothing is decoded that is not understood.
func TestViewsRefuseOtherLanes(t *testing.T) {
	tk := newTask(t)
	encoded := func(v any) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	agent, box, evaluator := encoded(tk.Agent()), encoded(tk.TestSandbox()), encoded(tk.Evaluator())
	if bytes.Contains(agent, []byte("CANARY")) || bytes.Contains(box, []byte(hiddenCanary)) || bytes.Contains(evaluator, []byte(inputCanary)) {
		t.Error("an encoded view holds a lane that is not its own")
	}
	change := func(data []byte, from, to string) []byte {
		if !bytes.Contains(data, []byte(from)) {
			t.Fatalf("%s has no %s", data, from)
		}
		return bytes.Replace(data, []byte(from), []byte(to), 1)
	}
	for name, tt := range map[string]struct {
		data []byte
		into any
		want string
	}{
		"hidden, for the agent":           {change(agent, `"lane":"public"`, `"lane":"hidden"`), new(task.AgentView), "may not contain"},
		"evaluation, for the agent":       {change(agent, `"lane":"public"`, `"lane":"evaluation_inputs"`), new(task.AgentView), "may not contain"},
		"unknown lane":                    {change(agent, `"lane":"public"`, `"lane":"open"`), new(task.AgentView), "may not contain"},
		"hidden, for the test sandbox":    {change(box, `"lane":"public"`, `"lane":"hidden"`), new(task.SandboxView), "may not contain"},
		"evaluation, for the evaluator":   {change(evaluator, `"lane":"public"`, `"lane":"evaluation_inputs"`), new(task.EvaluatorView), "may not contain"},
		"the same name twice":             {change(agent, `"name":"options"`, `"name":"prompt"`), new(task.AgentView), "twice"},
		"unknown field":                   {change(agent, `{"id"`, `{"row":"x","id"`), new(task.AgentView), "unknown"},
		"a value that is no JSON":         {change(agent, `[1, 2]`, `[1, 2`), new(task.AgentView), "not valid JSON"},
		"an agent's view, as another":     {agent, new(task.SandboxView), "fields that it may not have"},
		"a sandbox's view, as another":    {box, new(task.EvaluatorView), "fields that it may not have"},
		"a sandbox's view, as an agent's": {change(box, inputCanary, "x"), new(task.AgentView), "fields that it may not have"},
		"no id":                           {change(agent, `"id":"pack/1"`, `"id":""`), new(task.AgentView), "needs an id"},
	} {
		if err := json.Unmarshal(tt.data, tt.into); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
}
