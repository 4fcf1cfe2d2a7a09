package compile

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"securebench/internal/family"
	"securebench/internal/source"
)

// rowSchemas are the schemas of one family; nil accepts anything.
type rowSchemas struct{ input, eval *schema }

// schema is a compiled JSON Schema and its text. The title of each part
// completes the sentence "must be …" and gives the message of every violation.
// A part with "x-unknown": "warn" only warns about names that it does not
// list.
type schema struct {
	compiled *jsonschema.Schema
	text     *source.Node
}

// refuseLoader stops schemas from referring to other documents.
type refuseLoader struct{}

// Load returns an error for every address.
func (refuseLoader) Load(address string) (any, error) {
	return nil, fmt.Errorf("a row schema may not refer to %s", address)
}

// mustSchema compiles a family's schema; an empty text accepts anything.
func mustSchema(name string, text []byte) *schema {
	if text == nil {
		return nil
	}
	s, err := newSchema(name, text)
	if err != nil {
		panic(fmt.Sprintf("compile: the schema %s: %v", name, err))
	}
	return s
}

func newSchema(name string, text []byte) (*schema, error) {
	root, err := source.ParseJSON(name, 1, text)
	if err != nil {
		return nil, err
	}
	address := "row:///" + name
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(refuseLoader{})
	if err := c.AddResource(address, root.Any()); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(address)
	if err != nil {
		return nil, err
	}
	return &schema{compiled: compiled, text: root}, nil
}

// schema validates one section of the row.
func (k *checker) schema(s *schema, n *source.Node, section string) {
	if s == nil {
		return
	}
	err := s.compiled.Validate(n.Any())
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
	case errors.As(err, &invalid):
		t := &translator{checker: k, schema: s, node: n, section: section}
		t.walk(invalid)
	default:
		k.errs.Add(n.Pos, "", "%s.%s cannot be validated: %v", k.context, section, err)
	}
}

// translator turns the violations of one section into problems.
type translator struct {
	*checker
	schema  *schema
	node    *source.Node
	section string
}

// walk reports the violations below e.
func (t *translator) walk(e *jsonschema.ValidationError) {
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		t.alternatives(e)
	case *kind.Required:
		for _, name := range k.Missing {
			t.add(&t.errs, t.node.At(e.InstanceLocation).Pos, "", "%s.%s is required", t.what(e.InstanceLocation), name)
		}
	case *kind.AdditionalProperties:
		t.unknown(e, k.Properties)
	default:
		for _, cause := range e.Causes {
			t.walk(cause)
		}
		if len(e.Causes) == 0 {
			t.mismatch(e)
		}
	}
}

// alternatives reports the alternative that the value came closest to: the one
// whose violation is deepest. If all fail at the value itself, the title above
// the alternatives names them all.
func (t *translator) alternatives(e *jsonschema.ValidationError) {
	best, deepest := (*jsonschema.ValidationError)(nil), len(e.InstanceLocation)
	for _, cause := range e.Causes {
		if d := depth(cause); d > deepest {
			best, deepest = cause, d
		}
	}
	if best == nil {
		t.mismatch(e)
		return
	}
	t.walk(best)
}

// depth returns the depth of the deepest violation below e.
func depth(e *jsonschema.ValidationError) int {
	d := len(e.InstanceLocation)
	for _, cause := range e.Causes {
		d = max(d, depth(cause))
	}
	return d
}

// mismatch reports a value that is not what its schema's title says.
func (t *translator) mismatch(e *jsonschema.ValidationError) {
	title := t.part(e).Get("title")
	want := "another value"
	if title != nil {
		want = title.Text
	}
	n, fix := t.node.At(e.InstanceLocation), ""
	if t.part(e).Get(family.FileMark) != nil && n.Get("path") != nil {
		fix = `or the path of a file by itself: {"path": …}`
	}
	t.add(&t.errs, n.Pos, fix, "%s must be %s", t.what(e.InstanceLocation), want)
}

// unknown reports fields that the schema does not list.
func (t *translator) unknown(e *jsonschema.ValidationError, names []string) {
	part, object := t.part(e), t.node.At(e.InstanceLocation)
	var known []string
	for _, f := range part.Get("properties").Fields {
		known = append(known, f.Name)
	}
	lenient := part.Get("x-unknown") != nil
	for _, f := range object.Fields {
		if !slices.Contains(names, f.Name) {
			continue
		}
		near := source.Nearest(f.Name, known)
		fix := "known: " + strings.Join(known, ", ")
		if near != "" {
			fix = fmt.Sprintf("did you mean %q?", near)
		}
		if lenient && near == "" {
			t.add(&t.warnings, f.Pos, fix, "%s has unknown field %q, which is ignored", t.what(e.InstanceLocation), f.Name)
			continue
		}
		t.add(&t.errs, f.Pos, fix, "%s has unknown field %q", t.what(e.InstanceLocation), f.Name)
	}
}

// part returns the part of the schema's text that e violates.
func (t *translator) part(e *jsonschema.ValidationError) *source.Node {
	_, fragment, _ := strings.Cut(e.SchemaURL, "#")
	pointer, err := url.PathUnescape(fragment)
	if err != nil {
		return t.schema.text
	}
	return t.schema.text.At(slices.Collect(jsontext.Pointer(pointer).Tokens()))
}

// what names a position in the row, for the start of a message.
func (t *translator) what(location []string) string {
	return t.context + t.path(append([]string{t.section}, location...))
}

// add adds a problem once: a value can violate a schema in several ways that
// share one title.
func (t *translator) add(to *source.Problems, pos source.Pos, fix, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if !slices.ContainsFunc(*to, func(p *source.Problem) bool { return p.Pos == pos && p.Message == message }) {
		to.Add(pos, fix, "%s", message)
	}
}

func quote(s string) string { return string((&source.Node{Kind: source.String, Text: s}).JSON()) }
