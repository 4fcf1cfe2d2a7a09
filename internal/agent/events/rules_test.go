package events_test

import (
	"strings"
	"testing"

	"securebench/internal/agent/events"
)

// TestRules: rules read messages, whole and in parts, calls, results and errors; what no
// rule is about is left out, and what is no event is shown.
func TestRules(t *testing.T) {
	t.Parallel()
	format := &events.Format{Name: "a", Rules: []events.Rule{
		{Where: map[string]string{"type": "text"}, Message: "part.0.text"},
		{Where: map[string]string{"type": "delta"}, Message: "text", Part: true},
		{Where: map[string]string{"type": "call", "command": ""}, Call: []string{"name"}},
		{Where: map[string]string{"type": "call"}, Call: []string{"name", "command"}},
		{Where: map[string]string{".type": "turn", "kind": "text"}, Each: "blocks", Message: "text"},
		{Where: map[string]string{".type": "turn", "kind": "tool"}, Each: "blocks", Call: []string{"text", ".n"}},
		{Where: map[string]string{"type": "done"}, Done: []string{"code"}},
		{Where: map[string]string{"type": "error"}, Error: "why"},
		{Where: map[string]string{"type": "end"}, Result: "text"},
	}}
	if err := format.Check(); err != nil {
		t.Fatal(err)
	}
	const output = `{"type":"text","part":[{"text":"one"}]}
{"type":"delta","text":"t"}
{"type":"delta","text":"wo"}
{"type":"call","name":"sh","command":{"x":[1]}}
{"type":"call","name":"ls","command":null}
{"type":"turn","n":7,"blocks":[{"kind":"text","text":"three"},{"kind":"tool","text":"go"},{"kind":"other"}]}
{"type":"unknown"}
not JSON
["a list"]
{"type":"done","code":0}
{"type":"error","why":"no\nmore"}
{"type":"end","text":"four"}
{"type":"end"}
`
	const want = `a: one
a: two
a run: sh {"x":[1]}
a run: ls
a: three
a run: go 7
a: not JSON
a: ["a list"]
[trace] a done: 0
a error: no
a error: more
`
	for _, size := range []int{1, 7, len(output)} {
		shown, sum := lines(format, []byte(output), size)
		if shown != want || sum.Message != "four" || sum.Steps != 6 {
			t.Errorf("%+v\n%s", sum, shown)
		}
	}
}

// TestRulesKeepLittle: a message in parts is bounded.
func TestRulesKeepLittle(t *testing.T) {
	t.Parallel()
	format := &events.Format{Name: "a", Rules: []events.Rule{{Where: map[string]string{"t": "d"}, Message: "x", Part: true}}}
	line := `{"t":"d","x":"` + strings.Repeat("y", 1<<20) + `"}` + "\n"
	sum := events.Read(format, []byte(strings.Repeat(line, 9)))
	if sum.Steps != 1 || len(sum.Message) > events.MaxLine {
		t.Errorf("%d steps, %d bytes", sum.Steps, len(sum.Message))
	}
}
