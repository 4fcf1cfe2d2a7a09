package mathmatch

import (
	"errors"
	"strings"
	"testing"

	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
)

// deep is a tree of n levels.
func deep(n int) string {
	return strings.Repeat(`["sin",`, n-1) + `["Pi"]` + strings.Repeat("]", n-1)
}

// TestTree: what is on the list is passed on in one spelling; what is not, is not.
func TestTree(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`["Integer","-12"]`, `["Rational","-3","4"]`, `["Float","0.33333333333333331","53"]`, `["Float","1.5e+30","53"]`, `["RealSymbol","x"]`, `["Symbol","a_{37}"]`, `["Symbol","x_1"]`, `["Pi"]`,
		`["Add",["Integer","1"],["Pow",["Symbol","x"],["Integer","2"]]]`, `["FiniteSet"]`, `["Apply","f",["Symbol","x"]]`,
		`["Matrix","1","2",["Integer","1"],["Integer","2"]]`, `["Interval",["NegativeInfinity"],["Integer","3"],["BooleanTrue"],["BooleanFalse"]]`,
		`["Integer","` + strings.Repeat("9", 400) + `"]`, deep(maxDepth),
	} {
		_, canonical, err := readTree([]byte(" " + text + "\n"))
		if err != nil || string(canonical) != text {
			t.Errorf("%.80s: %s, %v", text, canonical, err)
		}
	}
	for name, text := range map[string]string{
		"a name that is not on the list": `["Lambda",["Symbol","x"]]`, "a name that runs code": `["sympify",["Symbol","x"]]`, "an import": `["__import__","os"]`,
		"text in the place of a node": `["Add","__import__('os').system('id')"]`, "a symbol that is code": `["Symbol","__import__('os').system('id')"]`,
		"an index that is code": `["Symbol","a_{os.system}"]`, "an index that does not end": `["Symbol","a_{3"]`, "a function with an index": `["Apply","f_1",["Pi"]]`,
		"a symbol that is longer": `["Symbol","` + strings.Repeat("a", 33) + `"]`, "a function that is code": `["Apply","os.system",["Pi"]]`,
		"a number that is code": `["Integer","1+1"]`, "a number that is longer": `["Integer","` + strings.Repeat("9", 401) + `"]`, "a denominator of zero": `["Rational","1","0"]`,
		"a number of JSON": `[1]`, "an object": `{"Integer":"1"}`, "no array": `"x"`, "nothing": ``, "cut off": `["Add",["Pi"]`, "two": `["Pi"]["Pi"]`,
		"a matrix without elements": `["Matrix","3","3",["Pi"]]`, "an interval of two": `["Interval",["Pi"],["Pi"]]`, "a text behind nodes": `["Add",["Pi"],"x"]`,
		"too deep": deep(maxDepth + 1), "too many": `["Add"` + strings.Repeat(`,["Pi"]`, maxNodes) + `]`, "too large": `["Pi"]` + strings.Repeat(" ", maxTree),
		"invalid UTF-8": "[\"\xff\"]", "null": `["Add",null]`,
	} {
		if _, _, err := readTree([]byte(text)); !errors.Is(err, errTree) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzTree: no bytes of a sandbox make the reader fail otherwise than by its error, and
// what it passes on reads as the same again.
func FuzzTree(f *testing.F) {
	for _, seed := range []string{`["Pi"]`, `["Add",["Integer","1"],["Symbol","x"]]`, deep(maxDepth), `["Matrix","1","1",["Float","1.0","53"]]`, `[[]]`, `["Symbol","\u0000"]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, canonical, err := readTree(data)
		if err != nil {
			if !errors.Is(err, errTree) {
				t.Fatal(err)
			}
			return
		}
		_, again, err := readTree(canonical)
		if err != nil || string(again) != string(canonical) {
			t.Fatalf("%s reads as %s, %v", canonical, again, err)
		}
		for _, odd := range []string{"_", `\`, "'", "os."} {
			if strings.Contains(string(canonical), odd) {
				t.Fatalf("%s is passed on", canonical)
			}
		}
	})
}

// FuzzRead: no statement makes the reader of expressions fail, or grow.
func FuzzRead(f *testing.F) {
	golds := []string{"5", `\frac{3}{4}`, "x^2+1", `\{1,2\}`, "(1,2)", `[1,2)`, `\begin{pmatrix}1\\2\end{pmatrix}`, "y=2x", `x\le 3`, `\text{yes}`, `50\%`}
	for _, g := range golds {
		f.Add(g, g)
	}
	for _, s := range []string{`120\text{ million}`, `\boxed{1 2}`, "√√(", "{{{", `\\\`, `\text{`, "1 2/3", "x=1, y=2", `^\circ`, `\begin`, "\x00", "5^{\\circ"} {
		f.Add("5", s)
	}
	f.Fuzz(func(t *testing.T, gold, said string) {
		k, err := NewKey([]string{gold}, answer.Ask(said, "", vocabulary.Every))
		if err != nil {
			return
		}
		e, r := read(said, k.asked, &k.golds[0])
		if r != "" {
			return
		}
		if len(e.text) > 4*maxStated+64 {
			t.Fatalf("%d bytes of %d", len(e.text), len(said))
		}
		for _, c := range e.text {
			if e.shape != words && c >= 0x80 {
				t.Fatalf("%q reaches the sandbox", e.text)
			}
		}
	})
}
