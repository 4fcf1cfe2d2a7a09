package terminal

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/importer/packdir"
	"securebench/internal/pathname"
	"securebench/internal/workspace"
)

// The row of a task, as docs/families/terminal-task.md describes it.
type (
	row struct {
		ID          string         `json:"id"`
		Input       input          `json:"input"`
		Eval        eval           `json:"eval"`
		Environment environment    `json:"environment"`
		Metadata    map[string]any `json:"metadata"`
	}
	input struct {
		Instructions string `json:"instructions"`
	}
	eval struct {
		Checker  rowChecker  `json:"checker"`
		Capture  *rowCapture `json:"capture,omitzero"`
		Start    *rowStart   `json:"start,omitzero"`
		Solution *rowPath    `json:"solution,omitzero"`
	}
	rowChecker struct {
		Source  string  `json:"source"`
		Path    string  `json:"path"`
		Timeout float64 `json:"timeout_seconds,omitzero"`
		Image   string  `json:"image,omitzero"`
		Reward  string  `json:"reward_file,omitzero"`
		Writes  bool    `json:"writable_files,omitzero"`
		Modules bool    `json:"candidate_modules,omitzero"`
	}
	rowCapture struct {
		Roots      []string `json:"roots,omitzero"`
		Filesystem bool     `json:"filesystem,omitzero"`
		Exclude    []string `json:"exclude,omitzero"`
	}
	rowStart struct {
		Command []string       `json:"command"`
		Ready   jsontext.Value `json:"ready"`
		Timeout float64        `json:"timeout_seconds"`
	}
	rowPath struct {
		Path string `json:"path"`
	}
	environment struct {
		Image        string            `json:"image"`
		Workdir      string            `json:"workdir"`
		Materialize  bool              `json:"materialize_workdir_from_image"`
		User         string            `json:"user,omitzero"`
		Timeout      float64           `json:"timeout_seconds,omitzero"`
		Env          map[string]string `json:"env,omitempty"`
		Capabilities []string          `json:"capabilities,omitzero"`
	}
)

// evalRoot is the pack's folder of evaluation files.
const evalRoot = "eval"

// Where a verification has the evaluation files, and captured paths that cannot
// be at their own place in an image of the checker's own.
const (
	evaluatorDir = workspace.EvaluatorDir
	candidateDir = "/opt/securebench/candidate"
)

// baseName begins the names of images that tasks share.
const baseName = "base-"

// writer writes a pack.
type writer struct {
	out    *packdir.Set
	id     string
	bases  map[string]string // names of shared recipes, by their text
	taken  map[string]bool   // names of images
	images int
}

// ref is the name that "pack build" gives to an image of version 1 of the pack.
func (w *writer) ref(name string) string { return "localhost/" + w.id + "/" + name + ":1" }

// task writes what belongs to a task, and its row.
func (w *writer) task(t *task) error {
	own, err := t.checkerRecipe()
	if err != nil {
		return err
	}
	for _, name := range []string{t.name, t.name + "-tests"} {
		if w.taken[name] || strings.HasPrefix(name, baseName) {
			return leave("its image would have the name %s, which another one has", name)
		}
	}
	w.taken[t.name], w.taken[t.name+"-tests"] = true, true
	image := t.image
	if t.recipe != nil {
		if image, err = w.recipe(t.name, *t.recipe); err != nil {
			return err
		}
	}
	c := rowChecker{Source: "pytest", Path: path.Join(t.name, "tests", t.checker.pytest), Timeout: t.testSeconds,
		Writes: t.checker.writes, Modules: t.checker.modules}
	if t.checker.script != "" {
		c.Source, c.Path, c.Reward = "script", path.Join(t.name, "tests", t.checker.script), t.checker.reward
	}
	if own != "" {
		base := t.checker.own
		if base == "" {
			base = image
		}
		if c.Image, err = w.recipe(t.name+"-tests", recipe{dockerfile: "FROM " + base + "\n" + own}); err != nil {
			return err
		}
	}
	r := row{ID: t.name, Input: input{t.instruction}, Metadata: t.metadata, Eval: eval{Checker: c, Capture: t.capture()},
		Environment: environment{image, t.workdir, true, t.user, t.agentSeconds, t.env, t.capabilities}}
	if t.start != nil {
		r.Eval.Start = &rowStart{[]string{"sh", t.start.File}, t.start.Ready, t.start.Seconds}
		r.Metadata["adapted"] = true
	}
	if len(t.solution) > 0 {
		r.Eval.Solution = &rowPath{t.name + "/solution"}
	}
	for dir, files := range map[string]folder{"tests": t.tests, "solution": t.solution} {
		if err := w.files(path.Join(evalRoot, t.name, dir), files); err != nil {
			return err
		}
	}
	return w.out.Line("tasks.jsonl", r)
}

