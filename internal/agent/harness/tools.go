package harness

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/task"
	"securebench/internal/toolschema"
)

// Tool is a tool that a model is offered, as providers take it.
type Tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"` // JSON Schema
}

// maxToolName is how long a tool's name may be for providers.
const maxToolName = 64

// toolsOf returns the tools of a task: its public value of that name, if it is a list of
// objects with name and parameters. Any other value is one like others.
func toolsOf(v task.AgentView) ([]Tool, error) {
	r, _ := v.Get("tools")
	var listed []struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  map[string]any `json:"parameters"`
	}
	if r.Value.Kind() != '[' || json.Unmarshal(r.Value, &listed) != nil {
		return nil, nil
	}
	var out []Tool
	for _, l := range listed {
		if l.Name == "" || l.Parameters == nil {
			return nil, nil
		}
		t := Tool{Name: toolschema.Name(l.Name), Description: l.Description}
		if len(t.Name) > maxToolName || slices.ContainsFunc(out, func(o Tool) bool { return o.Name == t.Name }) {
			return nil, fmt.Errorf("task %q has a tool %q, whose name a provider of models cannot take: it is longer than %d characters, or equal to another's where they have characters other than letters, digits, _ and -",
				v.ID(), l.Name, maxToolName)
		}
		schema, ok := toolschema.Standard(l.Parameters).(map[string]any)
		if !ok {
			return nil, nil
		}
		for name, value := range map[string]any{"type": "object", "properties": map[string]any{}} {
			if _, there := schema[name]; !there {
				schema[name] = value
			}
		}
		text, err := json.Marshal(schema, json.Deterministic(true))
		if err != nil {
			return nil, fmt.Errorf("task %q: the tool %q: %w", v.ID(), l.Name, err)
		}
		t.Parameters = text
		out = append(out, t)
	}
	return out, nil
}

// withTools puts a task into words whose tools are offered to the model: the instruction
// of the family, which says how to write calls, has nothing to say then.
func withTools(v task.AgentView, system string, tools []Tool) *Question {
	q := &Question{System: system, Tools: tools}
	var said []string
	for _, r := range v.Payload() {
		text, isText := r.Text()
		switch {
		case r.Name == "tools", r.Name == "assets":
		case r.Name == "policy" && isText:
			q.System = joined(q.System, text)
		case r.Name == "messages":
			of, messages := conversation(r)
			q.System = joined(q.System, of)
			said = append(said, messages)
		default:
			said = append(said, value(r))
		}
	}
	q.User = strings.Join(said, "\n\n")
	return q
}

// joined puts a text behind another.
func joined(before, text string) string {
	if before == "" || text == "" {
		return before + text
	}
	return before + "\n\n" + text
}

// conversation returns what the system's messages say, and the others: the only one of
// the user as it is, several with who says them.
func conversation(r task.Resource) (system, said string) {
	var messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	if json.Unmarshal(r.Value, &messages) != nil {
		return "", value(r)
	}
	var others []string
	alone := ""
	for _, m := range messages {
		if m.Role == "system" {
			system = joined(system, m.Content)
			continue
		}
		others = append(others, strings.ToUpper(m.Role[:min(1, len(m.Role))])+m.Role[min(1, len(m.Role)):]+": "+m.Content)
		alone = m.Content
	}
	if len(others) == 1 {
		return system, alone
	}
	return system, strings.Join(others, "\n\n")
}
