package calls_test

import (
	"strings"
	"testing"

	"securebench/internal/family/toolcall/calls"
)

// written is a list of calls as text: name and arguments, "?" for those that are invalid.
func written(list []calls.Call) string {
	var out []string
	for _, c := range list {
		args, ok := c.Arguments.JSON()
		if !ok {
			args = []byte("?")
		}
		out = append(out, c.Name+" "+string(args))
	}
	return strings.Join(out, "; ")
}

func TestRead(t *testing.T) {
	const one, two = `f {"a":1}`, `f {"a":1}; g.h {"b":"x"}`
	tests := []struct {
		text, want string
		state      calls.State
	}{
		{`{"name": "f", "arguments": {"a": 1}}`, one, calls.Stated},
		{`[{"name": "f", "arguments": "{\"a\": 1}"}]`, one, calls.Stated},
		{`{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}`, one, calls.Stated},
		{`{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":1}"}`, one, calls.Stated},
		{`{"f": {"a": 1}}`, one, calls.Stated},
		{`{"name": "f", "parameters": {"a": 1}}`, one, calls.Stated},
		{`{"type": "function", "function": {"name": "f", "parameters": {"a": 1}}}`, one, calls.Stated},
		{`{"type":"function_call","call_id":"c","status":"completed","name":"f","arguments":"{\"a\":1}"}`, one, calls.Stated},
		{`{"tool_calls": [{"name": "f", "arguments": {"a": 1}}, {"name": "g.h", "arguments": {"b": "x"}}]}`, two, calls.Stated},
		{`{"tool_calls": {"a": 1}}`, `tool_calls {"a":1}`, calls.Stated},
		{"{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n\n{\"g.h\": {\"b\": \"x\"}}\n", two, calls.Stated},
		{"```json\n{\"f\": {\"a\": 1}}\n{\"g.h\": {\"b\": \"x\"}}\n```", two, calls.Stated},
		{`{"f": {"a": "<think>"}}`, `f {"a":"<think>"}`, calls.Stated},
		{`[{"f": {"a": 1}}, {"g.h": "{\"b\":\"x\"}"}]`, two, calls.Stated},
		{`{"function": {"a": 1}}`, `function {"a":1}`, calls.Stated},
		{`[f(a=1), g.h(b="x")]`, two, calls.Stated},
		{`f(a=1), g.h(b='x')`, two, calls.Stated},
		{`f(a=1)`, one, calls.Stated},
		{"Here it is:\n```json\n{\"f\": {\"a\": 1}}\n```\nDone.", one, calls.Stated},
		{"```python\n[f(a=1),\n g.h(b='x')]\n```", two, calls.Stated},
		{"```\nf(a=1)", one, calls.Stated},
		{"<tool_call>\n{\"name\":\"f\",\"arguments\":{\"a\":1}}\n</tool_call>\n<tool_call>g.h(b='x')</tool_call>", two, calls.Stated},
		{"I will call it. <tool_call>{\"f\":{\"a\":1}}", one, calls.Stated},
		{`[]`, ``, calls.Stated},
		{"```json\n[]\n```", ``, calls.Stated},
		// The same list twice is one, whatever the order of arguments.
		{"```\n{\"f\":{\"a\":1,\"b\":2}}\n```\nthat is\n```\n{\"f\":{\"b\":2,\"a\":1}}\n```", `f {"a":1,"b":2}`, calls.Stated},
		{"```\nf(a=1)\n```\nor\n```\nf(a=2)\n```", ``, calls.Ambiguous},
		{"<tool_call>f(a=1)</tool_call>\n```\nf(a=2)\n```", ``, calls.Ambiguous},
		{"```\nf(a=1)\n```\nor\n```\n{\"f\":{\"a\":1,\"a\":2}}\n```", ``, calls.Ambiguous},
		// Blocks of one call each, with nothing between them, are all called.
		{"```json\n{\"f\": {\"a\": 1}}\n```\n\n```json\n{\"g.h\": {\"b\": \"x\"}}\n```", two, calls.Stated},
		{"I call both:\n```\nf(a=1)\n```\n```\ng.h(b='x')\n```\nDone.", two, calls.Stated},
		{"```\nf(a=1)\n```\n```\nf(a=1)\n```", one, calls.Stated},
		{"```\nf(a=1)\n```\nor\n```\ng.h(b='x')\n```", ``, calls.Ambiguous},
		{"```\nf(a=1), f(a=2)\n```\n```\ng.h(b='x')\n```", ``, calls.Ambiguous},
		{"```\nf(a=1)\n```\n```\n[]\n```", ``, calls.Ambiguous},
		{"```\nf(a=1)\n```\n```\n{\"f\":{\"a\":1,\"a\":2}}\n```", ``, calls.Ambiguous},
		{"```\nf(a=1)\n```\n```\ng.h(b='x')\n```\n<tool_call>f(a=1)</tool_call>", ``, calls.Ambiguous},
		// Elements around fences.
		{"<tool_call>\n```json\n{\"name\":\"f\",\"arguments\":{\"a\":1}}\n```\n</tool_call>", one, calls.Stated},
		{"<tool_call>```\nf(a=1)\n```</tool_call> <tool_call>\n```python\ng.h(b='x')\n```\n</tool_call>", two, calls.Stated},
		{"<tool_call>\nor rather\n```\nf(a=1)\n```\n</tool_call>", ``, calls.Broken},
		{"<tool_call>\n```\nf(a=1)\n```\n```\nf(a=2)\n```\n</tool_call>", ``, calls.Broken},
		{"<tool_call>\n```\nf(a=1)\n```\n</tool_call>\n```\nf(a=2)\n```", ``, calls.Ambiguous},
		// Literals of Python.
		{`f(a=-1.5e3, b=[1, (2,), {'k': None}], c=True, d='it''s', e="\u00e9\x41\n", g=r"\n", h=0x1F, i=1_000, j=.5, k=+2, l=1.)`,
			`f {"a":-1.5e3,"b":[1,[2],{"k":null}],"c":true,"d":"its","e":"éA\n","g":"\\n","h":31,"i":1000,"j":0.5,"k":2,"l":1.0}`, calls.Stated},
		{"f(a='''x\ny''', class=2)  # a comment", `f {"a":"x\ny","class":2}`, calls.Stated},
		// What is no literal makes the arguments of its call invalid, and is not looked at.
		{`f(a=__import__("os").system("id"))`, `f ?`, calls.Stated},
		{`f(a=x)`, `f ?`, calls.Stated},
		{`f(a=1+1)`, `f ?`, calls.Stated},
		{`f(a=[x])`, `f ?`, calls.Stated},
		{`f(a=f"{x}")`, `f ?`, calls.Stated},
		{`f(a=1, a=2)`, `f ?`, calls.Stated},
		{`f(a={'k': 1, 'k': 2})`, `f ?`, calls.Stated},
		{`f(1)`, `f ?`, calls.Stated},
		{`f(**{'a': 1})`, `f ?`, calls.Stated},
		{`f(a=lambda x: x, b=[i for i in y if i], c={1, 2}, d=x[1:2, ::3], e=a if b else c, g=not a < b in c)`, `f ?`, calls.Stated},
		// What looks like calls and is none.
		{`{"name": "f", "arguments": {"a": 1, "a": 2}}`, ``, calls.Broken},
		{`{"name": "f", "arguments": "{\"a\": 1, \"a\": 2}"}`, ``, calls.Broken},
		{`[{"name": "f", "arguments": {"a": 1}}`, ``, calls.Broken},
		{`[{"name": "f", "arguments": {"a": 1e}}]`, ``, calls.Broken},
		{`[{"name": "f", "arguments": [1]}]`, ``, calls.Broken},
		{`[{"name": "f", "arguments": {}, "note": 1}]`, ``, calls.Broken},
		{`[1]`, ``, calls.Broken},
		{`{"name": "f", "arguments": {"a": 1}, "parameters": {"a": 2}}`, ``, calls.Broken},
		{`{"tool_calls": [{"f": {"a": 1}}], "g": {}}`, ``, calls.Broken},
		{`{"tool_calls": [{"tool_calls": [{"f": {"a": 1}}]}]}`, ``, calls.Broken},
		{"{\"f\": {\"a\": 1}}\n{\"g\": {\"a\": 1, \"a\": 2}}", ``, calls.Broken},
		{"{\"f\": {\"a\": 1}}\nand\n{\"g\": {}}", ``, calls.Broken},
		{"{\"f\": {\"a\": 1}}\n[{\"g\": {}}]", ``, calls.Broken},
		{`I call it: {"name": "f", "arguments": {"a": 1}}`, ``, calls.Broken},
		{`I call it: {"name": "f", "parameters": {"a": 1}}`, ``, calls.Broken},
		{`I call it: [f(a=1)]`, ``, calls.Broken},
		{"I call it:\nf(a=1)", ``, calls.Broken},
		{`<function=f>{"a": 1}</function>`, ``, calls.Broken},
		{`<tool_calls>f</tool_calls>`, ``, calls.Broken},
		{`[f(a=1), 2]`, ``, calls.Broken},
		{`[f(a=1)`, ``, calls.Broken},
		{`["f(a=1)"]`, ``, calls.Broken},
		{`<tool_call>f</tool_call>`, ``, calls.Broken},
		{"{\"f\":{}}{\"g\":{}}", ``, calls.Broken},
		{`No tool fits.`, ``, calls.Nothing},
		{`I would call f(a=1).`, ``, calls.Nothing},
		{"I would call f(a=1), [as asked](here).\nf (of none) fits the arguments: it has no parameters.", ``, calls.Nothing},
		{`"f"`, ``, calls.Nothing},
		{`None`, ``, calls.Nothing},
		{"```python\nprint(1\n```", ``, calls.Nothing},
		{``, ``, calls.Nothing},
	}
	for _, tt := range tests {
		list, state := calls.Read(tt.text)
		if got := written(list); state != tt.state || got != tt.want {
			t.Errorf("%q: %q, state %d; want %q, %d", tt.text, got, state, tt.want, tt.state)
		}
	}
}

