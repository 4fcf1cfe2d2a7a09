package source

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// maxYAMLNodes bounds the tree after aliases are resolved.
const maxYAMLNodes = 20_000

// ParseYAML reads exactly one YAML document. Errors are [*Problem], joined
// where the parser finds several.
func ParseYAML(file string, data []byte) (*Node, error) {
	if !utf8.Valid(data) {
		return nil, Problemf(Pos{File: file}, "the file is not valid UTF-8")
	}
	var doc yaml.Node
	if err := yaml.Load(data, &doc); err != nil {
		return nil, yamlError(file, err)
	}
	root := &doc
	if root.Kind == yaml.DocumentNode {
		if len(root.Content) != 1 {
			return nil, Problemf(Pos{File: file}, "the file is empty")
		}
		root = root.Content[0]
	}
	if root.Kind == 0 {
		return nil, Problemf(Pos{File: file}, "the file is empty")
	}
	y := &yamlReader{file: file}
	return y.node(root, 0)
}

func yamlError(file string, err error) error {
	var le *yaml.LoadErrors
	if errors.As(err, &le) && len(le.Errors) > 0 {
		var ps Problems
		for _, e := range le.Errors {
			ps.Add(Pos{File: file, Line: e.Mark.Line, Col: e.Mark.Column}, "", "invalid YAML: %s", e.Message)
		}
		return ps.Err()
	}
	return Problemf(Pos{File: file}, "invalid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
}

type yamlReader struct {
	file  string
	nodes int
}

func (y *yamlReader) node(in *yaml.Node, depth int) (*Node, error) {
	n := &Node{Pos: Pos{File: y.file, Line: in.Line, Col: in.Column}}
	y.nodes++
	switch {
	case y.nodes > maxYAMLNodes:
		return nil, Problemf(n.Pos, "the document has more than %d values, aliases resolved", maxYAMLNodes)
	case depth > MaxDepth:
		return nil, Problemf(n.Pos, "nesting is deeper than %d", MaxDepth)
	}
	switch in.Kind {
	case yaml.AliasNode:
		return y.node(in.Alias, depth+1)
	case yaml.ScalarNode:
		return n, y.scalar(n, in)
	case yaml.SequenceNode:
		n.Kind = List
		for _, c := range in.Content {
			item, err := y.node(c, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, item)
		}
	case yaml.MappingNode:
		n.Kind = Map
		for i := 0; i+1 < len(in.Content); i += 2 {
			k := in.Content[i]
			at := Pos{File: y.file, Line: k.Line, Col: k.Column}
			if k.Kind != yaml.ScalarNode || k.Value == "<<" && k.Tag == "!!merge" {
				return nil, Problemf(at, "keys must be plain strings")
			}
			if n.Get(k.Value) != nil {
				return nil, Problemf(at, "duplicate key %q", k.Value)
			}
			v, err := y.node(in.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			n.Fields = append(n.Fields, Field{Name: k.Value, Pos: at, Value: v})
		}
	default:
		return nil, Problemf(n.Pos, "unsupported YAML value")
	}
	return n, nil
}

func (y *yamlReader) scalar(n *Node, in *yaml.Node) error {
	switch in.ShortTag() {
	case "!!null":
	case "!!bool":
		var b bool
		if err := in.Decode(&b); err != nil {
			return Problemf(n.Pos, "invalid boolean %q", in.Value)
		}
		n.Kind, n.Text = Bool, strconv.FormatBool(b)
	case "!!int":
		var i int64
		if err := in.Decode(&i); err != nil {
			return Problemf(n.Pos, "the integer %q is too large", in.Value)
		}
		n.Kind, n.Text = Number, strconv.FormatInt(i, 10)
	case "!!float":
		var f float64
		if err := in.Decode(&f); err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return Problemf(n.Pos, "the number %q is not finite", in.Value)
		}
		n.Kind, n.Text = Number, strconv.FormatFloat(f, 'g', -1, 64)
		if !strings.ContainsAny(n.Text, ".e") {
			n.Text += ".0" // a float stays one: version 1.0 is not the integer 1
		}
	case "!!str", "!!timestamp":
		n.Kind, n.Text = String, in.Value
	default:
		return Problemf(n.Pos, "unsupported YAML tag %s", in.ShortTag())
	}
	return nil
}
