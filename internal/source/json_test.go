package source_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/source"
)

func TestParseJSONPlaces(t *testing.T) {
	n, err := source.ParseJSON("f", 7, []byte(` {"é": [1, {"b":true}], "s":"x\n"}`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		path []string
		want string
		kind source.Kind
	}{
		{nil, "f:7:2", source.Map},
		{[]string{"é"}, "f:7:8", source.List},
		{[]string{"é", "0"}, "f:7:9", source.Number},
		{[]string{"é", "1", "b"}, "f:7:17", source.Bool},
		{[]string{"s"}, "f:7:29", source.String},
		{[]string{"é", "1", "missing"}, "f:7:12", source.Map},
		{[]string{"é", "2"}, "f:7:8", source.List},
		{[]string{"é", "1x"}, "f:7:8", source.List},
	}
	for _, tt := range tests {
		got := n.At(tt.path)
		if got.Pos.String() != tt.want || got.Kind != tt.kind {
			t.Errorf("At(%q) = %s %s, want %s %s", tt.path, got.Pos, got.Kind, tt.want, tt.kind)
		}
	}
	if got, want := n.Fields[1].Pos.String(), "f:7:25"; got != want {
		t.Errorf("name at %s, want %s", got, want)
	}
}

func TestParseJSONMultiline(t *testing.T) {
	_, err := source.ParseJSON("f", 3, []byte("{\n  \"a\": 1,\n  \"a\": 2\n}"))
	if got, want := errorText(err), `f:5:3: invalid JSON: duplicate key "a" (remove one of the two)`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParseJSONErrors(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"empty", "", "f:1:1: invalid JSON: the value is cut off (close its quotes, brackets and braces; in a file of lines, a value is on one line)"},
		{"cut off", `{"a":`, "f:1:6: invalid JSON: the value is cut off (close its quotes, brackets and braces; in a file of lines, a value is on one line)"},
		{"second value", `{} {}`, "f:1:4: data follows the JSON value"},
		{"trailing garbage", `{}x`, "f:1:3: data follows the JSON value"},
		{"duplicate", `{"a":1,"a":2}`, `f:1:8: invalid JSON: duplicate key "a" (remove one of the two)`},
		{"duplicate by escape", `{"a":1,"\u0061":2}`, `f:1:8: invalid JSON: duplicate key "a" (remove one of the two)`},
		{"duplicate steers no terminal", "{\"\\u001b[2J\":1,\"\\u001b[2J\":2}", `f:1:16: invalid JSON: duplicate key "\x1b[2J" (remove one of the two)`},
		{"nested duplicate", `[{"x":{"a":1,"a":2}}]`, `f:1:14: invalid JSON: duplicate key "a" (remove one of the two)`},
		{"lone surrogate", `"\ud800"`, "f:1:2: invalid JSON: invalid surrogate pair `\\ud800\"` in string"},
		{"invalid UTF-8", "\"a\xff\"", "f:1:3: the file has a byte that is not UTF-8 (save the file as UTF-8)"},
		{"NaN", `NaN`, "f:1:1: invalid JSON: invalid character 'N' at start of value (write a finite number, true, false, null, a list, an object, or text in double quotes)"},
		{"too large", `1e309`, "f:1:1: the number is too large"},
		{"too small", `[0, 1e-400]`, "f:1:5: the number is too close to zero"},
		{"too long", `1.` + strings.Repeat("0", 400), "f:1:1: the number has more than 400 characters"},
		{"too deep", strings.Repeat("[", 65) + "1" + strings.Repeat("]", 65), "f:1:66: nesting is deeper than 64"},
		{"far too deep", strings.Repeat("[", 1_000_000), "f:1:66: nesting is deeper than 64"},
		{"byte order mark", "\ufeff{}", `f:1:1: the file has a byte order mark (save the file as UTF-8 without one)`},
		{"NUL", "{\"a\x00\":1}", `f:1:4: invalid JSON: invalid character '\x00' in string (expecting non-control character) (write a line break in text as \n, and a backslash as \\)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, err := source.ParseJSON("f", 1, []byte(tt.in))
			if n != nil {
				t.Error("a node came with the error")
			}
			if diff := cmp.Diff(tt.want, errorText(err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The honest twins of the refused inputs above.
func TestParseJSONAccepts(t *testing.T) {
	for _, in := range []string{
		`null`, ` {} `, "\t[ ]\r\n", `{"a":1,"A":2}`, `"\ud83d\ude00"`, `1e308`, `1e-300`, `0e99999999`, `-0`, `0.0`,
		strings.Repeat("[", 64) + "1" + strings.Repeat("]", 64),
		`1.` + strings.Repeat("0", 398),
	} {
		if _, err := source.ParseJSON("f", 1, []byte(in)); err != nil {
			t.Errorf("%.40s: %v", in, err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// withoutPlaces drops the places, so that trees can be compared.
func withoutPlaces(n *source.Node) *source.Node {
	out := &source.Node{Kind: n.Kind, Text: n.Text}
	for _, it := range n.Items {
		out.Items = append(out.Items, withoutPlaces(it))
	}
	for _, f := range n.Fields {
		out.Fields = append(out.Fields, source.Field{Name: f.Name, Value: withoutPlaces(f.Value)})
	}
	return out
}

// checkTree fails unless n re-encodes to JSON that reads back as n, without a
// duplicate name.
func checkTree(t *testing.T, n *source.Node) {
	t.Helper()
	encoded := n.JSON()
	again, err := source.ParseJSON("f", 1, encoded)
	if err != nil {
		t.Fatalf("re-encoded as %q, which is refused: %v", encoded, err)
	}
	if diff := cmp.Diff(withoutPlaces(n), withoutPlaces(again)); diff != "" {
		t.Fatal(diff)
	}
	viaAny, err := json.Marshal(n.Any())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(canonical(t, viaAny), canonical(t, encoded)) {
		t.Fatalf("Any is %s, JSON is %s", viaAny, encoded)
	}
	checkNames(t, n)
}

func checkNames(t *testing.T, n *source.Node) {
	seen := map[string]bool{}
	for _, f := range n.Fields {
		if seen[f.Name] {
			t.Fatalf("duplicate name %q survived", f.Name)
		}
		seen[f.Name] = true
		checkNames(t, f.Value)
	}
	for _, it := range n.Items {
		checkNames(t, it)
	}
}

func canonical(t *testing.T, b []byte) []byte {
	t.Helper()
	v := jsontext.Value(b).Clone()
	if err := v.Canonicalize(); err != nil {
		t.Fatalf("canonicalising %s: %v", b, err)
	}
	return v
}

func FuzzParseJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x",null,true]}`, `{"a":1,"a":2}`, `"\ud83d\ude00"`, `[[[]]]`, "\"\u2028\"", `0e9`, `1 2`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := source.ParseJSON("f", 1, data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00\x1b") {
				t.Fatalf("message %q could steer a terminal", err)
			}
			return
		}
		if !bytes.Equal(canonical(t, data), canonical(t, n.JSON())) {
			t.Fatalf("read %q as %s", data, n.JSON())
		}
		checkTree(t, n)
	})
}

