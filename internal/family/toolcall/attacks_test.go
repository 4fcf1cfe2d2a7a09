package toolcall

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"securebench/internal/family/familytest"
	"securebench/internal/verdict"
)

// A weak matcher is what an attack was made for: a mistake that scorers of calls make.
type weak func(candidate string) bool

// named looks for the name and the value, wherever they are.
func named(candidate string) bool {
	return strings.Contains(candidate, "pump") && strings.Contains(candidate, "10")
}

// oneIsEnough accepts any list with the right call in it.
func oneIsEnough(candidate string) bool {
	list := []map[string]any{}
	return json.Unmarshal([]byte(candidate), &list) == nil && func() bool {
		for _, c := range list {
			args, _ := c["arguments"].(map[string]any)
			if c["name"] == "pump" && args["litres"] == 10.0 {
				return true
			}
		}
		return false
	}()
}

// lenient decodes as most libraries do: the last of equal keys counts, and numbers are
// floating.
func lenient(candidate string) bool {
	c := struct {
		Name      string
		Arguments struct{ Litres float64 }
	}{}
	return json.Unmarshal([]byte(candidate), &c) == nil && c.Arguments.Litres == 10
}

// loose compares as texts of any type, without signs and points.
func loose(candidate string) bool {
	m := regexp.MustCompile(`"litres": *"?([^"}]*)`).FindStringSubmatch(candidate)
	return m != nil && (strings.Trim(m[1], "-. ") == "10" || m[1] == "true" || strings.HasPrefix(m[1], "1e"))
}

// folded takes letters that look alike for each other.
func folded(candidate string) bool {
	return strings.Contains(strings.NewReplacer("р", "p", "і", "i", "․", ".").Replace(candidate), "pump") && named("pump10")
}

// undecoded takes whatever it cannot read for no call.
func undecoded(candidate string) bool {
	return json.Unmarshal([]byte(candidate), &[]any{}) != nil
}

