// Package swebench reads rows of SWE-bench and of data sets in its form, and
// says how each row's tests run. It runs nothing.
package swebench

import (
	"regexp"
	"slices"
	"strings"

	"securebench/internal/source"
)

// Testbed is where the images have the repository.
const Testbed = "/testbed"

// Row is a row and the way to run its tests.
type Row struct {
	ID, Repo, BaseCommit   string
	Statement              string
	GoldPatch, TestPatch   string
	Version, Subset        string
	Licence                string
	FailToPass, PassToPass []string
	// NotIDs are tokens of the lists that name no test, Dropped the tests that
	// pass_to_pass leaves out because they do not pass in the row's
	// environment.
	NotIDs, Dropped []string
	Spec
}

// Spec says how tests run.
type Spec struct {
	Image    string            // that has the repository; "" is one made of Packages and a clone
	Packages []string          // of Debian
	Command  []string          //
	Runner   string            // as in eval.tests.runner
	Env      map[string]string //
	Write    map[string]string // files to write into the checkout, by path
}

// reader collects the problems of a row.
type reader struct {
	node     *source.Node
	problems source.Problems
}

var (
	repoName   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*/[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	commitID   = regexp.MustCompile(`^[0-9a-f]{40}$`)
	instanceID = regexp.MustCompile(`^[A-Za-z0-9]+(?:(?:[._]|__|-+)[A-Za-z0-9]+)*$`)
)

// Parse reads a row. Fields that it does not know are left alone: the data sets
// in this form have many. specs may be nil.
func Parse(n *source.Node, specs *Specs) (Row, source.Problems) {
	r := &reader{node: n}
	row := Row{ID: r.text("instance_id"), Repo: r.text("repo"), BaseCommit: r.text("base_commit"), Statement: r.text("problem_statement"),
		GoldPatch: r.text("patch"), TestPatch: r.text("test_patch"), Version: r.optional("version"), Subset: r.optional("subset"),
		Licence: r.optional("upstream_repo_license")}
	row.FailToPass, row.PassToPass = r.list("FAIL_TO_PASS"), r.list("PASS_TO_PASS")
	r.match("instance_id", row.ID, instanceID, "letters, digits, . _ and -")
	r.match("repo", row.Repo, repoName, "owner/name")
	r.match("base_commit", row.BaseCommit, commitID, "40 lower-case hexadecimal digits")
	if len(r.problems) > 0 {
		return Row{}, r.problems
	}
	r.spec(&row, specs)
	if len(r.problems) > 0 {
		return Row{}, r.problems
	}
	r.filter(&row)
	return row, r.problems
}

// spec finds out how the tests run: what the operator says of the row wins over
// what the row says.
func (r *reader) spec(row *Row, specs *Specs) {
	found, known := specs.find(row)
	switch reproduced := r.node.Get("reproduced"); {
	case known:
		row.Spec = found
	case r.node.Get("eval_script") != nil:
		row.Spec = r.script()
	case reproduced != nil:
		row.Spec = r.reproduced(reproduced)
		if v := reproduced.Get("pass_to_pass_verified"); v != nil {
			row.PassToPass = r.strings(v, "pass_to_pass_verified")
		}
		if d := reproduced.Get("pass_to_pass_dropped"); d != nil {
			row.Dropped = r.strings(d, "pass_to_pass_dropped")
		}
	default:
		r.fail(r.node, "give --specs FILE with an entry for this row",
			"it does not say how its tests run: it has neither image, eval_script and log_parser nor reproduced")
		return
	}
	row.Command = slices.Clone(row.Command)
	for i, word := range row.Command {
		row.Command[i] = strings.ReplaceAll(word, "{repo_dir}", Testbed)
	}
	if i := slices.Index(row.Command, "{tests}"); i >= 0 {
		row.Command = slices.Replace(row.Command, i, i+1, Paths(row.TestPatch)...)
	}
	env := map[string]string{}
	for name, value := range row.Env {
		env[name] = strings.ReplaceAll(value, "{repo_dir}", Testbed)
	}
	row.Env = env
	if row.Runner == "" {
		row.Runner = runnerOf(row.Command)
	}
	if row.Runner == "" && len(r.problems) == 0 {
		r.fail(r.node, "give --specs FILE with a runner for this row", "its test command %q is none of a known runner", row.Command)
	}
}

// runnerOf recognises a test command.
func runnerOf(command []string) string {
	for _, word := range command {
		switch {
		case word == "pytest", strings.HasSuffix(word, "/pytest"), word == "py.test":
			return "pytest"
		case strings.HasSuffix(word, "bin/test"):
			return "sympy"
		case strings.HasSuffix(word, "runtests.py"):
			return "django"
		case word == "unittest":
			return "unittest"
		}
	}
	return ""
}

// filter drops what names no test: the lists were read from the output of test
// runs, where other words stood, too.
func (r *reader) filter(row *Row) {
	seen := map[string]bool{} // FAIL_TO_PASS comes first, and keeps what both name
	keep := func(list []string) (out []string) {
		for _, id := range list {
			switch {
			case !isID(row.Runner, id):
				row.NotIDs = append(row.NotIDs, id)
			case !seen[id]:
				seen[id] = true
				out = append(out, id)
			}
		}
		return out
	}
	row.FailToPass, row.PassToPass = keep(row.FailToPass), keep(row.PassToPass)
	if len(row.FailToPass) == 0 {
		r.fail(r.node, "", "FAIL_TO_PASS names no test")
	}
}

var (
	noise     = regexp.MustCompile(`^(?:\[\s*\d+%\]|[\W_]*)$`)
	sympyTest = regexp.MustCompile(`^test_?\w+`)
)

func isID(runner, id string) bool {
	switch {
	case noise.MatchString(id):
		return false
	case runner == "pytest":
		return strings.Contains(id, "::")
	case runner == "sympy":
		return sympyTest.MatchString(id)
	}
	return true
}

var pathLine = regexp.MustCompile(`(?m)^(?:diff --git a/(\S+) b/(\S+)|(?:---|\+\+\+) [ab]/([^\t\n]+)|rename (?:from|to) (.+))$`)

// Paths returns the paths that a patch names, sorted.
func Paths(patch string) (out []string) {
	for _, m := range pathLine.FindAllStringSubmatch(patch, -1) {
		for _, p := range m[1:] {
			if p != "" {
				out = append(out, strings.TrimSpace(p))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (r *reader) fail(at *source.Node, fix, format string, args ...any) {
	r.problems.Add(at.Pos, fix, format, args...)
}

func (r *reader) match(name, value string, want *regexp.Regexp, words string) {
	if value != "" && !want.MatchString(value) {
		r.fail(r.node.Get(name), "", "%s is %.80q, want %s", name, value, words)
	}
}

// text reads a string that is not blank.
func (r *reader) text(name string) string {
	n := r.node.Get(name)
	if n == nil {
		r.fail(r.node, "", "the field %q is missing", name)
		return ""
	}
	s, p := n.Str(name)
	if p != nil {
		r.problems = append(r.problems, p)
	}
	return s
}

// optional reads a string that may be missing or null.
func (r *reader) optional(name string) string {
	n := r.node.Get(name)
	if n == nil || n.Kind == source.Null {
		return ""
	}
	if n.Kind != source.String {
		r.fail(n, "", "%s must be a string, not %s", name, n.Kind)
	}
	return n.Text
}

// list reads a list of strings, or a string that holds one as JSON.
func (r *reader) list(name string) []string {
	n := r.node.Get(name)
	if n == nil {
		r.fail(r.node, "", "the field %q is missing", name)
		return nil
	}
	if n.Kind != source.String {
		return r.strings(n, name)
	}
	inner, err := source.ParseJSON(n.Pos.File, n.Pos.Line, []byte(n.Text))
	if err != nil {
		r.fail(n, "", "%s holds no list as JSON", name)
		return nil
	}
	inner.Pos = n.Pos
	return r.strings(inner, name)
}

// strings reads a list of strings, which may be empty.
func (r *reader) strings(n *source.Node, name string) (out []string) {
	if n.Kind != source.List {
		r.fail(n, "", "%s must be a list of strings, not %s", name, n.Kind)
		return nil
	}
	for _, item := range n.Items {
		if item.Kind != source.String {
			r.fail(n, "", "%s must be a list of strings, and one is %s", name, item.Kind)
			return nil
		}
		out = append(out, item.Text)
	}
	return out
}
