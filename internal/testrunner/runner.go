// Package testrunner runs a repository's tests in a sandbox and grades their
// results by name.
//
// Tests of a repository run in one process with the code that they test, so
// containment is shared: that code can read and change all of the process. What
// is here makes it hard, not impossible, to be taken for right:
//
//   - Drivers in Python start the test runner and report on a descriptor of
//     their own. What product code prints is not read. The run must be
//     complete: a process that ends early, whatever its exit status, has failed.
//   - A driver starts without the row's PYTHONPATH and without site, and runs
//     nothing of the checkout before the trusted part is loaded: no start-up
//     module, no plugin but the image's, no package that hides another.
//   - Each line holds a fresh key, which comes on standard input. A line without
//     it, a second result or a second start is a violation. Code in the process
//     can find the key; it cannot take back what was reported.
//   - Canaries are test files with fresh names that must fail, beside the row's.
//     Half of them are as old as the files beside them, and some of their tests
//     are named like the row's. One that passes, is skipped or is missing shows
//     that the machinery lies.
//
// Only canaries stop patches of the machinery itself: pytest's runner and
// reports, unittest.TestCase.run, a plugin that is registered at run time, the
// driver's own functions. They stop only what does not tell them from the row's
// tests. So what stays possible is a patch that picks files by name, product
// code that reads the test that calls it, and product code that knows it is
// being tested; TestResidual shows all three.
//
// The runners go, junit and tap have no driver: their text is read as it is,
// product code can write it, and the verdict is labelled text_report.
package testrunner

import (
	"cmp"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/sandbox"
)

//go:embed drivers/*.py
var sources embed.FS

// driverFiles are the parts of each driver, in order.
//
//nolint:gochecknoglobals // a constant table
var driverFiles = map[string][]string{
	"pytest":   {"channel.py", "pytest.py"},
	"unittest": {"channel.py", "cases.py", "unittest.py"},
	"django":   {"channel.py", "cases.py", "django.py"},
	"sympy":    {"channel.py", "sympy.py"},
}

// source returns the source of embedded files, one after the other.
func source(files ...string) string {
	var out strings.Builder
	for _, file := range files {
		text, err := sources.ReadFile("drivers/" + file)
		if err != nil {
			panic(err) // it is embedded
		}
		out.Write(text)
		out.WriteString("\n\n")
	}
	return out.String()
}

// Tests is what a row says about its tests.
type Tests struct {
	Command    []string // argv; a string of the row is already wrapped in a shell
	Dir        string   // absolute: the checkout, where the command runs
	Runner     string   // "", pytest, unittest, django, sympy, go, junit, tap
	FailToPass []string
	PassToPass []string
	Expected   map[string]string // id → "skipped" or "xfailed": what it does with the gold patch
	TestFiles  []string          // paths that the test patch writes, relative to the tests' folder, sorted
	Env        []string          // NAME=VALUE, of the row
	// Root is the folder of tests that lie outside of Dir; "" is Dir. See [Outside].
	Root string
	// Safe keeps PYTHONSAFEPATH, if Env has it, for what tests outside start; see [Site].
	Safe bool
	// Functions are test functions of the row, beside those in FailToPass.
	Functions []string
	// Form is that of the canaries; see [Rehearse].
	Form Form
}

// Outside is a run of pytest over a file or folder of tests in a place that no
// candidate can write to. The command runs in dir, but all that pytest loads of
// its own accord is from the tests' folder root: settings, conftest.py, modules.
// Tests that need what is in dir have to name it.
func Outside(root, target, dir string) Tests {
	return Tests{Command: []string{"python3", "-m", "pytest", target}, Dir: dir, Runner: "pytest", Root: root}
}

// root is the folder of the tests.
func (t Tests) root(p program) string { return cmp.Or(t.Root, p.workdir(t.Dir)) }

// Named reports whether the tests are graded by name.
func (t Tests) Named() bool { return len(t.FailToPass)+len(t.PassToPass) > 0 }

// Command is one command in the test sandbox.
type Command struct {
	Argv []string
	Env  []string // on top of the image's own variables
	Dir  string
	// Stdin is all of the command's standard input.
	Stdin []byte
}

// Plan is one run of the tests.
type Plan struct {
	Command
	// Files are the canaries: files to lay into the checkout, or into the folder
	// of tests outside, by path, over whatever is there. Outside they must be
	// laid with the tests, in the order of all names.
	Files map[string][]byte
	// Software are the files that the verdict rests on: of Python and of pytest.
	Software []string

	tests     Tests
	driver    string // "" for text and exit codes
	key       string
	canaries  []canary
	rehearsal bool
}

// order is what a driver reads from its standard input.
type order struct {
	Key        string      `json:"key"`
	Args       []string    `json:"args"`
	Script     string      `json:"script"`
	Root       string      `json:"root"` // of tests outside, or ""
	Safe       bool        `json:"safe"`
	Late       bool        `json:"late"`
	Paths      []string    `json:"paths"` // to put in front of sys.path
	PythonPath string      `json:"pythonpath"`
	Plugins    [][4]string `json:"plugins"`
	Canaries   []canary    `json:"canaries"`
	Rehearsal  bool        `json:"rehearsal"` // run the canaries alone
}

