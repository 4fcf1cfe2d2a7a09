package compile

import (
	"strings"
	"testing"

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
		"tolerence": "tolerance", "Tolerance": "tolerance", "tolerances": "tolerance", "anwser": "answer", "choice": "choices",
		"ID": "id", "ix": "", "cod": "code", "coed": "code", "mode": "code", "note": "", "": "", strings.Repeat("x", 1000): "",
	} {
		if got := nearest(in, known); got != want {
			t.Errorf("nearest(%.20q) = %q, want %q", in, got, want)
		}
	}
}
