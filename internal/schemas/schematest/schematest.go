// Package schematest compares published schemas with what decoders take, and
// validates documents against them.
package schematest

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"securebench/internal/family"
	"securebench/internal/schemas"
	"securebench/internal/source"
)

// Read returns a schema as a tree. reg is needed only for that of rows.
func Read(t testing.TB, name string, reg family.Registry) *source.Node {
	t.Helper()
	text, err := schemas.Text(name, reg)
	if err != nil {
		t.Fatal(err)
	}
	n, err := source.ParseJSON("internal/schemas/"+name+".json", 1, text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Compile returns a schema that can validate documents.
func Compile(t testing.TB, name string, reg family.Registry) *jsonschema.Schema {
	t.Helper()
	text, err := schemas.Text(name, reg)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(alone{})
	if err := c.AddResource("urn:test:"+name, doc); err != nil {
		t.Fatal(err)
	}
	out, err := c.Compile("urn:test:" + name)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// alone loads nothing: a published schema is complete in itself.
type alone struct{}

func (alone) Load(address string) (any, error) {
	return nil, errors.New("the schema refers to " + address)
}

// Keys fails unless the schema's object at this place has exactly these keys. The
// decoder is where they come from.
func Keys(t testing.TB, name string, object *source.Node, place, decoder string, keys []string) {
	t.Helper()
	var have []string
	if p := object.Get("properties"); p != nil {
		for _, f := range p.Fields {
			have = append(have, f.Name)
		}
	}
	for _, k := range keys {
		if !slices.Contains(have, k) {
			t.Errorf("%s takes %q: add it to %s.properties in internal/schemas/%s.json, with a description, then run \"make schema\"", decoder, k, place, name)
		}
	}
	for _, k := range have {
		if !slices.Contains(keys, k) {
			t.Errorf("%s does not take %q: remove it from %s.properties in internal/schemas/%s.json, then run \"make schema\"", decoder, k, place, name)
		}
	}
}

// Agrees fails unless the schema describes what the decoder fills: the same keys at
// every level, and of those the same ones required.
func Agrees(t testing.TB, name string, typ reflect.Type) {
	t.Helper()
	compare(t, name, Read(t, name, nil), "(root)", typ)
}

func compare(t testing.TB, name string, schema *source.Node, place string, typ reflect.Type) {
	t.Helper()
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch typ.Kind() {
	case reflect.Slice:
		if items := schema.Get("items"); items != nil {
			compare(t, name, items, place+".items", typ.Elem())
		}
	case reflect.Struct:
		fields := fieldsOf(typ)
		if fields == nil {
			return // it encodes itself
		}
		var keys, required []string
		for _, f := range fields {
			keys = append(keys, f.key)
			if !f.optional {
				required = append(required, f.key)
			}
		}
		Keys(t, name, schema, place, typ.String(), keys)
		compareRequired(t, name, schema, place, typ, required)
		for _, f := range fields {
			if p := schema.Get("properties").Get(f.key); p != nil {
				compare(t, name, p, place+".properties."+f.key, f.typ)
			}
		}
	}
}

func compareRequired(t testing.TB, name string, schema *source.Node, place string, typ reflect.Type, want []string) {
	t.Helper()
	var have []string
	if r := schema.Get("required"); r != nil {
		for _, it := range r.Items {
			have = append(have, it.Text)
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("%s.required in internal/schemas/%s.json is %v, but %s always writes %v", place, name, have, typ, want)
	}
}

type field struct {
	key      string
	optional bool
	typ      reflect.Type
}

// fieldsOf lists the encoded fields of a struct.
func fieldsOf(typ reflect.Type) (out []field) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		tag, ok := f.Tag.Lookup("json")
		key, options, _ := strings.Cut(tag, ",")
		if !ok || key == "" || key == "-" {
			continue
		}
		out = append(out, field{key, strings.Contains(options, "omitzero") || strings.Contains(options, "omitempty"), f.Type})
	}
	return out
}

// Refuses fails unless the schema accepts a document, and refuses it with an unknown
// key, without a required one, and with a value of another type, wherever it says
// so. It returns how many documents were refused.
func Refuses(t testing.TB, name string, reg family.Registry, doc any) (refused int) {
	t.Helper()
	compiled := Compile(t, name, reg)
	if err := compiled.Validate(doc); err != nil {
		t.Errorf("the schema of %s refuses what it describes: %v", name, err)
		return 0
	}
	each(Read(t, name, reg), doc, "(root)", func(what string) {
		if compiled.Validate(doc) == nil {
			t.Errorf("the schema of %s accepts %s", name, what)
		}
		refused++
	})
	return refused
}

// each calls try while doc, below the schema, has one mistake after the other.
func each(schema *source.Node, doc any, place string, try func(what string)) {
	switch doc := doc.(type) {
	case []any:
		if items := schema.Get("items"); items != nil && len(doc) > 0 {
			each(items, doc[0], place+"[0]", try)
		}
	case map[string]any:
		if closed := schema.Get("additionalProperties"); closed != nil && closed.Text == "false" {
			doc["zzqqzz"] = true
			try("an unknown key at " + place)
			delete(doc, "zzqqzz")
		}
		for _, it := range itemsOf(schema.Get("required")) {
			old := doc[it.Text]
			delete(doc, it.Text)
			try("a document without " + place + "." + it.Text)
			doc[it.Text] = old
		}
		if schema.Get("properties") == nil {
			return
		}
		for _, f := range schema.Get("properties").Fields {
			old, ok := doc[f.Name]
			if !ok {
				continue
			}
			if f.Value.Get("type") != nil || f.Value.Get("enum") != nil || f.Value.Get("const") != nil {
				doc[f.Name] = []any{[]any{}, []any{}}
				if f.Value.Get("type") == nil || f.Value.Get("items") == nil || f.Value.Get("items").Get("type") != nil {
					try("a list of lists as " + place + "." + f.Name)
				}
				doc[f.Name] = old
			}
			each(f.Value, old, place+"."+f.Name, try)
		}
	}
}

func itemsOf(n *source.Node) []*source.Node {
	if n == nil {
		return nil
	}
	return n.Items
}
