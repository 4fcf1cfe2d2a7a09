package scripted

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// properties are the names of the members that a JSON Schema describes.
type properties []string

// UnmarshalJSON reads a schema. One of another form has none.
func (p *properties) UnmarshalJSON(b []byte) error {
	var schema struct {
		Properties map[string]jsontext.Value `json:"properties"`
	}
	if json.Unmarshal(b, &schema) == nil {
		*p = slices.Sorted(maps.Keys(schema.Properties))
	}
	return nil
}

// role is what an argument of a tool is for, by the names that agents give it.
type role []string

// The roles of arguments.
func command() role { return role{"command", "cmd"} }
func file() role    { return role{"file_path", "filePath", "path", "absolute_path"} }
func content() role { return role{"content", "contents", "text"} }
func before() role  { return role{"old_string", "oldString", "old_str"} }
func after() role   { return role{"new_string", "newString", "new_str"} }
func patch() role   { return role{"patchText"} }

// of returns the argument of a tool that has a role, "" if none has.
func (ro role) of(t Tool) string {
	for _, name := range ro {
		if slices.Contains(t.Takes, name) {
			return name
		}
	}
	return ""
}

// given are arguments by their roles.
type given struct {
	role  role
	value string
}

// byRole calls the first tool with one of the names that has an argument for each
// value, whatever the agent calls these.
func (r *Request) byRole(names []string, values ...given) (call, bool) {
	for _, t := range r.Tools {
		if !slices.Contains(names, t.Name) {
			continue
		}
		arguments := map[string]any{}
		for _, v := range values {
			arguments[v.role.of(t)] = v.value
		}
		if _, missing := arguments[""]; missing || len(arguments) < len(values) {
			continue
		}
		for _, why := range []string{"description", "instruction"} {
			if slices.Contains(t.Takes, why) {
				arguments[why] = "Go on"
			}
		}
		return r.anyCall(Call{Name: t.Name, Namespace: t.Namespace, Arguments: arguments}), true
	}
	return call{}, false
}
