package remote

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/capacity"
	"securebench/internal/config"
	"securebench/internal/sandbox"
	"securebench/internal/source"
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
	Agent    *Agent         `json:"agent,omitzero"` // of the type agent
	Env      []string       `json:"env,omitzero"`
	Required []string       `json:"required,omitzero"`
	Config   jsontext.Value `json:"config"`
	// Model is the model that its alias means, or what Config says.
	Model string `json:"model,omitzero"`
	// Release is the version of the agent's program.
	Release string `json:"release,omitzero"`
}

// Agent is an agent by its name.
type Agent struct {
	Name        string `json:"name"`
	Version     string `json:"version,omitzero"`
	Description string `json:"description"`
}

// Of returns a harness section as workers get it.
func Of(h config.Harness) *Harness {
	out := &Harness{Type: h.Type, Env: h.Env, Required: h.Required, Config: h.Config.JSON()}
	if h.Name != "" {
		out.Agent = &Agent{Name: h.Name, Description: string(h.Description)}
		if h.Version != nil {
			out.Agent.Version = h.Version.Text
		}
	}
	return out
}

// Section returns the section.
func (h *Harness) Section() (config.Harness, error) {
	section, err := source.ParseJSON("harness.config", 1, h.Config)
	out := config.Harness{Type: h.Type, Env: h.Env, Required: h.Required, Config: section}
	if a := h.Agent; a != nil {
		out.Name, out.Description = a.Name, []byte(a.Description)
		if a.Version != "" {
			out.Version = &source.Node{Kind: source.String, Text: a.Version}
		}
	}
	return out, err
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