// New plans a run. found is what the probe printed. The seed makes names and
// places of canaries unpredictable. An error is the pack's fault.
func New(t Tests, found []byte, seed [32]byte) (*Plan, error) {
	driver, p, err := t.driverOf()
	if err != nil {
		return nil, err
	}
	for id, status := range t.Expected {
		if status != "skipped" && status != "xfailed" {
			return nil, fmt.Errorf("eval.tests.expected: %q is neither skipped nor xfailed", status)
		}
		if !slices.Contains(t.PassToPass, id) && !slices.Contains(t.FailToPass, id) {
			return nil, errors.New("eval.tests.expected names a test that is in neither fail_to_pass nor pass_to_pass")
		}
	}
	plan := &Plan{Command: Command{Argv: t.Command, Env: t.Env, Dir: t.Dir}, tests: t, driver: driver}
	if driver == "" {
		plan.Argv, err = t.textCommand()
		return plan, err
	}
	image, err := parseProbe(found, driver)
	if err != nil {
		return nil, err
	}
	random := rand.NewChaCha8(seed)
	key := make([]byte, 16)
	_, _ = random.Read(key) // it cannot fail
	plan.key = hex.EncodeToString(key)
	var files map[string][]byte
	if !t.Form.None {
		d := t.draw(rand.New(random))
		d.form = t.Form
		plan.canaries, files = d.canaries(driver, t.folders(p, driver))
	}
	return plan, plan.drive(p, image, files)
}

// draw makes the names of a run's canaries.
func (t Tests) draw(r *rand.Rand) *draw {
	d := newDraw(r, slices.Concat(functionNames(t.FailToPass), t.Functions))
	for _, file := range t.TestFiles {
		d.taken = append(d.taken, path.Base(file))
	}
	return d
}

// drive makes the command that starts the driver.
func (p *Plan) drive(prog program, image probed, files map[string][]byte) error {
	dir := prog.workdir(p.tests.Dir)
	var err error
	p.Software = image.Software
	if p.Files, err = p.tests.relative(prog, files); err != nil {
		return err
	}
	o := order{Key: p.key, Args: prog.args, Script: prog.script, Root: p.tests.Root, Safe: p.tests.Safe, Late: image.Late && p.tests.Root == "",
		PythonPath: image.PythonPath, Plugins: image.Plugins, Canaries: p.canaries, Rehearsal: p.rehearsal}
	if p.driver == "pytest" {
		args, err := p.tests.pytestArgs(prog, image.Pytest)
		if err != nil {
			return err
		}
		o.Args = slices.Concat(args, prog.args)
	}
	if prog.module != "" && p.tests.Root == "" {
		o.Paths = append(o.Paths, dir)
	}
	for entry := range strings.SplitSeq(image.PythonPath, ":") {
		if entry != "" {
			o.Paths = append(o.Paths, entry)
		}
	}
	text, err := json.Marshal(o, json.Deterministic(true), json.FormatNilSliceAsNull(false))
	if err != nil {
		return err
	}
	p.Command = Command{
		Argv:  slices.Concat([]string{image.Executable}, prog.flags, []string{"-S", "-c", source(driverFiles[p.driver]...)}),
		Env:   p.environment(prog, image),
		Dir:   dir,
		Stdin: append(text, '\n'),
	}
	return nil
}

// pytestArgs are the arguments that come first: test ids relative to the tests'
// folder, if the row does not choose otherwise.
func (t Tests) pytestArgs(prog program, version string) ([]string, error) {
	own := slices.ContainsFunc(prog.args, func(a string) bool {
		return a == "-c" || strings.HasPrefix(a, "--rootdir") || strings.HasPrefix(a, "--config-file")
	})
	var major, minor int
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor) // 0 is old
	old := major < 3 || major == 3 && minor < 5
	switch {
	case t.Root != "" && old:
		return nil, fmt.Errorf("the image's pytest is %s; tests outside of the workspace need 3.5 or later", version)
	case t.Root != "":
		return []string{"--rootdir=" + t.Root, "--confcutdir=" + t.Root}, nil
	case own || old:
		return nil, nil
	}
	return []string{"--rootdir=" + prog.workdir(t.Dir)}, nil
}

// environment is the row's, less what would load files of the checkout when
// Python starts.
func (p *Plan) environment(prog program, image probed) []string {
	var out []string
	for _, v := range slices.Concat(p.tests.Env, prog.env) {
		if !strings.HasPrefix(v, "PYTHONPATH=") {
			out = append(out, v)
		}
	}
	if prog.shell != nil {
		out = append(out, "PATH="+image.Path) // which a login shell may have changed
	}
	if p.driver == "sympy" && !slices.ContainsFunc(out, func(v string) bool { return strings.HasPrefix(v, "PYTHONHASHSEED=") }) {
		out = append(out, "PYTHONHASHSEED=0") // SymPy's own runner draws one
	}
	return append(out, "PYTHONPATH=") // the image's own as well
}

// textCommand is the command of a runner whose text is read.
func (t Tests) textCommand() ([]string, error) {
	if t.Runner != "go" || slices.Contains(t.Command, "-json") {
		return t.Command, nil
	}
	if len(t.Command) >= 2 && path.Base(t.Command[0]) == "go" && t.Command[1] == "test" {
		return slices.Concat(t.Command[:2], []string{"-json"}, t.Command[2:]), nil
	}
	if len(t.Command) == 3 && isShell(t.Command[0]) && strings.Contains(t.Command[2], " -json") {
		return t.Command, nil
	}
	return nil, errors.New(`the test command does not start "go test -json"; write it as a list like ["go", "test", "./..."]`)
}

// Ran is how the command ended.
type Ran struct {
	End            sandbox.End // sandbox.Exited, or the limit that ended it
	ExitCode       int
	Stdout, Stderr []byte // bounded; Stdout is the channel of our drivers
	// Truncated is set if an output was longer than its limit.
	Truncated bool
}
