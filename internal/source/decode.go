package source

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
)

// Decode reads a value into a variable whose fields are all that there may be. An error
// has the place of what is wrong.
func (n *Node) Decode(into any) error {
	err := json.Unmarshal(n.JSON(), into, json.RejectUnknownMembers(true))
	var odd *json.SemanticError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &odd):
		return Problemf(n.Pos, "%v", err)
	}
	why, at := odd.Err, n
	if tokens := slices.Collect(odd.JSONPointer.Tokens()); len(tokens) > 0 {
		if found := n.At(tokens); found != nil {
			at = found
		}
	}
	if why == nil {
		why = fmt.Errorf("want a value of type %s", odd.GoType)
	}
	return Problemf(at.Pos, "%s: %v", odd.JSONPointer, why)
}
