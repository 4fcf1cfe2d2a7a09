package source

import (
	"math"
	"testing"
)

// Scalars about which YAML readers disagree are refused where text, an integer or
// a number is expected, and nowhere else.
func TestOddScalars(t *testing.T) {
	const (
		text   = "f.yaml:1:4: x must be a non-empty string, not "
		notAll = ", which some YAML readers do not read as text "
	)
	quote := func(s string) string { return `(quote it: "` + s + `")` }
	type test struct{ in, str, integer, positive string }
	digits := func(in, value string) test {
		end := " in plain digits, not " + in + " (YAML readers disagree whether it is " + value + ")"
		return test{in, text + "a number " + quote(in), "f.yaml:1:4: x must be an integer" + end, "f.yaml:1:4: x must be a number" + end}
	}
	tests := []test{
		digits("010", "8"),
		digits("08", "8"),
		digits("0o10", "8"),
		digits("1_0", "10"),
		digits("0x1F", "31"),
		{"+1", text + "a number " + quote("+1"),
			"f.yaml:1:4: x must be an integer in plain digits, not +1 (YAML readers disagree whether it is 1)", ""},
		{"1_0.5", text + "a number " + quote("1_0.5"), "f.yaml:1:4: x must be an integer, not 1_0.5",
			"f.yaml:1:4: x must be a number in plain digits, not 1_0.5 (YAML readers disagree whether it is 10.5)"},
		{"1e3", text + "a number " + quote("1e3"), "f.yaml:1:4: x must be an integer, not 1e3", ""},
		{".5", text + "a number " + quote(".5"), "f.yaml:1:4: x must be an integer, not .5", ""},
		{"1.0", text + "a number " + quote("1.0"), "f.yaml:1:4: x must be an integer, not 1.0", ""},
		{"7", text + "a number " + quote("7"), "", ""},
		{"1:30", "f.yaml:1:4: x is written as 1:30" + notAll + quote("1:30"), "f.yaml:1:4: x must be an integer, not a string", "f.yaml:1:4: x must be a positive number, not a string"},
		{"2024-01-01", "f.yaml:1:4: x is written as 2024-01-01" + notAll + quote("2024-01-01"), "f.yaml:1:4: x must be an integer, not a string", "f.yaml:1:4: x must be a positive number, not a string"},
		{"yes", "f.yaml:1:4: x is written as yes" + notAll + quote("yes"), "f.yaml:1:4: x must be an integer, not a string", "f.yaml:1:4: x must be a positive number, not a string"},
		{"Off", "f.yaml:1:4: x is written as Off" + notAll + quote("Off"), "f.yaml:1:4: x must be an integer, not a string", "f.yaml:1:4: x must be a positive number, not a string"},
		{"1e400", "f.yaml:1:4: x is written as 1e400" + notAll + quote("1e400"), "f.yaml:1:4: x must be an integer, not a string", "f.yaml:1:4: x must be a positive number, not a string"},
		{"true", text + "a boolean " + quote("true"), "f.yaml:1:4: x must be an integer, not a boolean", "f.yaml:1:4: x must be a positive number, not a boolean"},
		{"~", text + "null " + quote("~"), "f.yaml:1:4: x must be an integer, not null", "f.yaml:1:4: x must be a positive number, not null"},
		// Scalars that every reader reads alike.
		{"python:3", "", "f.yaml:1:4: x must be an integer, not a string", "f.yaml:1:4: x must be a positive number, not a string"},
		{"1000:1000", "", "f.yaml:1:4: x must be an integer, not a string", "f.yaml:1:4: x must be a positive number, not a string"},
		{"1.2.3", "", "f.yaml:1:4: x must be an integer, not a string", "f.yaml:1:4: x must be a positive number, not a string"},
		{`"010"`, "", "f.yaml:1:4: x must be an integer, not a string", "f.yaml:1:4: x must be a positive number, not a string"},
		{"'yes'", "", "f.yaml:1:4: x must be an integer, not a string", "f.yaml:1:4: x must be a positive number, not a string"},
		{"!!str 010", "", "f.yaml:1:4: x must be an integer, not a string", "f.yaml:1:4: x must be a positive number, not a string"},
	}
	for _, tt := range tests {
		root, err := ParseYAML("f.yaml", []byte("k: "+tt.in+"\n"))
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		n := root.Get("k")
		_, str := n.Str("x")
		_, integer := n.Int("x", math.MinInt64, math.MaxInt64)
		_, positive := n.Positive("x")
		for i, p := range []*Problem{str, integer, positive} {
			got, want := "", []string{tt.str, tt.integer, tt.positive}[i]
			if p != nil {
				got = p.Error()
			}
			if got != want {
				t.Errorf("%s as %s:\n got %s\nwant %s", tt.in, []string{"text", "integer", "number"}[i], got, want)
			}
		}
	}
}

// Only true and false are booleans; yes and on are for some readers only.
func TestOddBooleans(t *testing.T) {
	root, err := ParseYAML("f.yaml", []byte("a: true\nb: yes\nc: \"true\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"a": "", "b": "f.yaml:2:4: x must be true or false, not yes", "c": "f.yaml:3:4: x must be true or false, not a string",
	} {
		got := ""
		if _, p := root.Get(key).Boolean("x"); p != nil {
			got = p.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
}
