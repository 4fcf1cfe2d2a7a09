package toolcall

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/family/toolcall/calls"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// keyFor reads a row that can be met.
func keyFor(tb testing.TB, tools, expected, match string) *key {
	tb.Helper()
	k, err := newKey(jsontext.Value(tools), jsontext.Value(expected), jsontext.Value(match))
	if err == nil {
		err = k.possible()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func passes(k *key, candidate string) bool {
	return k.score(candidate, false).Outcome == verdict.Passed
}

const trip = `[{"name":"trip.book","parameters":{"type":"object","properties":{
	"people":{"type":"integer","minimum":1},"price":{"type":"number"},"to":{"type":"string"},"stops":{"type":"array","items":{"type":"string"}},
	"seats":{"type":"object"},"return":{"type":"boolean","default":false}},"required":["people"]}},
	{"name":"trip_cancel","parameters":{}}]`

func TestRuleJSON(t *testing.T) {
	k := keyFor(t, trip, `[{"name":"trip.book","accepted":{"people":[5],"price":[10,12.5],"to":["Rome"],"stops":[["Pisa","Nice"]],
		"seats":[{"a":1,"b":[true]}],"return":[false]},"optional":["stops","seats","return","people"]}]`, "")
	call := func(args string) string { return `[{"name":"trip.book","arguments":{` + args + `}}]` }
	for args, want := range map[string]bool{
		`"people":5,"price":10,"to":"Rome"`:                                                 true,
		`"to":"Rome","price":12.50,"people":5.0`:                                            true,
		`"people":5,"price":1e1,"to":"Rome","return":false`:                                 true,
		`"people":5e0,"price":100E-1,"to":"\u0052ome"`:                                      true,
		`"people":5,"price":10,"to":"Rome","stops":["Pisa","Nice"]`:                         true,
		`"people":5,"price":10,"to":"Rome","seats":{"b":[true],"a":1.0}`:                    true,
		`"people":5,"price":10,"to":"rome"`:                                                 false,
		`"people":5,"price":10,"to":"Rome "`:                                                false,
		`"people":5,"price":10,"to":"Ro\u200bme"`:                                           false,
		`"people":"5","price":10,"to":"Rome"`:                                               false,
		`"people":-5,"price":10,"to":"Rome"`:                                                false,
		`"people":5,"price":true,"to":"Rome"`:                                               false,
		`"people":5,"price":10.0000000000000001,"to":"Rome"`:                                false,
		`"people":5,"price":1e400,"to":"Rome"`:                                              false,
		`"people":5,"price":1e999999999999,"to":"Rome"`:                                     false,
		`"price":10,"to":"Rome"`:                                                            false, // the tool requires it
		`"people":5,"to":"Rome"`:                                                            false,
		`"people":5,"price":10,"to":"Rome","stops":["Nice","Pisa"]`:                         false,
		`"people":5,"price":10,"to":"Rome","stops":[]`:                                      false,
		`"people":5,"price":10,"to":"Rome","seats":{"a":1}`:                                 false,
		`"people":5,"price":10,"to":"Rome","seats":{"a":1,"b":[true],"c":null}`:             false,
		`"people":5,"price":10,"to":"Rome","return":true`:                                   false,
		`"people":5,"price":10,"to":"Rome","return":null`:                                   false,
		`"people":5,"price":10,"to":"Rome","extra":1`:                                       false,
		`"people":5,"price":10,"to":"Rome","stops":` + strings.Repeat("[", 10_000) + `1`:    false,
		`"people":5,"price":10,"to":"Rome","stops":["Pisa","Nice"],"stops":["Pisa","Nice"]`: false,
	} {
		if passes(k, call(args)) != want {
			t.Errorf("%.100s: want %t", args, want)
		}
	}
	for name, want := range map[string]bool{"trip.book": true, "trip_book": true, "trip-book": false, "trip․book": false, "Trip.book": false, "trip": false, "trip_cancel": false} {
		if passes(k, `{"`+name+`":{"people":5,"price":10,"to":"Rome"}}`) != want {
			t.Errorf("the name %s: want %t", name, want)
		}
	}
}

// TestSchemaHolds: an accepted value that the schema refuses cannot be expected, and one
// of several that it refuses does not pass.
func TestSchemaHolds(t *testing.T) {
	tools := `[{"name":"f","parameters":{"type":"dict","properties":{"n":{"type":"integer","minimum":1},"x":{"type":"tuple","items":{"type":"float"}},"y":{"type":"any"}},"required":["n"]}}]`
	k := keyFor(t, tools, `[{"name":"f","accepted":{"n":[1,0],"x":[[1.5]],"y":["s"]},"optional":["x","y"]}]`, "")
	for text, want := range map[string]bool{`f(n=1)`: true, `f(n=1, x=(1.5,), y="s")`: true, `f(n=0)`: false} {
		if passes(k, text) != want {
			t.Errorf("%s: want %t", text, want)
		}
	}
}

// TestRuleBFCL: the official scorer's types, one level deep, and its form of texts.
func TestRuleBFCL(t *testing.T) {
	tools := `[{"name":"m.f","parameters":{"type":"dict","properties":{"i":{"type":"integer"},"x":{"type":"float"},"s":{"type":"string"},"b":{"type":"boolean"},
		"l":{"type":"array","items":{"type":"float"}},"w":{"type":"array","items":{"type":"string"}},"t":{"type":"tuple","items":{"type":"integer"}},
		"d":{"type":"dict"},"o":{"type":"array","items":{"type":"dict"}},"v":{"type":"any"}},"required":[]}}]`
	k := keyFor(t, tools, `[{"name":"m.f","accepted":{"i":[5],"x":[1.5,2],"s":["April 1, 2024",""],"b":[true],"l":[[1.0,3.0]],"w":[["A b","c"]],"t":[[1,2]],
		"d":[{"k":["X",""],"n":[1]}],"o":[[{"k":["x"]}],""],"v":["data"]},"optional":["i","x","b","l","w","t","d","v"]}]`, `{"rule":"bfcl"}`)
	for args, want := range map[string]bool{
		``:    true,
		`i=5`: true, `i=5.0`: false, `i=True`: false, `i="5"`: false, `i=10/2`: false, `i=2+3`: true,
		`x=1.5`: true, `x=2`: true, `x=2.0`: true, `x="2"`: false,
		`s='april 1 2024'`: true, `s="April-1-2024"`: true, `s=""`: true, `s="April 2, 2024"`: false, `s=1`: false,
		`b=True`: true, `b=1`: false, `b=true`: false, `b=False`: false,
		`l=[1.0,3.0]`: true, `l=[1,3]`: true, `l=[3.0,1.0]`: false, `l=(1.0,3.0)`: false, `l=[]`: true,
		`w=["ab","C"]`: true, `w=["c","ab"]`: false, `w="ab"`: false,
		`t=(1,2)`: true, `t=[1,2]`: true, `t=(2,1)`: false,
		`d={'k':'x','n':1}`: true, `d={'n':1.0}`: true, `d={'k':'x'}`: false, `d={'n':1,'z':1}`: false, `d=[]`: false,
		`o=[{'k':'X'}]`: true, `o=[{'k':'y'}]`: false, `o=[{'k':'X'},{'k':'X'}]`: false, `o=[1]`: false,
		`v=data`: true, `v=1`: false, `i=5, y=1`: false, `i=5, i=5`: false,
	} {
		if passes(k, "[m.f("+args+")]") != want {
			t.Errorf("%s: want %t", args, want)
		}
	}
	// A list without "" among the accepted values is held to the types of its items.
	k = keyFor(t, tools, `[{"name":"m.f","accepted":{"l":[[1.0,3.0]]}}]`, `{"rule":"bfcl"}`)
	for text, want := range map[string]bool{`m.f(l=[1.0,3.0])`: true, `m.f(l=[1,3])`: false, `{"m_f":{"l":[1.0,3.0]}}`: true, `m_f(l=[1.0,3.0])`: false} {
		if passes(k, text) != want {
			t.Errorf("%s: want %t", text, want)
		}
	}
}

// TestMatching: any order, in which the greedy way would fail, and the options of match.
func TestMatching(t *testing.T) {
	const tools = `[{"name":"f","parameters":{"properties":{"a":{"type":"integer"}}}}]`
	const both = `[{"name":"f","accepted":{"a":[1,2]}},{"name":"f","accepted":{"a":[1]}}]`
	tests := []struct {
		match, text string
		want        bool
	}{
		{``, `f(a=1), f(a=2)`, true},
		{``, `f(a=2), f(a=1)`, true},
		{``, `f(a=2), f(a=2)`, false},
		{``, `f(a=1), f(a=1)`, true},
		{``, `f(a=1)`, false},
		{``, `f(a=1), f(a=2), f(a=1)`, false},
		{`{"order":"strict"}`, `f(a=2), f(a=1)`, true},
		{`{"order":"strict"}`, `f(a=1), f(a=2)`, false},
		{`{"extra":"allow"}`, `f(a=3), f(a=1), f(a=2)`, true},
		{`{"extra":"allow"}`, `f(a=3), f(a=2)`, false},
		{`{"extra":"allow","order":"strict"}`, `f(a=1), f(a=3), f(a=1)`, true},
		{`{"extra":"allow","order":"strict"}`, `f(a=1), f(a=3), f(a=2)`, false},
	}
	for _, tt := range tests {
		if got := passes(keyFor(t, tools, both, tt.match), tt.text); got != tt.want {
			t.Errorf("%s %s: %t", tt.match, tt.text, got)
		}
	}
}

// TestLongInteger: an integer of a million digits is not worked out, which takes time that
// grows with its square.
func TestLongInteger(t *testing.T) { //nolint:paralleltest // allocations are counted
	long := calls.Value{Kind: calls.Int, Text: strings.Repeat("9", 1<<20)}
	if n := testing.AllocsPerRun(1, func() { numeric(long) }); n > 0 {
		t.Errorf("a long integer takes %v allocations", n)
	}
	k := keyFor(t, `[{"name":"f","parameters":{"properties":{"a":{"type":"integer"}}}}]`, `[{"name":"f","accepted":{"a":[7]}}]`, `{"rule":"bfcl"}`)
	if passes(k, `{"f":{"a":`+long.Text[:1<<19]+`}}`) || !passes(k, `{"f":{"a":7}}`) {
		t.Error("a long integer passes for 7, or 7 does not")
	}
}

// TestNamesOnce: the tool that a call names is looked for once, and not for each
// expectation.
func TestNamesOnce(t *testing.T) { //nolint:paralleltest // allocations are counted
	const n = 200
	long := strings.Repeat("b", 64) // whose names take an allocation each
	one := `{"name":"a.` + long + `","arguments":{}}`
	k := keyFor(t, `[{"name":"a.`+long+`","parameters":{}}]`, "["+strings.Repeat(one+",", n-1)+one+"]", "")
	other := slices.Repeat([]calls.Call{{Name: "a_c"}}, n)
	if got := testing.AllocsPerRun(1, func() { k.meets(other) }); got > 10*n {
		t.Errorf("%d calls and as many expectations take %v allocations", n, got)
	}
	if !k.meets(slices.Repeat([]calls.Call{{Name: "a_" + long, Arguments: calls.Value{Kind: calls.Dict}}}, n)) {
		t.Error("calls by the name that providers take do not fit")
	}
}

// TestDecline: where no call may be stated, a sentence passes, and silence does not.
func TestDecline(t *testing.T) {
	const tools = `[{"name":"f","parameters":{}}]`
	for text, want := range map[string][2]bool{ // by json and bfcl
		"None of the tools can do this.": {true, true},
		"[]":                             {true, true},
		"":                               {false, false},
		" \n":                            {false, false},
		"<think>f()</think>":             {false, false},
		"f()":                            {false, false},
		`{"f": {}}`:                      {false, false},
		"[f(]":                           {false, true},
		`[{"name": "f", "arguments": {"a": 1, "a": 1}}]`: {false, true},
		"<tool_call>f</tool_call>":                       {false, true},
		"```json\n{\"f\": {}}\n```":                      {false, true},
	} {
		for i, rule := range []string{ruleJSON, ruleBFCL} {
			if got := passes(keyFor(t, tools, "[]", `{"rule":"`+rule+`"}`), text); got != want[i] {
				t.Errorf("%s, %q: %t", rule, text, got)
			}
		}
	}
	k := keyFor(t, tools, "[]", "")
	if v := k.score("I could call", true); v.Outcome != verdict.Failed {
		t.Errorf("an answer that was cut off: %+v", v)
	}
}

func row(input, eval string) family.Row {
	out := family.Row{Input: map[string]jsontext.Value{}, Eval: map[string]jsontext.Value{}}
	for text, to := range map[string]map[string]jsontext.Value{input: out.Input, eval: out.Eval} {
		if err := json.Unmarshal([]byte(text), &to); err != nil {
			panic(err)
		}
	}
	return out
}

func TestCheck(t *testing.T) {
	const input = `{"prompt":"p","tools":[{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}]}`
	for eval, want := range map[string]string{
		`{"expected_calls":[{"name":"f","arguments":{"a":1}}]}`:              "",
		`{"expected_calls":[],"initial_state":{}}`:                           "",
		`{"expected_final_state":{},"initial_state":{}}`:                     "",
		`{"expected_calls":[],"simulator":{"source":"python"},"answer":"5"}`: "",
		`{}`:                      "must have expected_calls or expected_final_state",
		`{"expected_calls":null}`: "must have expected_calls or expected_final_state",
		`{"expected_calls":[],"simulator":{"source":"mcp"}}`:                                                              "would be passed by doing nothing",
		`{"expected_calls":[],"answer":"5"}`:                                                                              "needs a simulator",
		`{"expected_calls":[],"match":{"extra":"reads"}}`:                                                                 "reads needs a simulator",
		`{"expected_calls":[],"match":{"state":"equal"}}`:                                                                 "need a simulator",
		`{"expected_calls":[{"name":"g","arguments":{}}]}`:                                                                `names no tool of the row: "g"`,
		`{"expected_calls":[{"name":"f","arguments":{"a":1,"b":2}}]}`:                                                     `"b", which is no parameter`,
		`{"expected_calls":[{"name":"f","arguments":{"a":"x"}}]}`:                                                         "cannot be met",
		`{"expected_calls":[{"name":"f","arguments":{}}]}`:                                                                "cannot be met",
		`{"expected_calls":[{"name":"f","arguments":{"a":1},"accepted":{"a":[1]}}]}`:                                      "both arguments and accepted",
		`{"expected_calls":[{"name":"f","accepted":{"a":[1]},"optional":["b"]}]}`:                                         "no value is accepted",
		`{"expected_calls":[{"name":"f","accepted":{"a":[""]}}],"match":{"rule":"bfcl"}}`:                                 "cannot be met",
		`{"expected_calls":[{"name":"f","accepted":{"a":[1],"b":["",2]}}],"match":{"rule":"bfcl"}}`:                       "",
		`{"expected_calls":[{"name":"f","arguments":{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}}]}`: "nested too deep",
	} {
		problems := check(row(input, eval))
		if want == "" && len(problems) > 0 || want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Message, want)) {
			t.Errorf("%.100s: %+v, want %q", eval, problems, want)
		}
	}
	for input, want := range map[string]string{
		`{"tools":[{"name":"f","parameters":{}}]}`:                                                   "either prompt or messages",
		`{"prompt":"p","messages":[{"role":"user","content":"p"}],"tools":[]}`:                       "either prompt or messages",
		`{"prompt":"p","tools":[{"name":"f","parameters":{}},{"name":"f","parameters":{}}]}`:         "of another tool",
		`{"prompt":"p","tools":[{"name":"f","parameters":{"$ref":"https://example.com/x.json"}}]}`:   "no JSON Schema",
		`{"prompt":"p","tools":[{"name":"f","parameters":{"type":"integers"}}]}`:                     "no JSON Schema",
		`{"prompt":"p","tools":[{"name":"f","parameters":{"type":"object","minProperties":1e999}}]}`: "no JSON Schema",
	} {
		problems := check(row(input, `{"expected_calls":[{"name":"f"}]}`))
		if len(problems) == 0 || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%s: %+v, want %q", input, problems, want)
		}
	}
	if d := doubtful(row(`{"tools":[{"name":"a.b","parameters":{}},{"name":"a_b","parameters":{}}]}`, `{}`)); len(d) != 1 {
		t.Errorf("tools whose names a provider cannot tell apart: %+v", d)
	}
}

