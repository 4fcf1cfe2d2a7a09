package importer

import (
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

// sweRow is a row and the way to run its tests.
type sweRow struct {
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
	sweSpec
}

// sweSpec says how tests run.
type sweSpec struct {
	Image    string            // that has the repository; "" is one made of Packages and a clone
	Packages []string          // of Debian
	Command  []string          //
	Runner   string            // as in eval.tests.runner
	Env      map[string]string //
	Write    map[string]string // files to write into the checkout, by path
}

var (
	repoName   = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]*/[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	commitID   = lazyregexp.New(`^[0-9a-f]{40}$`)
	instanceID = lazyregexp.New(`^[A-Za-z0-9]+(?:(?:[._]|__|-+)[A-Za-z0-9]+)*$`)
)

// sweRow reads a row. Fields that it does not know are ignored: the data sets in
// this form have many. specs may be nil.
func (o *object) sweRow(specs sweSpecs) sweRow {
	row := sweRow{ID: o.text("instance_id"), Repo: o.text("repo"), BaseCommit: o.text("base_commit"), Statement: o.text("problem_statement"),
		GoldPatch: o.text("patch"), TestPatch: o.text("test_patch"), Version: o.optional("version"), Subset: o.optional("subset"),
		Licence: o.optional("upstream_repo_license")}
	row.FailToPass, row.PassToPass = o.list("FAIL_TO_PASS"), o.list("PASS_TO_PASS")
	o.match("instance_id", row.ID, instanceID, "letters, digits, . _ and -")
	o.match("repo", row.Repo, repoName, "owner/name")
	o.match("base_commit", row.BaseCommit, commitID, "40 lower-case hexadecimal digits")
	if len(o.problems) == 0 {
		o.spec(&row, specs)
	}
	if len(o.problems) == 0 {
		o.filter(&row)
	}
	return row
}

// spec finds out how the tests run: what the operator says of the row wins over
// what the row says.
func (o *object) spec(row *sweRow, specs sweSpecs) {
	found, known := specs.find(row)
	switch reproduced := o.node.Get("reproduced"); {
	case known:
		row.sweSpec = found
	case o.node.Get("eval_script") != nil:
		row.sweSpec = o.script()
	case reproduced != nil:
		row.sweSpec = o.reproduced(reproduced)
		if v := reproduced.Get("pass_to_pass_verified"); v != nil {
			row.PassToPass = o.strings(v, "pass_to_pass_verified")
		}
		if d := reproduced.Get("pass_to_pass_dropped"); d != nil {
			row.Dropped = o.strings(d, "pass_to_pass_dropped")
		}
	default:
		o.suggest(o.node, "give --specs FILE with an entry for this row",
			"it does not say how its tests run: it has neither image, eval_script and log_parser nor reproduced")
		return
	}
	row.Command = slices.Clone(row.Command)
	for i, word := range row.Command {
		row.Command[i] = strings.ReplaceAll(word, "{repo_dir}", testbed)
	}
	if i := slices.Index(row.Command, "{tests}"); i >= 0 {
		row.Command = slices.Replace(row.Command, i, i+1, patchPaths(row.TestPatch)...)
	}
	env := map[string]string{}
	for name, value := range row.Env {
		env[name] = strings.ReplaceAll(value, "{repo_dir}", testbed)
	}
	row.Env = env
	if row.Runner == "" {
		row.Runner = runnerOf(row.Command)
	}
	if row.Runner == "" && len(o.problems) == 0 {
		o.suggest(o.node, "give --specs FILE with a runner for this row", "its test command %q is none of a known runner", row.Command)
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
// runs, also where the words were others.
func (o *object) filter(row *sweRow) {
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
		o.fail(o.node, "FAIL_TO_PASS names no test")
	}
}

var (
	noise     = lazyregexp.New(`^(?:\[\s*\d+%\]|[\W_]*)$`)
	sympyTest = lazyregexp.New(`^test_?\w+`)
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

var pathLine = lazyregexp.New(`(?m)^(?:diff --git a/(\S+) b/(\S+)|(?:---|\+\+\+) [ab]/([^\t\n]+)|rename (?:from|to) (.+))$`)

// patchPaths returns the paths that a patch names, sorted.
func patchPaths(patch string) (out []string) {
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

func (o *object) match(name, value string, want *lazyregexp.Regexp, words string) {
	if value != "" && !want.MatchString(value) {
		o.fail(o.node.Get(name), "%s is %.80q, want %s", name, value, words)
	}
}

// optional reads a string that may be missing or null.
func (o *object) optional(name string) string {
	n := o.node.Given(name)
	if n == nil {
		return ""
	}
	if n.Kind != source.String {
		o.fail(n, "%s must be a string, not %s", name, n.Kind)
	}
	return n.Text
}

// list reads a list of strings, or a string that holds one as JSON.
func (o *object) list(name string) []string {
	n := o.node.Get(name)
	if n == nil {
		o.fail(o.node, "the field %q is missing", name)
		return nil
	}
	if n.Kind != source.String {
		return o.strings(n, name)
	}
	inner, err := source.ParseJSON(n.Pos.File, n.Pos.Line, []byte(n.Text))
	if err != nil {
		o.fail(n, "%s holds no list as JSON", name)
		return nil
	}
	inner.Pos = n.Pos
	return o.strings(inner, name)
}

// strings reads a list of strings, which may be empty.
func (o *object) strings(n *source.Node, name string) (out []string) {
	if n.Kind != source.List {
		o.fail(n, "%s must be a list of strings, not %s", name, n.Kind)
		return nil
	}
	for _, item := range n.Items {
		if item.Kind != source.String {
			o.fail(n, "%s must be a list of strings, and one is %s", name, item.Kind)
			return nil
		}
		out = append(out, item.Text)
	}
	return out
}
