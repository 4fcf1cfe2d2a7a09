package toolschema_test

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/toolschema"
)

// TestStandard: types are renamed where a schema has its type, and nowhere else.
func TestStandard(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"dict","properties":{"type":{"type":"float"},"a":{"type":"tuple","items":{"type":"any"}}},"required":["type"]}`: `{"type":"object","properties":{"type":{"type":"number"},"a":{"type":"array","items":{"type":"string"}}},"required":["type"]}`,
		`{"enum":["dict","float"],"default":{"type":"dict"},"description":"float"}`:                                              `{"enum":["dict","float"],"default":{"type":"dict"},"description":"float"}`,
		`{"anyOf":[{"type":"float"},true],"additionalProperties":{"type":"dict"},"items":false}`:                                 `{"anyOf":[{"type":"number"},true],"additionalProperties":{"type":"object"},"items":false}`,
		`{"properties":1,"anyOf":2,"type":["dict"]}`:                                                                             `{"properties":1,"anyOf":2,"type":["dict"]}`,
		`true`: `true`,
	} {
		var schema, expected any
		if err := json.Unmarshal([]byte(text), &schema); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(want), &expected); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(expected, toolschema.Standard(schema)); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestName(t *testing.T) {
	for name, want := range map[string]string{"math.hypot": "math_hypot", "a-b_C9": "a-b_C9", "é x": "__x", "": ""} {
		if got := toolschema.Name(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}