// TestPending: a row whose tools must be called says what is missing.
func TestPending(t *testing.T) {
	for want, resource := range map[string]task.Resource{
		"simulator":         {Name: "simulator", Lane: task.EvaluationInputs, Value: jsontext.Value(`{"source":"python"}`)},
		"no eval.simulator": {Name: "expected_final_state", Value: jsontext.Value(`{}`)},
		"":                  {Name: "expected_calls", Value: jsontext.Value(`[]`)},
	} {
		c := familytest.Case(t, "tool_call", resource)
		reason, why := pending(c.Sandbox, c.Evaluator)
		if (reason == verdict.NoVerifier) != (want != "") || !strings.Contains(why, want) {
			t.Errorf("%s: %s, %s", resource.Name, reason, why)
		}
	}
}

// TestReference: the row's own solution passes, and no baseline does.
func TestReference(t *testing.T) {
	public := func(name, value string) task.Resource {
		return task.Resource{Name: name, Lane: task.Public, Value: jsontext.Value(value)}
	}
	for _, expected := range []string{`[{"name":"trip.book","arguments":{"people":2,"price":1.5,"to":"Ä\"x"}},{"name":"trip_cancel"}]`, `[]`} {
		c := familytest.Case(t, "tool_call", public("prompt", `"Book."`), public("tools", trip),
			task.Resource{Name: "expected_calls", Value: jsontext.Value(expected)})
		solution, ok := reference(c.Evaluator)
		if !ok {
			t.Fatalf("%s: no solution", expected)
		}
		if v := familytest.Verify(t, newVerifier(family.Resources{}), c, solution.Candidate); v.Outcome != verdict.Passed || v.Containment != verdict.Passive {
			t.Errorf("%s: %s: %+v", expected, familytest.Content(t, solution.Candidate), v)
		}
	}
}

