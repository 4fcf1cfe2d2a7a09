package source_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/source"
)

func TestParseYAML(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"types", "a: 1\nb: 1.0\nc: true\nd: ~\ne: text\nf: '1'\n", `{"a":1,"b":1.0,"c":true,"d":null,"e":"text","f":"1"}`},
		{"large float", "a: 1e6\nb: 1.5e300", `{"a":1e+06,"b":1.5e+300}`},
		{"negative zero", "a: -0.0", `{"a":-0.0}`},
		{"dates are strings", "a: 2020-01-02", `{"a":"2020-01-02"}`},
		{"old booleans are strings", "a: yes\nb: on\nc: no", `{"a":"yes","b":"on","c":"no"}`},
		{"flow", "{a: [1, {b: x}], c: {}}", `{"a":[1,{"b":"x"}],"c":{}}`},
		{"aliases", "a: &x [1]\nb: *x\n", `{"a":[1],"b":[1]}`},
		{"document mark", "---\na: 1\n...\n", `{"a":1}`},
		{"comment", "# c\na: 1 # d\n", `{"a":1}`},
		{"case differs", "a: 1\nA: 2\n", `{"a":1,"A":2}`},
		{"block", "a: |\n  x\n  y\n", `{"a":"x\ny\n"}`},
		{"scalar", "just text", `"just text"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, err := source.ParseYAML("f", []byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(n.JSON())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseYAMLPlaces(t *testing.T) {
	n, err := source.ParseYAML("f", []byte("a:\n  b:\n    - 1\n    - é: x\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := n.At([]string{"a", "b", "1", "é"}).Pos.String(), "f:4:10"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := n.Get("a").Fields[0].Pos.String(), "f:2:3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParseYAMLErrors(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"empty", "", "f: the file is empty"},
		{"only a comment", "# x\n", "f: the file is empty"},
		{"second document", "a: 1\n---\nb: 2\n", "f:2:1: the file has a second document (remove it, and the line --- before it)"},
		{"duplicate", "a: 1\nb: 2\na: 3\n", `f:3:1: duplicate key "a"`},
		{"duplicate by quotes", "a: 1\n\"a\": 3\n", `f:2:1: duplicate key "a"`},
		{"nested duplicate", "x:\n  - {a: 1, a: 2}\n", `f:2:12: duplicate key "a"`},
		{"merge key", "a: &x {b: 1}\nc:\n  <<: *x\n", "f:3:3: merge keys (<<) are not read (repeat the keys here, or name a whole value with an alias)"},
		{"number as key", "1: x\n", "f:1:1: keys must be plain strings"},
		{"list as key", "? [a]\n: x\n", "f:1:3: keys must be plain strings"},
		{"alias as key", "a: &x b\n*x : c\n", "f:2:1: keys must be plain strings"},
		{"infinite", "a: .inf\n", `f:1:4: the number ".inf" is not finite`},
		{"not a number", "a: .nan\n", `f:1:4: the number ".nan" is not finite`},
		{"huge integer", "a: 99999999999999999999\n", `f:1:4: the integer "99999999999999999999" is too large`},
		{"foreign tag", "a: !!binary aGk=\n", "f:1:4: unsupported YAML tag !!binary"},
		{"own tag", "a: !thing x\n", "f:1:4: unsupported YAML tag !thing"},
		{"invalid UTF-8", "a: \xff\n", "f:1:4: the file has a byte that is not UTF-8 (save the file as UTF-8)"},
		{"too deep", strings.Repeat("[", 65) + "x" + strings.Repeat("]", 65), "f:1:66: nesting is deeper than 64"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, err := source.ParseYAML("f", []byte(tt.in))
			if n != nil {
				t.Error("a node came with the error")
			}
			if diff := cmp.Diff(tt.want, errorText(err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Errors of the parser itself name a line; their text is the library's.
func TestParseYAMLSyntax(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"tab", "a:\n\tb: 1\n", "f:2"},
		{"unclosed", "a: [1\n", "f:"},
		{"unknown alias", "a: *x\n", "f"},
		{"very deep", strings.Repeat("[", 100_000), "f"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := source.ParseYAML("f", []byte(tt.in))
			var p *source.Problem
			if !errors.As(err, &p) || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want a problem at %s", err, tt.want)
			}
		})
	}
}

// K03: an alias bomb is bounded by the tree that it would make. Its honest
// twin, the same aliases a few times, is fine.
func TestAliasBomb(t *testing.T) {
	bomb := func(levels int) string {
		var b strings.Builder
		b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
		for i := 1; i <= levels; i++ {
			fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
		}
		return b.String()
	}
	_, err := source.ParseYAML("f", []byte(bomb(9)))
	if err == nil || !strings.Contains(err.Error(), "more than 20000 values, aliases resolved") {
		t.Errorf("the bomb gave %v", err)
	}
	if _, err := source.ParseYAML("f", []byte(bomb(2))); err != nil {
		t.Errorf("the twin gave %v", err)
	}
	texts := func(aliases int) []byte {
		return []byte("a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a, ", aliases) + "]\n")
	}
	if _, err := source.ParseYAML("f", texts(15)); err == nil || !strings.Contains(err.Error(), ": the document has more than 16777216 bytes, aliases resolved") {
		t.Errorf("a bomb of texts gave %v", err)
	}
	if _, err := source.ParseYAML("f", texts(14)); err != nil {
		t.Errorf("its twin gave %v", err)
	}
	keys := "a: &a {" + strings.Repeat("k", 1<<20) + ": 1}\nb: [" + strings.Repeat("*a, ", 15) + "]\n"
	if _, err := source.ParseYAML("f", []byte(keys)); err == nil || !strings.Contains(err.Error(), "bytes, aliases resolved") {
		t.Errorf("a bomb of keys gave %v", err)
	}
	if _, err := source.ParseYAML("f", []byte("a: &a [*a]\n")); err == nil {
		t.Error("an alias to itself was accepted")
	}
}

func FuzzParseYAML(f *testing.F) {
	for _, s := range []string{"a: 1\nb: [x, 1.5]\n", "a: &x {b: ~}\nc: *x\n", "a: 1\na: 2\n", "\"\\ud800\": \"\\xff\"", "? a\n: b", "a: 0o17\nb: 1_000\nc: .5\n", "--- !!str 1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := source.ParseYAML("f", data)
		if err == nil {
			checkTree(t, n)
		}
	})
}
