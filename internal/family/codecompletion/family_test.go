package codecompletion

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/task"
)

func TestReferenceAndStarter(t *testing.T) {
	tests := []struct{ reference, canonical, starter, wantReference, wantStarter string }{
		{"r", "c", "s", "r", "s"},
		{"", "c", "", "c", ""},
		{" \n", "    return 1\n", "\n", "    return 1\n", ""},
		{"", "", "s\n", "", "s\n"},
	}
	for _, tt := range tests {
		text := func(name, s string, lane task.Lane) task.Resource {
			quoted, err := jsontext.AppendQuote(nil, s)
			if err != nil {
				t.Fatal(err)
			}
			return task.Resource{Name: name, Lane: lane, Value: quoted}
		}
		c, err := task.New(task.Config{ID: "a", Family: "code_completion", Pack: task.Pack{ID: "p"}, Resources: []task.Resource{
			text("starter_code", tt.starter, task.Public),
			text("reference_solution", tt.reference, task.Hidden), text("canonical_solution", tt.canonical, task.Hidden),
		}})
		if err != nil {
			t.Fatal(err)
		}
		sol, ok := Family().Reference(c.Evaluator())
		got := sol.Candidate
		if content(t, got) != tt.wantReference || ok != (tt.wantReference != "") || ok && got.Kind != task.Code {
			t.Errorf("%+v: reference %s %q, %t", tt, got.Kind, content(t, got), ok)
		}
		got, ok = Family().Starter(c.Agent())
		if content(t, got) != tt.wantStarter || ok != (tt.wantStarter != "") || ok && got.Kind != task.Code {
			t.Errorf("%+v: starter %s %q, %t", tt, got.Kind, content(t, got), ok)
		}
	}
}

// A row that no test box could be given is refused with the pack.
func TestSizeOfRows(t *testing.T) {
	for _, tt := range []struct {
		prompt, tests, reference int
		ok                       bool
	}{
		{1 << 20, 1 << 20, 1 << 20, true}, {0, 7 << 20, 0, true}, {1, 7 << 20, 0, false}, {7 << 20, 1, 0, false}, {0, 4 << 20, 4 << 20, false},
	} {
		text := func(n int) jsontext.Value { return jsontext.Value(`"` + strings.Repeat("x", n) + `"`) }
		got := check(family.Row{Input: map[string]jsontext.Value{"prompt": text(tt.prompt)},
			Eval: map[string]jsontext.Value{"reference_solution": text(tt.reference),
				"tests": jsontext.Value(`{"source":"inline","code":` + string(text(tt.tests)) + `}`)}})
		if (len(got) == 0) != tt.ok {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}
