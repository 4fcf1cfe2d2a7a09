package terminal

import (
	"fmt"
	"path"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/source"
)

// change is what the operator says of a task that its folder does not.
type change struct {
	// Start makes a task of one whose tests need processes of the agent's.
	Start        *start   `json:"start"`
	Roots        []string `json:"roots"`
	Filesystem   bool     `json:"filesystem"`
	Capabilities []string `json:"capabilities"`
}

// start is a service: the agent writes File, and it is started from what the
// agent left. Script is what the task's own solution writes there.
type start struct {
	File    string         `json:"file"`
	Script  string         `json:"script"`
	Ready   jsontext.Value `json:"ready"`
	Seconds float64        `json:"timeout_seconds"`
}

// maxChanges bounds the file of changes in bytes.
const maxChanges = 1 << 20

// startSeconds is how long a service may take to be ready by default.
const startSeconds = 30

// readChanges reads a YAML file of changes by the names of their tasks.
func readChanges(name string) (map[string]change, error) {
	if name == "" {
		return nil, nil
	}
	data, err := source.ReadFile(name, maxChanges)
	if err != nil {
		return nil, err
	}
	node, err := source.ParseYAML(name, data)
	if err != nil {
		return nil, err
	}
	if node.Kind != source.Map {
		return nil, source.Problemf(node.Pos, "the file must be an object of tasks, not %s", node.Kind)
	}
	out := map[string]change{}
	for _, f := range node.Fields {
		var c change
		if err := json.Unmarshal(f.Value.JSON(), &c, json.RejectUnknownMembers(true)); err != nil {
			return nil, source.Problemf(f.Pos, "%s: want an object with some of start {file, script, ready, timeout_seconds}, roots, filesystem and capabilities", f.Name)
		}
		if c.Start != nil && (!path.IsAbs(c.Start.File) || c.Start.Script == "" || c.Start.Ready == nil || strings.ContainsAny(c.Start.File, "'\n")) {
			return nil, source.Problemf(f.Pos, "%s: start needs an absolute file, a script for the solution and what says that the service is ready", f.Name)
		}
		out[f.Name] = c
	}
	return out, nil
}

// adapt makes a change, and checks what became of the task.
func (t *task) adapt(c change) error {
	t.capabilities = c.Capabilities
	if len(c.Roots) > 0 {
		t.roots = c.Roots
	}
	if c.Filesystem {
		t.roots, t.filesystem = nil, true
	}
	if c.Start != nil {
		t.startWith(*c.Start)
	}
	return t.check()
}

// startWith adds a service: to what the agent is told, to the row, and to the
// solution.
func (t *task) startWith(s start) {
	if s.Seconds == 0 {
		s.Seconds = startSeconds
	}
	t.start = &s
	t.instruction = fmt.Sprintf("%s\n\nEverything that still runs when you are done is stopped. Whatever has to run is then started again, "+
		"from the files that you leave, with `sh %s`: write this file as well. It may go on running, or end and leave its processes behind. "+
		"They have %v seconds until they must be ready.\n", strings.TrimRight(t.instruction, "\n"), s.File, s.Seconds)
	if _, ok := t.solution["solution.sh"]; !ok {
		return
	}
	const end = "END_OF_SERVICE"
	t.solution["solve.sh"] = file{data: []byte(fmt.Sprintf("#!/bin/bash\nbash \"$(dirname \"$0\")/solution.sh\"\nstatus=$?\nmkdir -p '%s'\ncat >'%s' <<'%s'\n%s\n%s\nexit $status\n",
		path.Dir(s.File), s.File, end, strings.TrimRight(s.Script, "\n"), end))}
}
