package remote

import (
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/capacity"
	"securebench/internal/config"
	"securebench/internal/sandbox"
)

// Order is what the jobs of a role have in common. It can be encoded.
type Order struct {
	RunID         string              `json:"run_id"`
	Limits        config.Limits       `json:"limits"`
	Verification  config.Verification `json:"verification"`
	Sandbox       config.Sandbox      `json:"sandbox"`
	ScoreTimeouts bool                `json:"score_timeouts,omitzero"`
	Retries       int                 `json:"retries"`
	// Harness configures the agent, for workers that produce.
	Harness *Harness `json:"harness,omitzero"`
	// Env are the values of the variables that the agent is given. They may be secret.
	Env map[string]string `json:"env,omitzero"`
	// Images are those that jobs name, by reference.
	Images map[string]sandbox.Image `json:"images,omitzero"`
	// Public and Eval are the pack's files, by path.
	Public map[string]File `json:"public,omitzero"`
	Eval   map[string]File `json:"eval,omitzero"`
	Loads  []Load          `json:"loads,omitzero"` // of the tasks on a machine
}

// Harness is the section of the tester YAML.
type Harness struct {
	Type     string         `json:"type"`
	Env      []string       `json:"env,omitzero"`
	Required []string       `json:"required,omitzero"`
	Config   jsontext.Value `json:"config"`
}

// File is a file of the pack.
type File struct {
	Digest     string `json:"digest"`
	Size       int64  `json:"size"`
	Executable bool   `json:"executable,omitzero"`
}

// Load is what a task needs of a machine, and the first task that does.
type Load struct {
	Load capacity.Load `json:"load"`
	Task string        `json:"task"`
}
