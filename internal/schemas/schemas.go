// Package schemas holds the JSON Schemas of everything that people and programs
// outside of securebench write or read: manifest, rows, tester YAML, records, run
// manifest and statement.
//
// Of rows, only what all families share is here: each family brings the schemas of
// its input and eval, against which packs are checked, and [Text] puts them together.
// What the other schemas say is compared with the decoders by tests.
package schemas

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/redact"
	"securebench/internal/source"
)

//go:embed *.json
var files embed.FS

// Row is the name of the schema of rows, which the families complete.
const Row = "row"

// Schema names a schema and what it describes.
type Schema struct{ Name, What string }

// All lists the schemas.
func All() []Schema {
	return []Schema{
		{"manifest", "manifest.yaml of a pack"},
		{Row, "a line of tasks.jsonl, for every family"},
		{"tester", "the tester YAML"},
		{"record", "a line of candidates.jsonl"},
		{"run", "run.json"},
		{"lock", "images.lock of a pack"},
		{"statement", "the statement inside statement.dsse.json"},
	}
}

// Names lists the names of the schemas.
func Names() []string {
	var out []string
	for _, s := range All() {
		out = append(out, s.Name)
	}
	return out
}

// Text returns the schema with the given name, as it is published.
func Text(name string, reg family.Registry) ([]byte, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("there is no schema %q: want one of %s", name, strings.Join(Names(), ", "))
	}
	text, err := files.ReadFile(name + ".json")
	if err != nil {
		return nil, err
	}
	root, err := source.ParseJSON(name+".json", 1, text)
	if err != nil {
		return nil, err
	}
	if name == Row {
		if err := addFamilies(root, reg); err != nil {
			return nil, err
		}
	}
	portable(root)
	return indented(root)
}

// portable writes patterns so that every reader understands them: classes of Unicode
// are not known to all. The characters of \p{Z} are listed; a name may have any
// character beyond ASCII, which the program decides on.
func portable(n *source.Node) {
	for _, f := range n.Fields {
		if f.Name == "pattern" && f.Value.Kind == source.String {
			f.Value.Text = strings.NewReplacer(
				`^[\p{L}_][\p{L}\p{M}\p{N}_]*$`, "^[^\\x00-@\\[-^`{-\\x7f][^\\x00-/:-@\\[-^`{-\\x7f]*$",
				`\p{Z}`, "\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000").Replace(f.Value.Text)
		}
		portable(f.Value)
	}
	for _, it := range n.Items {
		portable(it)
	}
}

// addFamilies adds to the schema of a row what each family says about input and eval.
func addFamilies(root *source.Node, reg family.Registry) error {
	var cases, parts []*source.Node
	for _, name := range reg.Names() {
		properties := object()
		for _, part := range []struct {
			key  string
			text []byte
		}{{"input", reg[name].InputSchema}, {"eval", reg[name].EvalSchema}} {
			if part.text == nil {
				continue
			}
			n, err := source.ParseJSON(name+"/"+part.key, 1, part.text)
			if err != nil {
				return fmt.Errorf("the %s schema of %s: %w", part.key, name, err)
			}
			at := name + "_" + part.key
			move(n, "#/$defs/"+at)
			parts = append(parts, member(at, n))
			set(properties, part.key, object(member("$ref", text("#/$defs/"+at))))
		}
		if len(properties.Fields) == 0 {
			continue
		}
		is := object(member("properties", object(member("family", object(member("const", text(name)))))),
			member("required", list(text("family"))))
		required := list()
		for _, f := range properties.Fields {
			required.Items = append(required.Items, text(f.Name))
		}
		cases = append(cases, object(member("if", is), member("then", object(member("required", required), member("properties", properties)))))
	}
	names := list()
	for _, name := range reg.Names() {
		names.Items = append(names.Items, text(name))
	}
	set(root.Get("properties").Get("family"), "enum", names)
	set(root, "allOf", list(cases...))
	defs := object(member(fileDef, fileSchema()))
	for _, p := range parts {
		defs.Fields = append(defs.Fields, p.Fields...)
	}
	set(root, "$defs", defs)
	return nil
}

// move adapts a family's schema to its place in that of rows: references begin
// there, and the marks for the checker's messages go.
func move(n *source.Node, place string) {
	orFile(n)
	n.Fields = slices.DeleteFunc(n.Fields, func(f source.Field) bool { return f.Name == "x-unknown" })
	for _, f := range n.Fields {
		if rest, own := strings.CutPrefix(f.Value.Text, "#"); f.Name == "$ref" && own && rest != "/$defs/"+fileDef {
			f.Value.Text = place + rest
		}
		move(f.Value, place)
	}
	for _, it := range n.Items {
		move(it, place)
	}
}

// fileDef is the name of what stands for a text that is in a file.
const fileDef = "text_file" // no family has a part of that name

func fileSchema() *source.Node {
	return object(member("title", text("an object with path: a file of the lane, whose text stands here")),
		member("type", text("object")), member("required", list(text("path"))), member("additionalProperties", &source.Node{Kind: source.Bool, Text: "false"}),
		member("properties", object(member("path", object(member("type", text("string")), member("pattern", text("[^\\s]")))))))
}

// orFile lets a file be named in place of a text that may be in one.
func orFile(n *source.Node) {
	if n.Get(family.FileMark) == nil {
		return
	}
	plain := &source.Node{Kind: source.Map, Fields: slices.DeleteFunc(slices.Clone(n.Fields), func(f source.Field) bool { return f.Name == family.FileMark })}
	*n = *object(member("anyOf", list(plain, object(member("$ref", text("#/$defs/"+fileDef))))))
}

func object(members ...*source.Node) *source.Node {
	out := &source.Node{Kind: source.Map}
	for _, m := range members {
		out.Fields = append(out.Fields, m.Fields...)
	}
	return out
}

// member is an object with one field.
func member(name string, value *source.Node) *source.Node {
	return &source.Node{Kind: source.Map, Fields: []source.Field{{Name: name, Value: value}}}
}

func set(n *source.Node, name string, value *source.Node) {
	n.Fields = append(n.Fields, source.Field{Name: name, Value: value})
}

func text(s string) *source.Node { return &source.Node{Kind: source.String, Text: s} }

func list(items ...*source.Node) *source.Node { return &source.Node{Kind: source.List, Items: items} }

func indented(n *source.Node) ([]byte, error) {
	v := jsontext.Value(n.JSON())
	if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
		return nil, fmt.Errorf("writing a schema: %w", err)
	}
	return append(redact.ASCII(v), '\n'), nil
}
