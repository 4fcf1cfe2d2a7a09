// Package task defines a compiled benchmark task, and the views of it that the
// components of a run may see.
//
// A task's values lie in three lanes. Code on the agent's side takes an
// [AgentView], which cannot reach the other lanes; only the parent process
// ever holds a whole [Task], and a Task refuses to be marshalled or logged.
package task

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/digest"
	"securebench/internal/pathname"
)

// Lane says who may see a value.
type Lane uint8

// The lanes, most restricted first: a value without a lane is hidden.
const (
	Hidden           Lane = iota // evaluator only
	EvaluationInputs             // test sandbox
	Public                       // everyone, including the agent
)

// String returns the lane's name in packs and records.
func (l Lane) String() string {
	switch l {
	case Public:
		return "public"
	case EvaluationInputs:
		return "evaluation_inputs"
	}
	return "hidden"
}

// A Resource is one named value of a task.
type Resource struct {
	Name  string
	Lane  Lane
	Value jsontext.Value // JSON as the row wrote it
}

// Kind is "text" for a string and "json" for everything else.
func (r Resource) Kind() string {
	if r.Value.Kind() == '"' {
		return "text"
	}
	return "json"
}

// Text returns the value of a string resource.
func (r Resource) Text() (string, bool) {
	if r.Value.Kind() != '"' {
		return "", false
	}
	var s string
	if err := json.Unmarshal(r.Value, &s); err != nil {
		return "", false
	}
	return s, true
}

// AssetList is the name of the resource that lists a row's public files.
const AssetList = "assets"

// An Asset is a public file or directory that is placed in the workspace.
type Asset struct {
	Path     string `json:"path"`  // slash-separated, relative to the pack's public asset root
	Mount    string `json:"mount"` // slash-separated, relative to the workspace
	ReadOnly bool   `json:"read_only,omitzero"`
}

// CandidateKind is the type of value that a family's agent produces.
type CandidateKind string

// The candidate kinds.
const (
	Text      CandidateKind = "text"
	Code      CandidateKind = "code"
	Patch     CandidateKind = "patch"
	Workspace CandidateKind = "workspace"
)

// ExtractionMode is the source from which a candidate is taken.
type ExtractionMode string

// The extraction modes.
const (
	FromStdout    ExtractionMode = "stdout"
	FromFile      ExtractionMode = "file"
	FromGitDiff   ExtractionMode = "git_diff"
	FromWorkspace ExtractionMode = "workspace"
)

// Extraction describes how a candidate is taken from an agent's output or
// workspace.
type Extraction struct {
	Mode ExtractionMode `json:"mode"`
	Kind CandidateKind  `json:"kind"`
	// Path of the file in FromFile mode, or of the folder in FromWorkspace
	// mode, relative to the workspace. "" is the whole workspace.
	Path string `json:"path,omitzero"`
	// OrStdout takes standard output if the file is missing or is an unchanged
	// public asset; in FromWorkspace mode, in the place of the only one of Files.
	OrStdout bool `json:"or_stdout,omitzero"`
	// Files are the files that make up a tree in FromWorkspace mode, relative to the
	// workspace: each has to be there, and nothing else is taken. Nil is no such list.
	Files []string `json:"files,omitzero"`
}

// Environment is the part of a row's environment that securebench uses.
type Environment struct {
	Image              string // reference as written; resolved once per run
	Workdir            string
	User               string        // "" is the image's user
	Timeout            time.Duration // 0 if the row sets none
	MaterializeWorkdir bool
	// WritableRoot lets the agent write outside of its workspace.
	WritableRoot bool
	// Platform is the one that the image must be for, such as linux/arm64; "" asks for
	// none.
	Platform string
	// Capabilities are the privileges of root that the row asks for, by name
	// (CHOWN, SETUID, …), sorted.
	Capabilities []string
	// Env are variables, NAME=VALUE, sorted, for the row's commands and the
	// agent.
	Env []string
	// Checkout is the repository in the image that the agent changes; the zero
	// value is none.
	Checkout Checkout
	// OldLayout has securebench's own files in the workspace, because the row names
	// them there.
	OldLayout bool
}

// Captured says which files of the agent's sandbox a candidate tree is made of.
// The zero value is the workspace. Paths are absolute and clean.
type Captured struct {
	Roots []string `json:"roots,omitzero"` // files or folders; the workspace only if it is among them
	// Filesystem takes all that a system task may change; see the documentation
	// of the family for what that leaves out.
	Filesystem bool     `json:"filesystem,omitzero"`
	Exclude    []string `json:"exclude,omitzero"` // files or folders
}

// Root reports whether the files also lie outside of the workspace at dir.
func (c Captured) Root(dir string) bool {
	return c.Filesystem || slices.ContainsFunc(c.Roots, func(r string) bool { return !pathname.Within(r, dir) })
}

