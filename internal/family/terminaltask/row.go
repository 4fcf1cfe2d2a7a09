package terminaltask

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
	"securebench/internal/workspace"
)

// checkerSpec is a row's checker. The family's schema has checked its shape.
type checkerSpec struct {
	Command jsontext.Value `json:"command"`
	Workdir string         `json:"workdir"`
	Source  string         `json:"source"`
	Path    string         `json:"path"`
	Timeout jsontext.Value `json:"timeout_seconds"` // see [timeLimit]
	Image   string         `json:"image"`
	Reward  string         `json:"reward_file"`
	Modules bool           `json:"candidate_modules"`
	Write   bool           `json:"writable_files"`
}

// captureSpec says what the candidate is made of.
type captureSpec struct {
	Roots      []string `json:"roots"`
	Filesystem bool     `json:"filesystem"`
	Exclude    []string `json:"exclude"`
}

// startSpec is what runs beside the checker.
type startSpec struct {
	Command jsontext.Value `json:"command"`
	Ready   struct {
		Port    int            `json:"port"`
		URL     string         `json:"url"`
		Command jsontext.Value `json:"command"`
	} `json:"ready"`
	Timeout float64 `json:"timeout_seconds"`
	Shared  bool    `json:"shared_workspace"`
}

// solutionSpec is the row's own solution.
type solutionSpec struct {
	Path    string         `json:"path"`
	Command jsontext.Value `json:"command"`
}

// The forms of a checker.
const (
	formCommand = "command"
	formPytest  = "pytest"
	formScript  = "script"
)

// readyLimit is how long a service may take to be ready if the row does not say.
const readyLimit = 30 * time.Second

// row is what a verification needs of a task. Paths are absolute and clean.
type row struct {
	workdir      string
	fromImage    bool   // the workspace begins as the image's folder
	old          bool   // securebench's own files are in the workspace
	user         string // as the row names it; "" is the image's
	env          []string
	capabilities []sandbox.Capability
	captured     task.Captured

	form   string
	argv   []string // of a command
	dir    string   // where the checker runs
	path   string   // of the pytest files or the script, below the pack's evaluation root
	image  string   // of the checker; "" is the row's
	reward string   // "" is none
	// modules lets what the checker starts find modules and settings of the
	// candidate's.
	modules bool
	// writable lets the checker, and so what it starts, change its evaluation files.
	writable bool
	needed   []string
	start    *service // nil is none
}

// service is a program that runs beside the checker.
type service struct {
	argv    []string
	port    int
	url     string
	ready   []string // argv
	timeout time.Duration
	shared  bool // it has one workspace with the checker
}

// readRow takes a row from the lanes that a test sandbox may see. The failure
// says that the row cannot be scored.
func readRow(v task.SandboxView) (row, *family.Failure) {
	checker, _ := v.Get("checker")
	var spec checkerSpec
	if json.Unmarshal(checker.Value, &spec) != nil {
		return row{}, &family.Failure{Reason: verdict.NoVerifier, Message: "the row's checker is not of a known form"}
	}
	env := v.Environment()
	r := row{workdir: cmp.Or(clean(env.Workdir), workspace.DefaultTarget), fromImage: env.MaterializeWorkdir, old: env.OldLayout, user: env.User, env: env.Env,
		form: spec.form(), path: path.Clean(spec.Path), image: spec.Image, reward: clean(spec.Reward), modules: spec.Modules, writable: spec.Write}
	for _, name := range env.Capabilities {
		r.capabilities = append(r.capabilities, sandbox.Capability(name))
	}
	r.dir = r.workdir
	if spec.Workdir != "" {
		r.dir = path.Join(r.workdir, spec.Workdir)
		if path.IsAbs(spec.Workdir) {
			r.dir = path.Clean(spec.Workdir)
		}
	}
	var ok bool
	if r.argv, ok = family.Argv(spec.Command); !ok && r.form == formCommand {
		return row{}, &family.Failure{Reason: verdict.NoVerifier, Message: "the row's checker has no command"}
	}
	var capture, start, needed jsontext.Value
	for name, value := range map[string]*jsontext.Value{"capture": &capture, "start": &start, "needed_commands": &needed} {
		found, _ := v.Get(name)
		*value = found.Value
	}
	r.captured = captured(capture)
	if r.start, ok = serviceOf(start); !ok {
		return row{}, &family.Failure{Reason: verdict.NoVerifier, Message: "the row's start is not of a known form"}
	}
	if r.needed, ok = namesOf(needed); !ok {
		return row{}, &family.Failure{Reason: verdict.NoVerifier, Message: "the row's needed_commands are not of a known form"}
	}
	return r, nil
}

