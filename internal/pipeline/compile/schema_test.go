package compile

import (
	"strings"
	"testing"

	"securebench/internal/family"
	"securebench/internal/family/codecompletion"
	"securebench/internal/family/freeresponse"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/repopatch"
	"securebench/internal/family/shortanswer"
	"securebench/internal/family/terminaltask"
	"securebench/internal/source"
)

// A schema may not reach outside itself, whatever it names.
func TestSchemaRefusesReferences(t *testing.T) {
	for _, ref := range []string{"file:///etc/passwd", "other.json", "https://example.invalid/s.json"} {
		_, err := newSchema("t", []byte(`{"$ref":"`+ref+`"}`))
		if err == nil || !strings.Contains(err.Error(), "may not refer to") {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if _, err := newSchema("t", []byte(`{"$ref":"#/$defs/x","$defs":{"x":true}}`)); err != nil {
		t.Errorf("a reference within: %v", err)
	}
}

// Exact numbers of any accepted spelling are validated in a moment.
func TestSchemaNumbers(t *testing.T) {
	s := mustSchema("t", []byte(`{"title":"x","type":"integer","minimum":0}`))
	for lit, want := range map[string]bool{
		"1e300": true, "0e999999999": true, "1e-300": false, "-1": false, strings.Repeat("9", 300): true,
	} {
		n, err := source.ParseJSON("f", 1, []byte(lit))
		if err != nil {
			t.Fatal(err)
		}
		k := &checker{}
		k.schema(s, n, "input")
		if got := len(k.errs) == 0; got != want {
			t.Errorf("%.20s: valid is %t", lit, got)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"tolerance", "answer", "choices", "id", "code"}
	for in, want := range map[string]string{
		"toleranse": "tolerance", "Tolerance": "tolerance", "tolerances": "tolerance", "anwser": "answer", "choice": "choices",
		"ID": "id", "ix": "", "cod": "code", "coed": "code", "mode": "code", "note": "", "": "", strings.Repeat("x", 1000): "",
	} {
		if got := source.Nearest(in, known); got != want {
			t.Errorf("source.Nearest(%.20q) = %q, want %q", in, got, want)
		}
	}
}

// Every part of a family's schema says in its title what a value must be, or
// leaves that to the part that it refers to.
func TestSchemaTitles(t *testing.T) {
	for _, f := range []family.Family{multiplechoice.Family(), shortanswer.Family(), freeresponse.Family(),
		codecompletion.Family(), repopatch.Family(), terminaltask.Family()} {
		for _, text := range [][]byte{f.InputSchema, f.EvalSchema} {
			root, err := source.ParseJSON(f.Name, 1, text)
			if err != nil {
				t.Fatal(err)
			}
			checkTitles(t, root)
		}
	}
}

func checkTitles(t *testing.T, n *source.Node) {
	t.Helper()
	if n.Kind != source.Map {
		return
	}
	if n.Get("title") == nil && n.Get("$ref") == nil {
		t.Errorf("%s: a part of the schema has no title", n.Pos)
	}
	for _, f := range n.Fields {
		switch f.Name {
		case "properties", "$defs":
			for _, part := range f.Value.Fields {
				checkTitles(t, part.Value)
			}
		case "items", "additionalProperties", "then", "else":
			checkTitles(t, f.Value)
		case "anyOf":
			for _, part := range f.Value.Items {
				checkTitles(t, part)
			}
		}
	}
}