// Checkout names a repository in an image.
type Checkout struct {
	Dir    string `json:"dir"`    // absolute
	Commit string `json:"commit"` // that the row's pack says is checked out
}

// Pack names the pack that a task belongs to.
type Pack struct {
	ID      string
	Version int64
}

// Config holds the parts of a task for [New].
type Config struct {
	ID          string
	Family      string
	Pack        Pack
	Index       int // 0-based position among the pack's rows
	Line        int // line in tasks.jsonl
	Resources   []Resource
	Assets      []Asset
	Environment Environment
	Extraction  Extraction
	Captured    Captured
	// Adapted is set if the row differs from what its data set has.
	Adapted bool
	// Instruction is the family's description, for an agent, of what to
	// submit.
	Instruction string
	// Row is the row's line without its newline, for digests.
	Row []byte
}

// Task is one compiled row. It is immutable.
type Task struct {
	c     Config
	terms *terms // of its agents
	blind bool
}

// New checks the rules common to all families and returns the task.
func New(c Config) (Task, error) {
	if c.ID == "" || c.Family == "" || c.Pack.ID == "" {
		return Task{}, errors.New("a task needs an id, a family and a pack id")
	}
	seen := make(map[string]bool, len(c.Resources))
	for _, r := range c.Resources {
		if seen[r.Name] {
			return Task{}, fmt.Errorf("duplicate compiled resource name: %s", r.Name)
		}
		seen[r.Name] = true
	}
	return Task{c: c, terms: &terms{env: c.Environment, assets: c.Assets, extraction: c.Extraction, instruction: c.Instruction}}, nil
}

// Blind returns the task with an agent's view without its files.
func (t Task) Blind() Task {
	t.blind = true
	return t
}

// ID returns the row's id.
func (t Task) ID() string { return t.c.ID }

// Family returns the family's name.
func (t Task) Family() string { return t.c.Family }

// Pack returns the pack's id and version.
func (t Task) Pack() Pack { return t.c.Pack }

// Index returns the task's 0-based position among the pack's rows.
func (t Task) Index() int { return t.c.Index }

// Line returns the row's line number.
func (t Task) Line() int { return t.c.Line }

// Row returns the bytes of the row's line. They contain values of every lane.
func (t Task) Row() []byte { return t.c.Row }

// Environment returns the row's environment.
func (t Task) Environment() Environment { return t.c.Environment }

// Extraction returns the family's default way to take the candidate.
func (t Task) Extraction() Extraction { return t.c.Extraction }

// Captured returns which files make up the candidate, if it is a tree.
func (t Task) Captured() Captured { return t.c.Captured }

// Adapted reports whether the row says that it differs from what its data set
// has.
func (t Task) Adapted() bool { return t.c.Adapted }

// MarshalJSON always fails: a whole task contains hidden values.
func (t Task) MarshalJSON() ([]byte, error) {
	return nil, errors.New("task: a whole task may not be marshalled; marshal a view")
}

// LogValue logs only the id.
func (t Task) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", t.c.ID), slog.String("family", t.c.Family))
}

// String returns only the id, so that printing a task leaks nothing.
func (t Task) String() string { return "task " + t.c.ID }

// GoString is String, because %#v must not print the lanes either.
func (t Task) GoString() string { return t.String() }

// Agent returns what the agent may see: the public lane.
func (t Task) Agent() AgentView {
	v := AgentView{view: t.view(Public), terms: t.terms}
	if t.blind {
		v.terms = v.but(func(c *terms) { c.assets = nil })
		v.resources = slices.DeleteFunc(v.resources, func(r Resource) bool { return r.Name == AssetList })
	}
	return v
}

// TestSandbox returns what a test sandbox may see: public values and
// evaluation inputs.
func (t Task) TestSandbox() SandboxView {
	return SandboxView{t.view(Public, EvaluationInputs), t.c.Environment, t.c.Assets}
}

// Evaluator returns what the evaluator in the parent may see: public and
// hidden values, but not evaluation inputs.
func (t Task) Evaluator() EvaluatorView {
	return EvaluatorView{t.view(Public, Hidden)}
}

// Result returns what may be published: every name, public values only.
func (t Task) Result() ResultView {
	return ResultView{t.view(Public, EvaluationInputs, Hidden)}
}

func (t Task) view(lanes ...Lane) view {
	v := view{id: t.c.ID, family: t.c.Family}
	for _, r := range t.c.Resources {
		for _, l := range lanes {
			if r.Lane == l {
				v.resources = append(v.resources, r)
			}
		}
	}
	return v
}

// view is the part that all views share: the resources of some lanes, in row
// order.
type view struct {
	id, family string
	resources  []Resource
}

// ID returns the task's id.
func (v view) ID() string { return v.id }

// Family returns the task's family.
func (v view) Family() string { return v.family }