// Any tree that can be built reads back from its own JSON.
func TestNodeRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := node(3).Draw(rt, "node")
		again, err := source.ParseJSON("f", 1, n.JSON())
		if err != nil {
			rt.Fatalf("%s: %v", n.JSON(), err)
		}
		if diff := cmp.Diff(withoutPlaces(n), withoutPlaces(again)); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func node(depth int) *rapid.Generator[*source.Node] {
	return rapid.Custom(func(t *rapid.T) *source.Node {
		kind := rapid.SampledFrom([]source.Kind{source.Null, source.Bool, source.Number, source.String, source.List, source.Map}).Draw(t, "kind")
		if depth == 0 && kind >= source.List {
			kind = source.String
		}
		n := &source.Node{Kind: kind}
		switch kind {
		case source.Bool:
			n.Text = rapid.SampledFrom([]string{"true", "false"}).Draw(t, "bool")
		case source.Number:
			n.Text = rapid.SampledFrom([]string{"0", "-1", "1.5", "2e10", "12345678901234567890"}).Draw(t, "number")
		case source.String:
			n.Text = rapid.String().Draw(t, "string")
		case source.List:
			n.Items = rapid.SliceOfN(node(depth-1), 0, 3).Draw(t, "items")
			if len(n.Items) == 0 {
				n.Items = nil
			}
		case source.Map:
			for _, name := range rapid.SliceOfNDistinct(rapid.String(), 0, 3, rapid.ID).Draw(t, "names") {
				n.Fields = append(n.Fields, source.Field{Name: name, Value: node(depth-1).Draw(t, "value")})
			}
		}
		return n
	})
}
