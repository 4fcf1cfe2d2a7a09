package calls

import (
	"slices"
	"strings"
)

// jsonCalls reads calls in JSON. Nothing means that the text is no JSON value at all.
func jsonCalls(text string) ([]Call, State) {
	if !looksLike(text) {
		return nil, Nothing
	}
	v, err := ParseJSON([]byte(text))
	if err != nil {
		return nil, Nothing
	}
	items := v.Items
	if inner, ok := v.Get("tool_calls"); ok && inner.Kind == List && len(v.Members) == 1 {
		items = inner.Items
	} else if v.Kind == Dict {
		items = []Value{v}
	}
	if len(items) > MaxCalls {
		return nil, Broken
	}
	list := make([]Call, 0, len(items))
	for _, item := range items {
		c, ok := jsonCall(item)
		if !ok {
			return nil, Broken
		}
		list = append(list, c)
	}
	return list, Stated
}

// jsonLines reads several calls in JSON, an object on each line that is not blank.
func jsonLines(text string) (list []Call, _ bool) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		one, state := jsonCalls(line)
		if state != Stated || line[0] != '{' || len(list)+len(one) > MaxCalls {
			return nil, false
		}
		list = append(list, one...)
	}
	return list, len(list) > 0
}

// beside are the members that a call of a provider has beside its name and arguments.
func beside() []string { return []string{"id", "call_id", "type", "index", "status"} }

// jsonCall reads one call: {"name": …, "arguments": …} or "parameters" in their place, as
// some models are taught, the same below "function", or
// {NAME: arguments}.
func jsonCall(v Value) (Call, bool) {
	if inner, ok := v.Get("function"); ok && only(v, "function") {
		if c, ok := named(inner); ok {
			return c, true
		}
	}
	if c, ok := named(v); ok {
		return c, true
	}
	if len(v.Members) != 1 {
		return Call{}, false
	}
	args, ok := arguments(v.Members[0].Value)
	return Call{Name: v.Members[0].Name, Arguments: args}, ok
}

// named reads {"name": …, "arguments": …}, or {"name": …, "parameters": …}.
func named(v Value) (Call, bool) {
	name, hasName := v.Get("name")
	key := "arguments"
	value, hasArgs := v.Get(key)
	if !hasArgs {
		key = "parameters"
		value, hasArgs = v.Get(key)
	}
	if !hasName || !hasArgs || name.Kind != String || !only(v, "name", key) {
		return Call{}, false
	}
	args, ok := arguments(value)
	return Call{Name: name.Text, Arguments: args}, ok
}

// only reports whether an object has no members but those, and those beside them.
func only(v Value, names ...string) bool {
	return !slices.ContainsFunc(v.Members, func(m Member) bool {
		return !slices.Contains(names, m.Name) && !slices.Contains(beside(), m.Name)
	})
}

// arguments reads an object, or the JSON text of one.
func arguments(v Value) (Value, bool) {
	if v.Kind == String {
		parsed, err := ParseJSON([]byte(v.Text))
		if err != nil {
			return Value{}, false
		}
		v = parsed
	}
	return v, v.Kind == Dict
}