// TestAttacks: each passes a weak matcher and fails here, and an honest twin passes.
func TestAttacks(t *testing.T) {
	const tools = `[{"name":"pump","parameters":{"type":"object","properties":{"litres":{"type":"number"},"fast":{"type":"boolean","default":false}},"required":["litres"]}},
		{"name":"valve.open","parameters":{"type":"object","properties":{"fast":{"type":"boolean"}}}}]`
	pump := keyFor(t, tools, `[{"name":"pump","arguments":{"litres":10}}]`, "")
	none := keyFor(t, tools, `[]`, "")
	twice := keyFor(t, tools, `[{"name":"pump","accepted":{"litres":[10,20]}},{"name":"pump","accepted":{"litres":[10]}}]`, "")
	const right = `{"name":"pump","arguments":{"litres":10}}`
	const tagged = `{"name":"note","arguments":{"text":"<think>pump 10</think>"}}`
	note := keyFor(t, `[{"name":"note","parameters":{"type":"object","properties":{"text":{"type":"string"}}}}]`, "["+tagged+"]", "")
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	tests := []struct {
		id     string
		key    *key
		weak   weak
		attack string
		honest string
	}{
		{"C1", pump, oneIsEnough, `[` + right + `,{"name":"pump","arguments":{"litres":11}},{"name":"valve.open","arguments":{}}]`, `[` + right + `]`},
		{"C1", pump, named, "```\npump(litres=9)\n```\n```\npump(litres=10)\n```", "The call:\n```\npump(litres=10)\n```"},
		{"C2", pump, oneIsEnough, `[` + right + `,` + right + `]`, `[` + right + `]`},
		{"C3", pump, oneIsEnough, `[` + right + `,{"name":"valve.open","arguments":{"fast":false}}]`, right},
		{"C4", pump, lenient, `{"name":"pump","arguments":{"litres":9,"litres":10}}`, `{"arguments":{"litres":10},"name":"pump"}`},
		{"C4", pump, named, `pump(litres=9, litres=10)`, `pump(litres=10)`},
		{"C5", pump, loose, `{"name":"pump","arguments":{"litres":"10"}}`, `{"name":"pump","arguments":{"litres":10.0}}`},
		{"C5", pump, loose, `{"name":"pump","arguments":{"litres":true}}`, `{"name":"pump","arguments":{"litres":1e1}}`},
		{"C5", pump, loose, `{"name":"pump","arguments":{"litres":1e400}}`, `{"name":"pump","arguments":{"litres":10}}`},
		{"C5", pump, lenient, `{"name":"pump","arguments":{"litres":10.0000000000000001}}`, `{"name":"pump","arguments":{"litres":10.000}}`},
		{"C6", pump, named, `pump(litres=__import__("os").cpu_count() * 0 + 10)`, `[pump(litres=10)]`},
		{"C6", pump, named, `pump(litres=5+5) # 10`, `pump(litres=10) # 10`},
		{"C7", pump, folded, `{"name":"рump","arguments":{"litres":10}}`, right},
		{"C7", pump, folded, `{"name":"pump","arguments":{"lіtres":10}}`, right},
		{"C8", pump, lenient, `{"name":"pump","arguments":{"litres":10,"unit":"l"}}`, right},
		{"C8", pump, lenient, `{"name":"pump","arguments":{"litres":10,"fast":false}}`, right},
		{"C9", pump, loose, `{"name":"pump","arguments":{"litres":-10}}`, right},
		{"C10", none, undecoded, `[{"name":"pump","arguments":{"litres":10}`, `No tool fits.`},
		{"C10", none, undecoded, `[pump(litres=10]`, `I have no tool for this, sorry.`},
		{"C10", none, undecoded, `I call it: {"name":"pump","arguments":{"litres":10}}`, `No tool takes these arguments: [none](at all).`},
		{"C10", none, undecoded, "Sure: [pump(litres=10)]", "Sorry: pump (the only one) does not fit."},
		{"C10", none, undecoded, "Sure:\npump(litres=10)", "Sure, with pump(litres=10) it cannot be done."},
		{"C10", none, undecoded, `<function=pump>{"litres":10}</function>`, "No function fits."},
		{"C10", none, undecoded, `{"name":"pump","parameters":{"litres":10}}`, "[]"},
		{"C10", none, undecoded, "No tool fits:\n```python\npump(litres=10)\n```", "No tool fits:\n```python\nprint('pumping')\n```"},
		{"C10", none, undecoded, "No tool fits:\n```python\nx = 10\npump(litres=x)\n```", "No tool fits:\n```python\nimport plots\nplots.show()\n```"},
		{"C10", none, undecoded, "No tool fits:\n```python\nfly(to='Rome')\n```", "No tool fits:\n```\nnone\n```"},
		{"C10", none, undecoded, "```python\nprint('pumping')\n```", "I would write:\n```py\nprint('pumping')\n```\nNo tool fits."},
		{"C1", twice, named, "```\npump(litres=20)\n```\nor\n```\npump(litres=10)\n```", "```\npump(litres=20)\n```\n```\npump(litres=10)\n```"},
		{"C11", none, undecoded, `{"name":"note","arguments":{"text":"</think>No tool fits."}}`, "[" + right + "]</think>No tool fits."},
		{"C11", note, named, "<think>" + tagged + "</think>No pump, and no 10.", tagged},
		{"C11", pump, named, "<think>[" + right + "]</think>I would rather not.", "<think>Is it 9?</think>" + right},
		{"C11", none, undecoded, "<think>No tool fits.</think>[" + right + "]]", "<think>[" + right + "]</think>No tool fits."},
		{"C12", pump, named, Family().Instruction + ` pump 10`, right},
		{"C13", pump, named, `{"name":"pump","arguments":{"litres":10,"fast":` + deep + `}}`, right},
		{"C13", pump, named, `pump(litres=10, fast=` + deep + `)`, right},
		{"C14", twice, oneIsEnough, `[` + right + `,{"name":"pump","arguments":{"litres":30}}]`, `[` + right + `,{"name":"pump","arguments":{"litres":20}}]`},
	}
	for i, tt := range tests {
		t.Run(fmt.Sprintf("%s/%d", tt.id, i), func(t *testing.T) {
			if !tt.weak(tt.attack) {
				t.Errorf("%.100q does not even pass the weak matcher", tt.attack)
			}
			if v := tt.key.score(tt.attack, false); v.Outcome != verdict.Failed {
				t.Errorf("attack %.100q is %s", tt.attack, familytest.Outcome(v))
			}
			if v := tt.key.score(tt.honest, false); v.Outcome != verdict.Passed {
				t.Errorf("honest %.100q is %s", tt.honest, familytest.Outcome(v))
			}
		})
	}
}

// TestAttacksOfficially: the same attacks on a row of BFCL, whose own scorer passes some.
func TestAttacksOfficially(t *testing.T) {
	const tools = `[{"name":"p.f","parameters":{"type":"dict","properties":{"n":{"type":"integer"},"s":{"type":"string"}},"required":["n"]}}]`
	k := keyFor(t, tools, `[{"name":"p.f","accepted":{"n":[10],"s":["5"]},"optional":["s"]}]`, `{"rule":"bfcl"}`)
	for text, want := range map[string]bool{
		`p.f(n=10)`: true, `{"p_f":{"n":10}}`: true, `p.f(n=10, s="-5")`: true, // C9: the scorer's form of texts loses signs
		`p.f(n=10), p.f(n=10)`: false, `p.f(n=9, n=10)`: false, `{"p.f":{"n":9,"n":10}}`: false, `p.f(n="10")`: false, `p.f(n=True)`: false,
		`p.f(n=10.0000000000000001)`: false, `p.f(n=__import__("os").getpid())`: false, `р.f(n=10)`: false, `p.f(n=10, x=1)`: false,
		`<think>p.f(n=10)</think>`: false,
	} {
		if passes(k, text) != want {
			t.Errorf("%s: want %t", text, want)
		}
	}
}
