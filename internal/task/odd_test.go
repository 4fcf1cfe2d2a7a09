package task_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/pipeline/attempt"
	"securebench/internal/source"
	"securebench/internal/task"
)

// TestOddValuesSurvive: what a task can hold, its views hold on the other side
// of an encoding, byte for byte.
func TestOddValuesSurvive(t *testing.T) {
	held := 0
	for _, value := range []string{
		`1e999`, `-0`, `0.10`, `123456789012345678901234567890`, `"\ud83d\ude00"`, `"\u0000"`, "\"\u2028\u202e\"", `"\/<>&"`, ` [ 1 , 2 ] `, `null`,
		`"\ud800"`, `{"a":1,"a":2}`, "\"\xff\"", `{`, ``, `1 2`, "\"\n\"", strings.Repeat("[", 20000) + strings.Repeat("]", 20000),
	} {
		if _, err := source.ParseJSON("tasks.jsonl", 1, []byte(value)); err != nil {
			continue // no row holds it
		}
		held++
		tk, err := task.New(task.Config{ID: "t", Family: "f", Pack: task.Pack{ID: "p"}, Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text},
			Resources: []task.Resource{{Name: "p", Lane: task.Public, Value: []byte(value)}}})
		if err != nil {
			t.Fatal(err)
		}
		b, err := attempt.Encode(tk.Agent())
		if err != nil {
			t.Errorf("%.40q: %v", value, err)
			continue
		}
		var back task.AgentView
		if err := attempt.Decode(b, &back); err != nil {
			t.Errorf("%.40q: %v", value, err)
			continue
		}
		if d := cmp.Diff(string(tk.Agent().Payload()[0].Value), string(back.Payload()[0].Value)); d != "" {
			t.Errorf("%.40q: %s", value, d)
		}
	}
	if held < 9 || held > 12 {
		t.Errorf("%d of the values are possible in a row", held)
	}
}
