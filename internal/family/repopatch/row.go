package repopatch

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/repopatch/policy"
	"securebench/internal/lazyregexp"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/testrunner"
	"securebench/internal/verdict"
)

// testSpec is a row's tests. The family's schema has checked its shape.
type testSpec struct {
	Source     string            `json:"source"`
	Command    jsontext.Value    `json:"command"`
	Workdir    string            `json:"workdir"`
	Timeout    jsontext.Value    `json:"timeout_seconds"` // see [timeLimit]
	Setup      jsontext.Value    `json:"setup_patch"`
	Tests      jsontext.Value    `json:"test_patch"`
	FailToPass []string          `json:"fail_to_pass"`
	PassToPass []string          `json:"pass_to_pass"`
	Runner     string            `json:"runner"`
	Expected   map[string]string `json:"expected"`
	Policy     jsontext.Value    `json:"candidate_policy"`
}

// policySpec is a row's policy on candidates.
type policySpec struct {
	Allow     []string `json:"allow_paths"`
	Sensitive []string `json:"allow_sensitive_paths"`
	Preserved []string `json:"patch_preserved_paths"`
	OnDenied  string   `json:"on_denied"`
}

// row is what a verification needs of a task.
type row struct {
	dir    string // of the checkout, absolute
	commit string // that the pack says is checked out
	user   string // as the row names it; "" is the image's
	// setup and tests are patches of the pack; nil is none.
	setup, testPatch []byte
	run              testrunner.Tests
	policy           policy.Policy
}

// argvOf reads a command; the shell is that of the reference.
func argvOf(v jsontext.Value) ([]string, bool) { return family.Argv(v, "sh", "-lc") }

// readRow takes a row from the lanes that the test sandbox may see. The
// failure says that the row cannot be scored.
func readRow(c family.Case) (row, *family.Failure) {
	tests, _ := c.Sandbox.Get("tests")
	var spec testSpec
	if json.Unmarshal(tests.Value, &spec) != nil || spec.Source != "command" {
		return row{}, family.Fail(verdict.NoVerifier, "the row's tests are not of a known form")
	}
	env := c.Sandbox.Environment()
	r := row{user: env.User, dir: path.Clean(cmp.Or(spec.Workdir, env.Workdir)),
		setup: patchText(spec.Setup), testPatch: patchText(spec.Tests)}
	if commit, ok := c.Sandbox.Get("base_commit"); ok {
		r.commit, _ = commit.Text()
	}
	argv, ok := argvOf(spec.Command)
	if !ok || !path.IsAbs(r.dir) {
		return row{}, family.Fail(verdict.NoVerifier, "the row's tests have no command or no absolute workdir")
	}
	r.run = testrunner.Tests{Command: argv, Dir: r.dir, Runner: spec.runner(), FailToPass: spec.FailToPass,
		PassToPass: spec.PassToPass, Expected: spec.Expected, Env: env.Env}
	rules := spec.Policy
	if v, ok := c.Sandbox.Get("candidate_policy"); ok && rules == nil {
		rules = v.Value
	}
	var p policySpec
	if rules != nil && json.Unmarshal(rules, &p) != nil {
		return row{}, family.Fail(verdict.NoVerifier, "the row's policy on candidates is not of a known form")
	}
	r.policy = policy.Policy{AllowPaths: p.Allow, AllowSensitivePaths: p.Sensitive, PreservedPaths: p.Preserved, Drop: p.OnDenied == "drop"}
	return r, nil
}

