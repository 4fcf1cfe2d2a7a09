package source

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"securebench/internal/lazyregexp"
)

// The bounds of a document after aliases are resolved.
const (
	maxYAMLNodes = 20_000
	maxYAMLBytes = 16 << 20 // of keys and scalars
)

// ParseYAML reads exactly one YAML document. Errors are [*Problem], joined if
// there are several. Aliases are resolved; merge keys ("<<") and keys that are
// not strings are refused.
func ParseYAML(file string, data []byte) (*Node, error) {
	if p := checkText(file, 1, data); p != nil {
		return nil, p
	}
	root, err := document(file, data)
	if err != nil {
		return nil, err
	}
	y := &yamlReader{file: file}
	return y.node(root, 0)
}

// document parses the only document of data and returns its value.
func document(file string, data []byte) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, yamlError(file, data, err)
	}
	var first, second yaml.Node
	switch err := loader.Load(&first); {
	case errors.Is(err, io.EOF):
		return nil, Problemf(Pos{File: file}, "the file is empty")
	case err != nil:
		return nil, yamlError(file, data, err)
	}
	switch err := loader.Load(&second); {
	case err == nil:
		return nil, &Problem{Pos: Pos{File: file, Line: second.Line, Col: second.Column}, Message: "the file has a second document", Fix: "remove it, and the line --- before it"}
	case !errors.Is(err, io.EOF):
		return nil, yamlError(file, data, err)
	}
	if first.Kind != yaml.DocumentNode || len(first.Content) != 1 {
		return nil, Problemf(Pos{File: file}, "the file holds no value")
	}
	return first.Content[0], nil
}

func yamlError(file string, data []byte, err error) error {
	var many *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &many) && len(many.Errors) > 0:
		var ps Problems
		for _, e := range many.Errors {
			ps = append(ps, yamlProblem(file, data, e))
		}
		return ps.Err()
	case errors.As(err, &one):
		return yamlProblem(file, data, one)
	}
	return Problemf(Pos{File: file}, "invalid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
}

func yamlProblem(file string, data []byte, e *yaml.LoadError) *Problem {
	p := Problemf(Pos{File: file, Line: e.Mark.Line, Col: e.Mark.Column}, "invalid YAML: %s", e.Message)
	open := e.ContextMark.Line > 0 && strings.Contains(e.Message, "end of stream")
	if open { // what is not closed is where it begins
		p.Pos.Line, p.Pos.Col = e.ContextMark.Line, e.ContextMark.Column
	}
	p.Fix = yamlFix(e.Message, lineOf(data, e.Mark.Line))
	return p
}

// yamlFix says what is usually meant by an error on a line.
func yamlFix(message, line string) string {
	switch {
	case strings.Contains(message, "end of stream"):
		return "close the quote, bracket or brace that is open here"
	case strings.HasPrefix(strings.TrimLeft(line, " "), "\t"):
		return "indent with spaces, not with tabs"
	case strings.Contains(message, "cannot start any token"), strings.Contains(message, "mapping values are not allowed"):
		return "put the value in quotes"
	case strings.Contains(message, "did not find expected"), strings.Contains(message, "could not find expected"):
		return "indent the keys of an object alike, write a blank after each colon, and close what is open"
	}
	return ""
}

// lineOf returns a line, from 1.
func lineOf(data []byte, n int) string {
	lines := bytes.Split(data, []byte("\n"))
	if n < 1 || n > len(lines) {
		return ""
	}
	return string(lines[n-1])
}

type yamlReader struct {
	file  string
	nodes int
	bytes int // of keys and scalars
}

func (y *yamlReader) pos(in *yaml.Node) Pos {
	return Pos{File: y.file, Line: in.Line, Col: in.Column}
}

