package remote

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/capacity"
	"securebench/internal/config"
	"securebench/internal/sandbox"
)

// Order is what the jobs of a role have in common. It can be encoded.
type Order struct {
	RunID string `json:"run_id"`
	// Inputs is a digest of all in it that results depend on. A run that goes on with others
	// takes no result that was made with these.
	Inputs        string              `json:"inputs,omitzero"`
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
	// Trees are what agents find in their sandboxes, such as their program.
	Trees []Tree `json:"trees,omitzero"`
}

// Harness is the section of the tester YAML.
type Harness struct {
	Type     string         `json:"type"`
	Env      []string       `json:"env,omitzero"`
	Required []string       `json:"required,omitzero"`
	Config   jsontext.Value `json:"config"`
	// Model is the model that its alias means, or what Config says.
	Model string `json:"model,omitzero"`
}

// File is a file of the pack.
type File struct {
	Digest     string `json:"digest"`
	Size       int64  `json:"size"`
	Executable bool   `json:"executable,omitzero"`
}

// Tree is a file tree that is mounted for agents, read-only.
type Tree struct {
	Key     string   `json:"key"` // of its overlay on an engine
	Title   string   `json:"title"`
	Program string   `json:"program,omitzero"` // whose it is; "" for the operator's own files
	Images  []string `json:"images,omitzero"`  // IDs of those that it is for; none is all
	Digest  string   `json:"digest"`           // of its tar archive
	Size    int64    `json:"size"`
}

// For reports whether agents in an image have the tree.
func (t Tree) For(image string) bool { return len(t.Images) == 0 || slices.Contains(t.Images, image) }

// MaxTree bounds the archive of one tree, in bytes.
const MaxTree = 4 << 30

// Load is what a task needs of a machine, and the first task that does.
type Load struct {
	Load capacity.Load `json:"load"`
	Task string        `json:"task"`
}
