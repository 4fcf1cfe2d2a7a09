package compile

import (
	"securebench/internal/family"
	"securebench/internal/pipeline/pack"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// oldLayout reports whether a row whose candidate is the workspace names securebench's
// own files there: in a command, or in what the agent is told.
func oldLayout(row pack.Row, f family.Family) bool {
	if f.Extraction.Kind != task.Workspace {
		return false
	}
	found := false
	each(row.Input, func(_ string, n *source.Node) { found = found || workspace.NamesOwn(n.Text) })
	each(row.Eval, func(key string, n *source.Node) { found = found || key == "command" && workspace.NamesOwn(n.Text) })
	return found
}

// each calls do for the strings of a value, with the last key that leads to each.
func each(n *source.Node, do func(key string, n *source.Node)) { eachBelow("", n, do) }

func eachBelow(key string, n *source.Node, do func(key string, n *source.Node)) {
	if n == nil {
		return
	}
	if n.Kind == source.String {
		do(key, n)
	}
	for _, item := range n.Items {
		eachBelow(key, item, do)
	}
	for _, f := range n.Fields {
		eachBelow(f.Name, f.Value, do)
	}
}