// form returns the form of a checker.
func (s checkerSpec) form() string {
	if s.Source == "" {
		return formCommand
	}
	return s.Source
}

// clean is path.Clean, but leaves a missing path as it is.
func clean(p string) string {
	if p == "" {
		return ""
	}
	return path.Clean(p)
}

// captured reads eval.capture; a missing one is the workspace.
func captured(v jsontext.Value) task.Captured {
	var spec captureSpec
	if v == nil || json.Unmarshal(v, &spec) != nil {
		return task.Captured{}
	}
	c := task.Captured{Filesystem: spec.Filesystem}
	for _, p := range spec.Roots {
		c.Roots = append(c.Roots, path.Clean(p))
	}
	for _, p := range spec.Exclude {
		c.Exclude = append(c.Exclude, path.Clean(p))
	}
	slices.Sort(c.Roots)
	c.Roots = slices.Compact(c.Roots)
	return c
}

// serviceOf reads eval.start; a missing one is no service.
func serviceOf(v jsontext.Value) (*service, bool) {
	if v == nil {
		return nil, true
	}
	var spec startSpec
	if json.Unmarshal(v, &spec) != nil {
		return nil, false
	}
	s := &service{port: spec.Ready.Port, url: spec.Ready.URL, timeout: readyLimit, shared: spec.Shared}
	if spec.Timeout > 0 {
		s.timeout = time.Duration(spec.Timeout * float64(time.Second))
	}
	var ok bool
	if s.argv, ok = family.Argv(spec.Command); !ok {
		return nil, false
	}
	s.ready, ok = family.Argv(spec.Ready.Command)
	return s, ok || s.port > 0 || s.url != ""
}

// namesOf reads eval.needed_commands: names, each once.
func namesOf(v jsontext.Value) (out []string, ok bool) {
	var names []string
	if v == nil {
		return nil, true
	}
	if json.Unmarshal(v, &names) != nil {
		return nil, false
	}
	for _, name := range names {
		if name = strings.TrimSpace(name); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, true
}

// capturedOf returns which files make up a row's candidate.
func capturedOf(r family.Row) task.Captured { return captured(r.Eval["capture"]) }

// images names the checker's own image.
func images(v task.SandboxView) []string {
	r, f := readRow(v)
	if f != nil || r.image == "" {
		return nil
	}
	return []string{r.image}
}

// footprint counts the checker and its service, and the trees that they share.
func footprint(v task.SandboxView) capacity.Footprint {
	r, f := readRow(v)
	if f != nil {
		return capacity.Footprint{}
	}
	out := capacity.Footprint{Roots: 1, Spaces: 2 + len(r.roots())} // the workspace and the evaluation files
	if r.start != nil {
		out.Roots++
		if !r.start.shared {
			out.Spaces++
		}
	}
	if r.reward != "" {
		out.Spaces++
	}
	if r.inWorkspace() {
		out.Spaces++
	}
	return out
}

// solution returns the row's own solution.
func solution(v task.EvaluatorView) (family.Solution, bool) {
	found, ok := v.Get("solution")
	var spec solutionSpec
	if !ok || json.Unmarshal(found.Value, &spec) != nil {
		return family.Solution{}, false
	}
	if argv, ok := family.Argv(spec.Command); ok {
		return family.Solution{Command: argv}, true
	}
	if spec.Path == "" {
		return family.Solution{}, false
	}
	return family.Solution{Path: spec.Path, Command: []string{"/bin/sh", "-c", solveScript, path.Base(spec.Path), programDir}}, true
}

// solveScript runs a solution: the file that the row names, or the one with a
// usual name in the folder that it names, with bash where there is one.
const solveScript = `for name in "$0" solve.sh solution.sh run.sh; do
	if [ -f "$1/$name" ]; then
		for shell in bash sh; do
			if command -v "$shell" >/dev/null 2>&1; then exec "$shell" "$1/$name"; fi
		done
	fi
done
echo "no solution in $1" >&2
exit 127`