// patchText reads a patch: a string, or an object that holds it. A missing
// newline at the end is added, because git refuses a patch without it.
func patchText(v jsontext.Value) []byte {
	var text string
	var inline struct {
		Source string `json:"source"`
		Patch  string `json:"patch"`
	}
	switch {
	case v.Kind() == '"' && json.Unmarshal(v, &text) == nil:
	case v.Kind() == '{' && json.Unmarshal(v, &inline) == nil:
		text = inline.Patch
	default:
		return nil
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return []byte(text)
}

// named reports whether the tests are graded by name.
func (t testSpec) named() bool { return len(t.FailToPass)+len(t.PassToPass) > 0 }

// runner returns the runner of named tests: the row's, or the one that the
// command evidently is.
func (t testSpec) runner() string {
	if t.Runner != "" || !t.named() {
		return t.Runner
	}
	return recognise(t.Command)
}

// recognise returns the runner that a command evidently starts, or "".
func recognise(command jsontext.Value) string {
	argv, _ := argvOf(command)
	if command.Kind() == '"' {
		text := argv[len(argv)-1]
		if strings.ContainsAny(text, "|&;<>()$`\\\"'\n*?[#~=%!{}") {
			return "" // the shell has more to do than to split it
		}
		argv = strings.Fields(text)
	}
	if len(argv) == 0 {
		return ""
	}
	name := path.Base(argv[0])
	switch {
	case name == "pytest" || name == "py.test":
		return "pytest"
	case strings.HasPrefix(name, "python") && len(argv) > 2 && argv[1] == "-m" && slices.Contains([]string{"pytest", "unittest"}, argv[2]):
		return argv[2]
	}
	return ""
}

// checkoutOf names the repository that the agent changes.
func checkoutOf(r family.Row) task.Checkout {
	var spec testSpec
	var c task.Checkout
	_ = json.Unmarshal(r.Eval["tests"], &spec) // check reports what cannot be read
	_ = json.Unmarshal(r.Input["base_commit"], &c.Commit)
	if c.Dir = spec.Workdir; c.Dir == "" && r.Environment["workdir"] != nil {
		_ = json.Unmarshal(r.Environment["workdir"], &c.Dir)
	}
	if c.Dir != "" {
		c.Dir = path.Clean(c.Dir)
	}
	return c
}

// check applies the rules that the schema cannot express.
func check(r family.Row) (out []family.Problem) {
	var spec testSpec
	if err := json.Unmarshal(r.Eval["tests"], &spec); err != nil {
		return []family.Problem{{Path: []string{"eval", "tests"}, Message: "cannot be read"}}
	}
	problem := func(message, fix string, at ...string) {
		out = append(out, family.Problem{Path: append([]string{"eval"}, at...), Message: message, Fix: fix})
	}
	switch dir := checkoutOf(r).Dir; {
	case dir == "":
		problem("does not set a workdir", "set environment.workdir to the path of the repository in the image", "tests")
	case sandbox.WorkspaceSpec{From: &sandbox.ImageFolder{Image: sandbox.Image{ID: "any"}, Path: dir}}.Check() != nil:
		problem("has a workdir where no repository can be", "set environment.workdir to an absolute path below the root, outside /proc, /sys and /dev", "tests")
	}
	if spec.Policy != nil && r.Eval["candidate_policy"] != nil {
		problem("is already set in eval.tests", "remove one of the two", "candidate_policy")
	}
	checkNames(spec, problem)
	return out
}

// commitID is what can be a commit, as a row names it.
var commitID = lazyregexp.New(`^[0-9a-f]{7,64}$`)

// doubtful finds what is no commit and no patch. It quotes no patch: patches are not
// public.
func doubtful(r family.Row) (out []family.Problem) {
	var commit string
	if json.Unmarshal(r.Input["base_commit"], &commit) == nil && !commitID.MatchString(commit) {
		out = append(out, family.Problem{Path: []string{"input", "base_commit"}, Message: "is not a commit id",
			Fix: "write what git rev-parse HEAD prints in the image's repository"})
	}
	var spec struct {
		Setup jsontext.Value `json:"setup_patch"`
		Test  jsontext.Value `json:"test_patch"`
	}
	_ = json.Unmarshal(r.Eval["tests"], &spec) // check has read it
	for _, p := range []struct {
		patch jsontext.Value
		path  []string
	}{{spec.Setup, []string{"eval", "tests", "setup_patch"}}, {spec.Test, []string{"eval", "tests", "test_patch"}}, {r.Eval["gold_patch"], []string{"eval", "gold_patch"}}} {
		var text string
		if json.Unmarshal(p.patch, &text) == nil && strings.TrimSpace(text) != "" && !patchHead.MatchString(text) {
			out = append(out, family.Problem{Path: p.path, Message: "is not a patch", Fix: "write what git diff prints"})
		}
	}
	return out
}

// patchHead is a line with which the part of a patch for one file begins.
var patchHead = lazyregexp.New(`(?m)^(diff --git |--- )`)

// checkNames applies the rules on tests that are graded by name. It quotes no
// id: ids are not public.
func checkNames(spec testSpec, problem func(message, fix string, at ...string)) {
	switch {
	case spec.named() && spec.runner() == "":
		problem("names tests, but not what runs them", "set eval.tests.runner: pytest, unittest, django, sympy, go, junit or tap", "tests")
	case !spec.named() && spec.Runner != "":
		problem("has no effect without fail_to_pass or pass_to_pass", "name the tests, or remove it: the command's exit code decides", "tests", "runner")
	}
	change := make(map[string]bool, len(spec.FailToPass))
	for _, id := range spec.FailToPass {
		change[id] = true
	}
	keep := make(map[string]bool, len(spec.PassToPass))
	for i, id := range spec.PassToPass {
		if keep[id] = true; change[id] {
			problem("is in fail_to_pass as well", "remove it from one of the two", "tests", "pass_to_pass", strconv.Itoa(i))
		}
	}
	unknown := 0
	for id := range spec.Expected {
		if !keep[id] {
			unknown++
		}
	}
	if unknown > 0 {
		problem("has "+strconv.Itoa(unknown)+" ids that are not in pass_to_pass", "a test of fail_to_pass must pass; name the others in pass_to_pass", "tests", "expected")
	}
}
