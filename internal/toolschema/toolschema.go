// Package toolschema writes the parameters of tools as JSON Schema. Packs may name the
// types as BFCL does; providers of models and validators know only the standard's.
package toolschema

// Standard returns a schema, decoded from JSON, with JSON Schema's names of types in the
// place of BFCL's. The schema stays as it is.
func Standard(schema any) any {
	object, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	out := make(map[string]any, len(object))
	for name, v := range object {
		switch name {
		case "type":
			v = standardType(v)
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			v = each(v)
		case "allOf", "anyOf", "oneOf", "prefixItems":
			v = all(v)
		case "items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames":
			v = Standard(v)
		}
		out[name] = v
	}
	return out
}

// each is Standard of every member.
func each(v any) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := make(map[string]any, len(object))
	for name, schema := range object {
		out[name] = Standard(schema)
	}
	return out
}

// all is Standard of every item.
func all(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	out := make([]any, len(list))
	for i, schema := range list {
		out[i] = Standard(schema)
	}
	return out
}

func standardType(v any) any {
	switch v {
	case "dict":
		return "object"
	case "float":
		return "number"
	case "tuple":
		return "array"
	case "any":
		return "string"
	}
	return v
}

// Name is the name of a tool as the interfaces of providers allow it: each character that
// is no letter, digit, _ or - of ASCII becomes _.
func Name(name string) string {
	out := []rune(name)
	for i, r := range out {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			out[i] = '_'
		}
	}
	return string(out)
}
