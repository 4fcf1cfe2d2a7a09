package source_test

import (
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/source"
)

// TestYAML writes a value as people do.
func TestYAML(t *testing.T) {
	const text = `{"id":"a","eval":{"code":"def f():\n    return 1\n","empty":{},"none":[],"words":["yes","010",1.5,null],"list":[{"path":"x"},["a"]],"yes":"no"}}`
	const want = `id: "a"
eval:
  code: |
    def f():
        return 1
  empty: {}
  none: []
  words: ["yes","010",1.5,null]
  list:
    -
      path: "x"
    - ["a"]
  "yes": "no"
`
	root, err := source.ParseJSON("f", 1, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(root.YAML()); got != want {
		t.Errorf("got\n%s", got)
	}
}

// TestYAMLIsReadAgain: whatever is written is read as the same value.
func TestYAMLIsReadAgain(t *testing.T) {
	texts := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z:#|> \n\t"'\-\[\]{}]{0,20}`), rapid.SampledFrom([]string{"a\nb", " a\nb\n", "a\n\n", "\n", "a \nb", "a\n b\n", "---\na", "a\n---\nb\n", "\u2028", "\u0085a", "\ufeff", "\x7f"}))
	var node func(depth int) *rapid.Generator[*source.Node]
	node = func(depth int) *rapid.Generator[*source.Node] {
		return rapid.Custom(func(t *rapid.T) *source.Node {
			switch kind := rapid.IntRange(0, 4).Draw(t, "kind"); {
			case kind == 0 && depth > 0:
				return &source.Node{Kind: source.List, Items: rapid.SliceOfN(node(depth-1), 0, 4).Draw(t, "items")}
			case kind == 1 && depth > 0:
				n := &source.Node{Kind: source.Map}
				for _, name := range rapid.SliceOfNDistinct(texts, 0, 4, func(s string) string { return s }).Draw(t, "names") {
					n.Fields = append(n.Fields, source.Field{Name: name, Value: node(depth-1).Draw(t, "value")})
				}
				return n
			case kind == 2:
				return &source.Node{Kind: source.Number, Text: rapid.SampledFrom([]string{"0", "-1", "1.5", "17"}).Draw(t, "number")}
			case kind == 3:
				return &source.Node{Kind: source.Bool, Text: "true"}
			}
			return &source.Node{Kind: source.String, Text: texts.Draw(t, "text")}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		n := node(3).Draw(t, "node")
		text := n.YAML()
		again, err := source.ParseYAML("f", text)
		if err != nil || string(again.JSON()) != string(n.JSON()) {
			t.Fatalf("%v\n%s\nbecame\n%s\nwritten as\n%s", err, n.JSON(), again.JSON(), text)
		}
	})
}
