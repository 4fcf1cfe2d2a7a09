package workload

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/redact"
	"securebench/internal/task"
)

// View returns the function that prints the part of a task that a component
// sees: agent, test_sandbox, evaluator or result.
func View(component string) (func(task.Task) (string, error), error) {
	views := map[string]func(task.Task) []task.Resource{
		"agent":        func(t task.Task) []task.Resource { return t.Agent().Payload() },
		"test_sandbox": func(t task.Task) []task.Resource { return t.TestSandbox().Payload() },
		"evaluator":    func(t task.Task) []task.Resource { return t.Evaluator().Payload() },
		"result":       func(t task.Task) []task.Resource { return t.Result().Payload() },
	}
	view, ok := views[component]
	if !ok {
		return nil, fmt.Errorf("--as is %q, want agent, test_sandbox, evaluator or result", component)
	}
	return func(t task.Task) (string, error) { return object(view(t)) }, nil
}

// object prints name → value in row order. Control characters cannot reach the
// terminal: JSON strings escape them, and the rest is escaped here.
func object(rs []task.Resource) (string, error) {
	var b strings.Builder
	enc := jsontext.NewEncoder(&b, jsontext.WithIndent("  "), jsontext.EscapeForJS(true))
	err := enc.WriteToken(jsontext.BeginObject)
	for _, r := range rs {
		err = errors.Join(err, enc.WriteToken(jsontext.String(r.Name)), enc.WriteValue(r.Value))
	}
	if err = errors.Join(err, enc.WriteToken(jsontext.EndObject)); err != nil {
		return "", fmt.Errorf("printing the task: %w", err)
	}
	return redact.EscapeText(strings.TrimRight(b.String(), "\n")), nil
}