// TestWithoutCode: Python that calls nothing is left out, and what may be a call is not.
func TestWithoutCode(t *testing.T) {
	for text, want := range map[string]bool{
		"No tool fits:\n```python\nprint('hi')\n```":                          true,
		"No tool fits:\n```py\nimport m\nm.show()\n```\nThat is all.":         true,
		"No tool fits:\n```python\nprint('pumping')\n```":                     true,
		"No tool fits:\n```python\nx = {'f': 1}\n```":                         true,
		"```python\nprint('hi')\n```":                                         false,
		"No tool fits:\n```\nprint('hi')\n```":                                false,
		"No tool fits:\n```python\nprint('hi')":                               false,
		"No tool fits:\n```python\npump(9)\n```":                              false,
		"No tool fits:\n```python\nx = 9\nprint(pump(litres=x))\n```":         false,
		"No tool fits:\n```python\nfly(to='Rome')\n```":                       false,
		"No tool fits:\n```python\n[fly(to='Rome'), print('hi')]\n```":        false,
		"No tool fits:\n```python\n{\"name\": \"fly\", \"arguments\": {\n```": false,
		"No tool fits:\n```python\n<tool_call>fly()</tool_call>\n```":         false,
		"No tool fits:\n```python\nx = '\"arguments\": {}'\n```":              false,
		"No tool fits.": false,
	} {
		rest, ok := calls.WithoutCode(text, []string{"pump"})
		if ok != want || ok && (!strings.HasPrefix(rest, "No tool fits:") || strings.Contains(rest, "```")) {
			t.Errorf("%q: %q, %t", text, rest, ok)
		}
	}
}

