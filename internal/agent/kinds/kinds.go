// Package kinds provides the kinds of agents: the built-in ones, whose candidates
// exist already, and those that a harness section configures. To add a kind, add
// a line here.
package kinds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"securebench/internal/agent"
	"securebench/internal/agent/answers"
	"securebench/internal/agent/harness"
	"securebench/internal/agent/setup"
	"securebench/internal/config"
	"securebench/internal/source"
)

// A kind is what a value of harness.type means.
type kind struct {
	boxed bool // its agents run in sandboxes
	// parse reads the harness section, and reports everything that is wrong.
	parse func(config.Harness) (setup.Opener, source.Problems)
}

// types are the values of harness.type.
func types() map[string]kind {
	return map[string]kind{
		harness.AgentType: {true, of(harness.ParseAgent, openProgram)},
		"claude_code":     {true, of(harness.ParseAgent, openProgram)},
		"codex":           {true, of(harness.ParseAgent, openProgram)},
		"command":         {true, of(harness.ParseCommand, Command)},
		harness.ModelType: {false, of(harness.ParseModel, openModel)},
	}
}

// of reads the section of a kind whose agents a harness plans.
func of(parse harness.Parse, open func(harness.Harness) setup.Opener) func(config.Harness) (setup.Opener, source.Problems) {
	return func(c config.Harness) (setup.Opener, source.Problems) {
		h, ps := parse(c)
		if len(ps) > 0 {
			return nil, ps
		}
		return open(h), nil
	}
}

// Configured reads a harness section.
func Configured(c config.Harness) (setup.Opener, source.Problems) {
	k, known := types()[c.Type]
	if !known {
		return nil, source.Problems{source.Problemf(c.TypePos, "harness.type must be one of: %s",
			strings.Join(slices.Sorted(maps.Keys(types())), ", "))}
	}
	return k.parse(c)
}

// BuiltIn reads the name of a built-in agent and, for replay, its file, whose columns
// a map can name.
func BuiltIn(flag, columns string) (setup.Opener, error) {
	m, err := answers.ParseMap(columns)
	if err != nil {
		return nil, fmt.Errorf("--replay-map: %w", err)
	}
	name, file, _ := strings.Cut(flag, ":")
	switch {
	case m.Given() && name != agent.ReplayName:
		return nil, errors.New("--replay-map is for --agent replay:FILE")
	case name == agent.ReplayName && file == "":
		return nil, errors.New("--agent replay needs a file: --agent replay:FILE")
	case name == agent.ReplayName:
		return openReplay(file, m), nil
	case name != agent.OracleName && name != agent.NullName:
		return nil, fmt.Errorf("--agent is %q, want oracle, null or replay:FILE", flag)
	case name != flag:
		return nil, fmt.Errorf("--agent %s takes no file", name)
	case name == agent.NullName:
		return openNull, nil
	}
	return openOracle, nil
}

// Sandboxed reports whether the candidates of an agent with the name are what it left
// in its sandbox, as those of a kind that this build does not know are taken to be.
func Sandboxed(name string) bool {
	k, known := types()[name]
	return k.boxed || !known && !slices.Contains([]string{agent.OracleName, agent.NullName, agent.ReplayName}, name)
}