// capture says what the candidate is made of.
func (t *task) capture() *rowCapture {
	switch {
	case t.filesystem:
		return &rowCapture{Filesystem: true}
	case t.separate:
		return &rowCapture{Roots: t.roots, Exclude: t.exclude}
	case len(t.roots) > 0:
		return &rowCapture{Roots: append([]string{t.workdir}, t.roots...)}
	}
	return nil
}

// checkerRecipe returns what the image of the checker needs beyond that of the
// task, "" if the task's own will do.
func (t *task) checkerRecipe() (string, error) {
	var b strings.Builder
	if t.checker.pytest != "" && !t.checker.bare {
		b.WriteString(pytestLine)
	}
	if len(t.checker.apt) > 0 {
		b.WriteString(aptLine(t.checker.apt...))
	}
	if len(t.checker.pip) > 0 {
		fmt.Fprintf(&b, "RUN PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install -q --no-cache-dir '%s'\n", strings.Join(t.checker.pip, "' '"))
	}
	if t.checker.pathed {
		fmt.Fprintf(&b, "RUN ln -s %s/%s/tests %s\n", evaluatorDir, t.name, testsDir)
	}
	for _, root := range t.roots {
		switch {
		case !workspace.SystemPath(root):
		case !pathname.Within(root, "/etc") || strings.ContainsAny(root, " '\"$\\"):
			return "", leave("its tests look at %s, which is where the image has its programs", root)
		default:
			// A verification has this path elsewhere, so that no setting of
			// the agent's can take effect on the checker merely by its place.
			fmt.Fprintf(&b, "RUN mkdir -p %[1]s%[3]s \\\n && if [ -e %[2]s ]; then mv %[2]s %[1]s%[2]s; fi \\\n && ln -s %[1]s%[2]s %[2]s\n",
				candidateDir, root, path.Dir(root))
		}
	}
	if t.checker.own != "" && b.Len() == 0 {
		b.WriteString("RUN true\n")
	}
	if t.filesystem && b.Len() > 0 {
		return "", leave("its tests need an image of their own, which cannot go with filesystem: name roots")
	}
	return b.String(), nil
}

// pytestLine installs pytest for the Python that runs the tests: from the index
// of its packages, or Debian's.
const pytestLine = `RUN python3 -m pytest --version >/dev/null 2>&1 \
 || PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install -q --no-cache-dir pytest \
 || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3 python3-pytest \
  && rm -rf /var/lib/apt/lists/*; } \
 && python3 -m pytest --version
`

// recipe writes what makes an image, and returns the image's name.
func (w *writer) recipe(name string, r recipe) (string, error) {
	text := r.dockerfile
	if r.base != "" {
		base, ok := w.bases[r.base]
		if !ok {
			base = fmt.Sprintf("%s%d", baseName, len(w.bases)+1)
			w.bases[r.base] = base
			if _, err := w.recipe(base, recipe{dockerfile: r.base}); err != nil {
				return "", err
			}
		}
		text = "FROM " + w.ref(base) + "\n" + text
	}
	w.images++
	dir := path.Join("images", name)
	if err := w.out.Put(path.Join(dir, "Dockerfile"), text); err != nil {
		return "", err
	}
	return w.ref(name), w.files(dir, r.context)
}

// files writes files below a folder.
func (w *writer) files(dir string, files folder) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.out.PutFile(path.Join(dir, name), files[name].data, files[name].program); err != nil {
			return err
		}
	}
	return nil
}

// finish writes what lies beside the rows, and keeps the whole.
func (w *writer) finish(o Options, sum Result) error {
	about := fmt.Sprintf("%s\n## This copy\n\n- Rows: %d\n", o.About, sum.Rows)
	if len(sum.LeftOut) > 0 {
		about += "\n## Left out\n\n- " + strings.Join(sum.LeftOut, "\n- ") + "\n"
	}
	for name, text := range map[string]string{"manifest.yaml": o.Manifest, "ATTRIBUTION.md": about + "\n## What was changed\n\n" + conversion, "LICENSE": o.Licence} {
		if err := w.out.Write(name, []byte(text)); err != nil {
			return err
		}
	}
	return w.out.Commit()
}

// conversion says what an import changes, Markdown.
const conversion = `- The script that installs a test runner and starts pytest is not used: the tests are the checker, in an image that has pytest.
- What lies outside of the working folder is captured where the tests and the instruction, or the solution, both name it.
- Tests that import modules of the working folder have a ` + "`conftest.py`" + ` that adds it to Python's search path, in last place.
- Of a solution that was typed into a terminal the commands are a script.
- Rows whose metadata has ` + "`adapted`" + ` say in their instruction what is started for the check; the solution writes that file as well.
`