// TestWhole: only a text that is all calls is read with the tags in it.
func TestWhole(t *testing.T) {
	for text, want := range map[string]bool{
		`{"f": {"a": "<think>x</think>"}}`:  true,
		` f(a="<think>") `:                  true,
		`<think>x</think>{"f": {"a": 1}}`:   false,
		`<think>{"f": {"a": 1}}</think>No.`: false,
		`["<think>"]`:                       false,
		`No.`:                               false,
		`f(a="` + strings.Repeat("x", calls.MaxText) + `")`: false,
	} {
		if calls.Whole(text) != want {
			t.Errorf("%.60q: want %t", text, want)
		}
	}
}

// TestReadOfficial: what BFCL's scorer decodes, and what it makes of it.
func TestReadOfficial(t *testing.T) {
	tests := []struct{ text, want string }{
		{`[f(a=1), g.h(b='x')]`, `f {"a":1}; g.h {"b":"x"}`},
		{"`f(a=1)`\n", `f {"a":1}`},
		{`f(a=1), g()`, `f {"a":1}; g {}`},
		{`[{"name":"f","arguments":{"a":1}}]`, `f {"a":1}`},
		{`[{"f":"{\"a\":1}"}]`, `f {"a":1}`},
		{`[]`, ``},
		{`f(10, "x", a=y)`, `f {"a":"y"}`},
		{`f(a=data['k'], b=g(1,  2), c=g(x=1), d=true)`, `f {"a":"data['k']","b":"g(1, 2)","c":{"g":{"x":1}},"d":"true"}`},
		{`f(a=25/1, b=10-5, c=2*3.5, d=-(1), e=...)`, `f {"a":25.0,"b":5,"c":7.0,"d":-1,"e":"..."}`},
		{`f(lambda x: x**2, 1)`, `f {}`},
		{`f(a=1, a=2)`, `f ?`}, // as a call of Python, which fails
		{`[f(a=1)] # why]`, `f {"a":1}`},
		{`f({"a": 1})`, `f {}`},
		// None of these is decoded.
		{"```python\nf(a=1)\n```", `–`},
		{"[f(a=1)]\nThis calls f.", `–`},
		{`['f(a=1)']`, `–`},
		{`[f(a=1)] + [f(a=2)]`, `–`},
		{`f(a=1, 2)`, `–`},
		{`f(class=1)`, `–`},
		{`f(a=5km)`, `–`},
		{`f(a=007)`, `–`},
		{`f(a=-x)`, `–`},
		{`f(a=x+1)`, `–`},
		{`f(a=x.y)`, `–`},
		{`f(a='x)`, `–`},
		{`f(a=1 if b else 2)`, `–`},
		{`f(a=“x”)`, `–`},
		{`I cannot do that`, `–`},
		{`None`, `–`},
	}
	for _, tt := range tests {
		list, state := calls.ReadOfficial(tt.text)
		got := written(list)
		if state != calls.Stated {
			got = "–"
		}
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
}

// TestReadBounds: long, deep and many-fold texts end soon, and state nothing.
func TestReadBounds(t *testing.T) {
	const n = 1 << 19
	for name, text := range map[string]string{
		"lists":       strings.Repeat("[", n),
		"json":        `{"f":{"a":` + strings.Repeat("[", n/2) + strings.Repeat("]", n/2) + `}}`,
		"arguments":   `f(a=` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + ")",
		"calls":       strings.Repeat("f(", n),
		"minus":       "f(a=" + strings.Repeat("-", n) + "1)",
		"not":         "f(a=" + strings.Repeat("not ", n/4) + "1)",
		"powers":      "f(a=1" + strings.Repeat("**1", n/4) + ")",
		"sums":        "f(a=1" + strings.Repeat("+1", n/4) + ")",
		"dots":        strings.Repeat("a.", n/2) + "f(a=1)",
		"names":       "f(" + strings.Repeat("abc=1,", n/6) + ")",
		"many calls":  strings.Repeat("f(a=1),", n/7) + "f(a=1)",
		"elements":    strings.Repeat("<tool_call>", n/11),
		"digits":      "f(a=" + strings.Repeat("9", n) + ")",
		"conditional": "f(a=" + strings.Repeat("1 if 1 else ", n/12) + "1)",
		"lambdas":     "f(a=" + strings.Repeat("lambda:", n/7) + "1)",
		"quotes":      "f(a=" + strings.Repeat("''", n/2) + ")",
		"subscripts":  "f(a=b" + strings.Repeat("[1]", n/3) + ")",
	} {
		t.Run(name, func(t *testing.T) {
			for _, read := range []func(string) ([]calls.Call, calls.State){calls.Read, calls.ReadOfficial} {
				list, state := read(text)
				for _, c := range list {
					if c.Arguments.Kind != calls.Invalid && name != "quotes" {
						t.Errorf("state %d, %d calls", state, len(list))
						break
					}
				}
			}
		})
	}
	blocks := strings.Builder{}
	for i := range 20_000 {
		blocks.WriteString("```\nf(a=" + strings.Repeat("1", 1+i%50) + ")\n```\n")
	}
	if _, state := calls.Read(blocks.String()); state != calls.Ambiguous {
		t.Errorf("many blocks: state %d", state)
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{`{"name":"f","arguments":{"a":1}}`, `[f(a=-1.5e3, b=[1,(2,)])]`, "```json\n[]\n```", "<tool_call>f()</tool_call>",
		`f(a=lambda x,*y:x[1:2], **{"k":b"x"})`, `f(a=f"{x}" 'y', b={1,2} if not c else d)`, "f(a='\\N{x}\\ud800')", "[x for x in y]", "f(a=0x_1e-5j)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, read := range []func(string) ([]calls.Call, calls.State){calls.Read, calls.ReadOfficial} {
			list, state := read(s)
			if state != calls.Stated && len(list) > 0 || len(list) > calls.MaxCalls {
				t.Fatalf("%q: %d calls, state %d", s, len(list), state)
			}
			for _, c := range list {
				text, ok := c.Value().JSON()
				if !ok {
					continue
				}
				if again, state := calls.Read("[" + string(text) + "]"); state != calls.Stated || len(again) != 1 || again[0].Name != c.Name {
					t.Fatalf("%q: %s is read as %v", s, text, again)
				}
			}
		}
	})
}