// get returns a resource of the view.
func (v view) get(name string) (Resource, bool) {
	for _, r := range v.resources {
		if r.Name == name {
			return r, true
		}
	}
	return Resource{}, false
}

func (v view) payload() []Resource { return append([]Resource(nil), v.resources...) }

// AgentView is the public lane of a task and what a harness needs to run it.
type AgentView struct {
	view
	terms *terms // nil in the zero value
	mark  string
}

// terms are what a harness needs beside the values. All attempts at a row share them,
// of which many may be queued.
type terms struct {
	env         Environment
	assets      []Asset
	extraction  Extraction
	instruction string
}

// agreed returns the terms.
func (v AgentView) agreed() terms {
	if v.terms == nil {
		return terms{}
	}
	return *v.terms
}

// but returns the terms with a change.
func (v AgentView) but(change func(*terms)) *terms {
	c := v.agreed()
	change(&c)
	return &c
}

// Presented returns the view with other values for public resources that it has, and
// with a mark.
func (v AgentView) Presented(values map[string]jsontext.Value, mark string) AgentView {
	v.resources, v.mark = v.payload(), mark
	for i, r := range v.resources {
		if value, ok := values[r.Name]; ok {
			v.resources[i].Value = value
		}
	}
	return v
}

// Within returns the view with a limit on the agent's time.
func (v AgentView) Within(limit time.Duration) AgentView {
	v.terms = v.but(func(c *terms) { c.env.Timeout = limit })
	return v
}

// Mark is a random text that no value of the task has, "" if there is none. Whoever puts
// the values into one text parts them by it, so that no value can end itself.
func (v AgentView) Mark() string { return v.mark }

// Get returns a public resource.
func (v AgentView) Get(name string) (Resource, bool) { return v.get(name) }

// Payload returns the public resources in row order.
func (v AgentView) Payload() []Resource { return v.payload() }

// Environment returns the row's environment.
func (v AgentView) Environment() Environment { return v.agreed().env }

// Assets returns the public assets.
func (v AgentView) Assets() []Asset { return v.agreed().assets }

// Extraction returns the family's default way to take the candidate.
func (v AgentView) Extraction() Extraction { return v.agreed().extraction }

// Instruction returns the description of what to submit.
func (v AgentView) Instruction() string { return v.agreed().instruction }

// SandboxView is the public and evaluation lanes of a task.
type SandboxView struct {
	view
	env    Environment
	assets []Asset
}

// Get returns a public resource or an evaluation input.
func (v SandboxView) Get(name string) (Resource, bool) { return v.get(name) }

// Payload returns the view's resources in row order.
func (v SandboxView) Payload() []Resource { return v.payload() }

// Environment returns the row's environment.
func (v SandboxView) Environment() Environment { return v.env }

// Assets returns the public assets.
func (v SandboxView) Assets() []Asset { return v.assets }

// EvaluatorView is the public and hidden lanes of a task.
type EvaluatorView struct{ view }

// Get returns a public or hidden resource.
func (v EvaluatorView) Get(name string) (Resource, bool) { return v.get(name) }

// Payload returns the view's resources in row order.
func (v EvaluatorView) Payload() []Resource { return v.payload() }

// Redacted replaces a value that may not be published.
const Redacted = "<redacted>"

// ResultView is the part of a task that may be published.
type ResultView struct{ view }

// Payload returns all resources in row order; the value of one that is not
// public is the string [Redacted].
func (v ResultView) Payload() []Resource {
	out := v.payload()
	for i := range out {
		if out[i].Lane != Public {
			out[i].Value = jsontext.Value(`"` + Redacted + `"`)
		}
	}
	return out
}

// ResourceSummary is one entry of a record's resource_summary.
type ResourceSummary struct {
	// Bytes and Digest replace a public value that is too long to repeat.
	Bytes      int64          `json:"bytes,omitzero"`
	Digest     string         `json:"digest,omitzero"`
	Kind       string         `json:"kind"`
	Name       string         `json:"name"`
	Redacted   bool           `json:"redacted,omitzero"`
	Value      jsontext.Value `json:"value,omitzero"`
	Visibility string         `json:"visibility"`
}

// summaryLimit bounds the values in one summary, in bytes.
const summaryLimit = 256 << 10

// Summary lists the resources in row order; only public ones have a value, up
// to a total size.
func (v ResultView) Summary() []ResourceSummary {
	out := make([]ResourceSummary, 0, len(v.resources))
	room := summaryLimit
	for _, r := range v.resources {
		s := ResourceSummary{Name: r.Name, Visibility: r.Lane.String(), Kind: r.Kind()}
		switch {
		case r.Lane != Public:
			s.Redacted = true
		case len(r.Value) > room:
			s.Bytes, s.Digest = int64(len(r.Value)), digest.Bytes(r.Value)
		default:
			s.Value = r.Value
			room -= len(r.Value)
		}
		out = append(out, s)
	}
	return out
}
