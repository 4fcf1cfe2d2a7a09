package source_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/source"
)

func TestProblemIsOnePrintableLine(t *testing.T) {
	p := &source.Problem{Pos: source.Pos{File: "a\x1b[2J", Line: 2, Col: 3}, Message: "bad\nkey\u202e", Fix: "é 漢"}
	if got, want := p.Error(), `a\x1b[2J:2:3: bad\x0akey\u{202E} (é 漢)`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPos(t *testing.T) {
	for want, pos := range map[string]source.Pos{"f": {File: "f"}, "f:3": {File: "f", Line: 3}, "f:3:4": {File: "f", Line: 3, Col: 4}} {
		if got := pos.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestProblemsErr(t *testing.T) {
	var ps source.Problems
	if err := ps.Err(); err != nil {
		t.Errorf("no problems gave %v", err)
	}
	ps.Add(source.Pos{File: "f"}, "do %d", "one %d", 1)
	ps.Add(source.Pos{File: "g"}, "", "two")
	err := ps.Err()
	if got, want := errorText(err), "f: one 1 (do %d)\ng: two"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var p *source.Problem
	if !errors.As(err, &p) || p != ps[0] {
		t.Error("a problem cannot be taken out of the joined error")
	}
}

func TestCheck(t *testing.T) {
	n, err := source.ParseJSON("f", 1, []byte(`{"id":1,"ID":2,"extra":3}`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name           string
		open           bool
		errs, warnings string
	}{
		{"closed", false, "f:1:9: it has field \"ID\" in the wrong case (write id)\n" +
			"f:1:16: it contains unsupported field \"extra\" (known: id, other)", ""},
		{"open", true, "f:1:9: it has field \"ID\" in the wrong case (write id)",
			"f:1:16: it has unknown field \"extra\", which is ignored (known: id, other)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			errs, warnings := n.Check("it", tt.open, "id", "other")
			if diff := cmp.Diff(tt.errs, errorText(errs.Err())); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.warnings, errorText(warnings.Err())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTyped(t *testing.T) {
	str := func(n *source.Node) (any, *source.Problem) { return n.Str("x") }
	boolean := func(n *source.Node) (any, *source.Problem) { return n.Boolean("x") }
	integer := func(n *source.Node) (any, *source.Problem) { return n.Int("x", -1, 9) }
	positive := func(n *source.Node) (any, *source.Problem) { return n.Positive("x") }
	list := func(n *source.Node) (any, *source.Problem) { return n.Strings("x") }
	tests := []struct {
		read func(*source.Node) (any, *source.Problem)
		in   string
		want any
		err  string
	}{
		{str, `"a "`, "a ", ""},
		{str, `""`, nil, "f:1:1: x must be a non-empty string"},
		{str, `" \u00a0"`, nil, "f:1:1: x must be a non-empty string"},
		{str, `1`, nil, "f:1:1: x must be a non-empty string, not a number (quote it: \"1\")"},
		{boolean, `true`, true, ""},
		{boolean, `false`, false, ""},
		{boolean, `"true"`, nil, "f:1:1: x must be true or false, not a string"},
		{integer, `9`, int64(9), ""},
		{integer, `-1`, int64(-1), ""},
		{integer, `10`, nil, "f:1:1: x must be from -1 to 9"},
		{integer, `99999999999999999999`, nil, "f:1:1: x must be from -1 to 9"},
		{integer, `1.0`, nil, "f:1:1: x must be an integer, not 1.0"},
		{integer, `1e0`, nil, "f:1:1: x must be an integer, not 1e0"},
		{integer, `true`, nil, "f:1:1: x must be an integer, not a boolean"},
		{positive, `0.5`, 0.5, ""},
		{positive, `0`, nil, "f:1:1: x must be above 0"},
		{positive, `-1`, nil, "f:1:1: x must be above 0"},
		{positive, `true`, nil, "f:1:1: x must be a positive number, not a boolean"},
		{list, `["a","b"]`, []string{"a", "b"}, ""},
		{list, `[]`, []string{}, ""},
		{list, `["a",1]`, nil, "f:1:6: x[1] must be a non-empty string, not a number (quote it: \"1\")"},
		{list, `"a"`, nil, "f:1:1: x must be a list, not a string"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			n, err := source.ParseJSON("f", 1, []byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			got, p := tt.read(n)
			if p != nil {
				if p.Error() != tt.err {
					t.Errorf("got error %s, want %q", p, tt.err)
				}
				return
			}
			if tt.err != "" {
				t.Fatalf("got no error, want %s", tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNilNode(t *testing.T) {
	var n *source.Node
	if n.Get("a") != nil || n.At([]string{"a"}) != nil || n.Any() != nil || string(n.JSON()) != "null" {
		t.Error("a nil node is not an absent value")
	}
}