// FuzzMatch: whatever is stated, there is a verdict, and one list is right by the rule
// json only if its canonical form is.
func FuzzMatch(f *testing.F) {
	keys := map[string]*key{}
	for _, rule := range []string{ruleJSON, ruleBFCL} {
		keys[rule] = keyFor(f, trip, `[{"name":"trip.book","accepted":{"people":[5],"stops":[["Pisa"]],"seats":[{"a":[1,""]}]},"optional":["stops","seats"]}]`, `{"rule":"`+rule+`"}`)
	}
	for _, s := range []string{`{"trip.book":{"people":5}}`, `[trip.book(people=5, stops=["pisa"])]`, `trip.book(people=1e999, seats={"a":True})`, "```\ntrip_book(people=05)\n```"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "")
		for rule, k := range keys {
			v := k.score(s, false)
			if v.Outcome != verdict.Passed && (v.Outcome != verdict.Failed || v.Reason == "") {
				t.Fatalf("%s, %q: %+v", rule, s, v)
			}
			list, _ := calls.Read(s)
			if rule != ruleJSON || v.Outcome != verdict.Passed || len(list) != 1 {
				continue
			}
			text, ok := list[0].Value().JSON()
			if !ok || !passes(k, string(text)) {
				t.Fatalf("%q passes, and %s does not", s, text)
			}
		}
	})
}
