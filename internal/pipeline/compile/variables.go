package compile

import (
	"fmt"
	"slices"
	"strings"

	"securebench/internal/source"
)

// The bounds of environment.env. A process can start only if its variables
// and arguments are small enough for the kernel.
const (
	maxVariables     = 256
	maxVariableName  = 128
	maxVariableBytes = 64 << 10 // of all names and values
)

// ownPrefix begins the names of the variables that securebench itself sets.
const ownPrefix = "SECUREBENCH_"

// variables reads the variables that the row sets for its commands and for the
// agent. They are public.
func variables(n *source.Node, ps *source.Problems) (env []string) {
	if n.Kind != source.Map {
		ps.Add(n.Pos, "write names and strings, such as {\"TZ\": \"UTC\"}", "environment.env must be an object, not %s", n.Kind)
		return nil
	}
	if len(n.Fields) > maxVariables {
		ps.Add(n.Pos, "", "environment.env has %d variables, more than %d", len(n.Fields), maxVariables)
		return nil
	}
	size := 0
	for _, f := range n.Fields {
		if fault := variableFault(f.Name); fault != "" {
			ps.Add(f.Pos, "rename or remove it", "environment.env has a variable %q whose name %s", f.Name, fault)
			continue
		}
		what := "environment.env." + f.Name
		switch {
		case f.Value.Kind != source.String:
			ps.Add(f.Value.Pos, "write it as a string", "%s must be a string, not %s", what, f.Value.Kind)
		case strings.ContainsRune(f.Value.Text, 0):
			ps.Add(f.Value.Pos, "", "%s contains a NUL character", what)
		case ps.Note(f.Value.OddText(what)):
		default:
			size += len(f.Name) + len(f.Value.Text)
			env = append(env, f.Name+"="+f.Value.Text)
		}
	}
	if size > maxVariableBytes {
		ps.Add(n.Pos, "", "environment.env has %d bytes in names and values, more than %d", size, maxVariableBytes)
	}
	slices.Sort(env)
	return env
}

// variableFault says why a variable cannot have a name, or "".
func variableFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxVariableName:
		return fmt.Sprintf("is longer than %d bytes", maxVariableName)
	case strings.ContainsFunc(name, func(r rune) bool { return r == '=' || r <= ' ' || r > '~' }):
		return "has a character other than visible ASCII without ="
	case strings.HasPrefix(name, ownPrefix):
		return "begins with " + ownPrefix + ", which is for securebench's own variables"
	}
	return ""
}
