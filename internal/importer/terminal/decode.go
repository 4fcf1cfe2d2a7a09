package terminal

import (
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/pelletier/go-toml/v2"

	"securebench/internal/source"
)

// decodeJSON reads a file strictly: what is not known could change what a task
// means, so that the task is left out.
func decodeJSON(f folder, name string, to any) error {
	node, err := source.ParseJSON(name, 1, f[name].data)
	return decode(node, err, name, to)
}

func decodeYAML(f folder, name string, to any) error {
	node, err := source.ParseYAML(name, f[name].data)
	return decode(node, err, name, to)
}

func decodeTOML(f folder, name string, to any) error {
	var whole map[string]any
	if err := toml.Unmarshal(f[name].data, &whole); err != nil {
		return leave("%s: %v", name, err)
	}
	data, err := json.Marshal(whole)
	if err != nil {
		return leave("%s: %v", name, err)
	}
	node, err := source.ParseJSON(name, 1, data)
	return decode(node, err, name, to)
}

func decode(node *source.Node, err error, name string, to any) error {
	if err != nil {
		return leave("%v", err)
	}
	err = json.Unmarshal(node.JSON(), to, json.RejectUnknownMembers(true))
	var wrong *json.SemanticError
	switch {
	case errors.As(err, &wrong) && errors.Is(err, json.ErrUnknownName):
		return leave("%s has %s, which is not known", name, wrong.JSONPointer)
	case errors.As(err, &wrong):
		return leave("%s: %s is not of the known form", name, wrong.JSONPointer)
	case err != nil:
		return leave("%s: %v", name, err)
	}
	return nil
}