func (y *yamlReader) node(in *yaml.Node, depth int) (*Node, error) {
	n := &Node{Pos: y.pos(in)}
	y.nodes++
	switch {
	case y.nodes > maxYAMLNodes:
		return nil, Problemf(n.Pos, "the document has more than %d values, aliases resolved", maxYAMLNodes)
	case !y.counts(in):
		return nil, Problemf(n.Pos, "the document has more than %d bytes, aliases resolved", maxYAMLBytes)
	case depth > maxDepth:
		return nil, Problemf(n.Pos, "nesting is deeper than %d", maxDepth)
	}
	var err error
	switch in.Kind {
	case yaml.AliasNode:
		return y.node(in.Alias, depth+1)
	case yaml.ScalarNode:
		err = y.scalar(n, in)
	case yaml.SequenceNode:
		n.Kind = List
		err = y.items(n, in, depth)
	case yaml.MappingNode:
		n.Kind = Map
		err = y.fields(n, in, depth)
	default:
		err = Problemf(n.Pos, "unsupported YAML value")
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

// counts adds the bytes of a key or a scalar, and reports whether there is room for them.
func (y *yamlReader) counts(in *yaml.Node) bool {
	y.bytes += len(in.Value)
	return y.bytes <= maxYAMLBytes
}

func (y *yamlReader) items(n *Node, in *yaml.Node, depth int) error {
	for _, c := range in.Content {
		item, err := y.node(c, depth+1)
		if err != nil {
			return err
		}
		n.Items = append(n.Items, item)
	}
	return nil
}

func (y *yamlReader) fields(n *Node, in *yaml.Node, depth int) error {
	seen := make(map[string]bool, len(in.Content)/2)
	for i := 0; i+1 < len(in.Content); i += 2 {
		k := in.Content[i]
		at := y.pos(k)
		switch {
		case k.Kind != yaml.ScalarNode || k.ShortTag() != "!!str" || !utf8.ValidString(k.Value):
			if k.Value == "<<" {
				return &Problem{Pos: at, Message: "merge keys (<<) are not read", Fix: "repeat the keys here, or name a whole value with an alias"}
			}
			return Problemf(at, "keys must be plain strings")
		case seen[k.Value]:
			return Problemf(at, "duplicate key %q", k.Value)
		case !y.counts(k):
			return Problemf(at, "the document has more than %d bytes, aliases resolved", maxYAMLBytes)
		}
		seen[k.Value] = true
		v, err := y.node(in.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		n.Fields = append(n.Fields, Field{Name: k.Value, Pos: at, Value: v})
	}
	return nil
}

// The plain scalars about which YAML readers disagree. YAML 1.1 has base-60
// numbers, and yes and no as booleans.
var (
	plainNumber = lazyregexp.New(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	oddDigits   = lazyregexp.New(`^[-+]?0[0-9xXoObB_]|_|:`)
	zeroed      = lazyregexp.New(`^([-+]?)0+([0-9]+)$|^-0$`)
	oddText     = lazyregexp.New(`^([yY]es|YES|[nN]o|NO|[oO]n|ON|[oO]ff|OFF|` +
		`[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+)$`)
)

// scalar sets the value of n and how it was written.
func (y *yamlReader) scalar(n *Node, in *yaml.Node) error {
	if err := y.value(n, in); err != nil {
		return err
	}
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle | yaml.TaggedStyle
	if in.Style&quoted != 0 {
		return nil
	}
	switch n.Kind {
	case Number:
		n.Odd = !plainNumber.MatchString(in.Value)
	case String:
		n.Odd = in.ShortTag() == "!!timestamp" || oddText.MatchString(in.Value)
	}
	if n.Odd || n.Kind != String {
		n.Plain = in.Value
	}
	return nil
}

// value reads a scalar. Only the types of JSON exist; a date is a string.
func (y *yamlReader) value(n *Node, in *yaml.Node) error {
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
		return y.float(n, in)
	case "!!str", "!!timestamp":
		if !utf8.ValidString(in.Value) {
			return Problemf(n.Pos, "the string is not valid UTF-8")
		}
		n.Kind, n.Text = String, in.Value
	default:
		return Problemf(n.Pos, "unsupported YAML tag %s", in.ShortTag())
	}
	return nil
}

func (y *yamlReader) float(n *Node, in *yaml.Node) error {
	if zeroed.MatchString(in.Value) { // 08 and the like, which are not octal
		n.Kind, n.Text = Number, zeroed.ReplaceAllString(in.Value, "$1$2")
		n.Text = cmp.Or(strings.TrimPrefix(n.Text, "+"), "0")
		return nil
	}
	if !strings.ContainsAny(strings.ToLower(in.Value), ".en") {
		return Problemf(n.Pos, "the integer %q is too large", in.Value)
	}
	var f float64
	if err := in.Decode(&f); err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return Problemf(n.Pos, "the number %q is not finite", in.Value)
	}
	n.Kind, n.Text = Number, strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(n.Text, ".e") {
		n.Text += ".0" // a float stays one: version 1.0 is not the integer 1
	}
	return nil
}
