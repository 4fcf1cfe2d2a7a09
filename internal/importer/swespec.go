package importer

import (
	"path"
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

// maxSpecs bounds a file of specifications in bytes.
const maxSpecs = 16 << 20

// sweSpecs say how tests run, by instance id, repository and version
// (owner/name@version), or repository.
type sweSpecs map[string]sweSpec

// readSpecs reads a file of specifications: a JSON object of objects with the
// fields packages, command, env, runner, write and image.
func readSpecs(name string) (sweSpecs, error) {
	data, err := source.ReadFile(name, maxSpecs)
	if err != nil {
		return nil, err
	}
	return parseSpecs(name, data)
}

// parseSpecs is readSpecs for the content of a file.
func parseSpecs(name string, data []byte) (sweSpecs, error) {
	root, err := source.ParseJSON(name, 1, data)
	if err != nil {
		return nil, err
	}
	o := &object{node: root}
	if root.Kind != source.Map {
		o.fail(root, "specifications must be an object, not %s", root.Kind)
		return nil, o.problems.Err()
	}
	s := sweSpecs{}
	for _, f := range root.Fields {
		s[f.Name] = o.entry(f.Value)
	}
	return s, o.problems.Err()
}

// entry reads a specification.
func (o *object) entry(n *source.Node) sweSpec {
	if n.Kind != source.Map {
		o.fail(n, "a specification must be an object, not %s", n.Kind)
		return sweSpec{}
	}
	for _, f := range n.Fields {
		if !slices.Contains([]string{"packages", "command", "env", "runner", "write", "image"}, f.Name) {
			o.problems.Add(f.Pos, "", "unknown field %q", f.Name)
		}
	}
	inner := &object{node: n}
	s := sweSpec{Image: inner.optional("image"), Runner: inner.optional("runner"), Env: inner.object(n.Get("env"), "env"), Write: inner.object(n.Get("write"), "write")}
	if c := n.Get("command"); c != nil {
		s.Command = inner.strings(c, "command")
	}
	if p := n.Get("packages"); p != nil {
		s.Packages = inner.strings(p, "packages")
	}
	inner.check(n, s)
	o.problems = append(o.problems, inner.problems...)
	return s
}

// find returns the most specific entry.
func (s sweSpecs) find(row *sweRow) (sweSpec, bool) {
	for _, key := range []string{row.ID, row.Repo + "@" + row.Version, row.Repo} {
		if spec, ok := s[key]; ok {
			return spec, true
		}
	}
	return sweSpec{}, false
}

var packageName = lazyregexp.New(`^[a-z0-9][a-z0-9+.-]+$`)

// check refuses what cannot become part of a recipe or a command.
func (o *object) check(at *source.Node, s sweSpec) {
	if len(s.Command) == 0 || s.Command[0] == "" {
		o.fail(at, "the test command is missing")
	}
	for _, p := range s.Packages {
		if !packageName.MatchString(p) {
			o.fail(at, "%.80q is not the name of a Debian package", p)
		}
	}
	for name := range s.Env {
		if !identifier.MatchString(name) {
			o.fail(at, "%.80q is not the name of a variable", name)
		}
	}
	for name := range s.Write {
		if !plainPath.MatchString(name) {
			o.fail(at, "%.80q is not a plain path", name)
			continue
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, file := s.Write[dir]; file {
				o.fail(at, "%.80q is a file and a folder", dir)
			}
		}
	}
	if s.Runner != "" && !slices.Contains([]string{"pytest", "unittest", "django", "sympy", "go", "junit", "tap"}, s.Runner) {
		o.fail(at, "the runner %.80q is not known", s.Runner)
	}
}

// object reads an object of strings, which may be missing or null.
func (o *object) object(n *source.Node, name string) map[string]string {
	if n == nil || n.Kind == source.Null {
		return nil
	}
	if n.Kind != source.Map {
		o.fail(n, "%s must be an object, not %s", name, n.Kind)
		return nil
	}
	out := map[string]string{}
	for _, f := range n.Fields {
		if f.Value.Kind != source.String {
			o.fail(f.Value, "%s.%s must be a string, not %s", name, f.Name, f.Value.Kind)
		}
		out[f.Name] = f.Value.Text
	}
	return out
}

// reproduced reads how a row was run on Debian.
func (o *object) reproduced(n *source.Node) (s sweSpec) {
	inner := &object{node: n}
	if n.Kind != source.Map {
		o.fail(n, "reproduced must be an object, not %s", n.Kind)
		return s
	}
	s.Packages, s.Command = inner.list("apt_packages"), inner.list("test_command")
	s.Env, s.Write = inner.object(n.Get("env"), "env"), inner.object(n.Get("write_before_run"), "write_before_run")
	if len(inner.problems) == 0 {
		inner.check(n, s)
	}
	o.problems = append(o.problems, inner.problems...)
	return s
}

// The marks around the test command in the scripts of SWE-bench.
const (
	startMark = "Start Test Output"
	endMark   = "End Test Output"
)

// condaPath is the search path of the environment that SWE-bench's images
// activate.
const condaPath = "/opt/miniconda3/envs/testbed/bin:/opt/miniconda3/condabin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// script reads image, eval_script and log_parser. Of the script the test
// command is used without the rest: that puts test files in place, which the verifier
// does itself.
func (o *object) script() (s sweSpec) {
	s.Image = o.text("image")
	script, parser := o.text("eval_script"), o.text("log_parser")
	if len(o.problems) > 0 {
		return s
	}
	_, after, started := strings.Cut(script, startMark)
	_, after, _ = strings.Cut(after, "\n")
	inside, _, ended := strings.Cut(after, endMark)
	var lines []string
	for line := range strings.Lines(inside) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, ":") && !strings.HasPrefix(line, "set ") {
			lines = append(lines, line)
		}
	}
	at := o.node.Get("eval_script")
	if !started || !ended || len(lines) != 1 {
		o.suggest(at, "give --specs FILE with an entry for this row", "eval_script does not have one test command between its marks")
		return s
	}
	words, ok := split(lines[0])
	if !ok {
		o.suggest(at, "give --specs FILE with an entry for this row", "the test command %.200q needs a shell", lines[0])
		return s
	}
	s.Env = map[string]string{}
	if strings.Contains(script, "activate testbed") {
		s.Env["PATH"] = condaPath
	}
	for len(words) > 0 {
		name, value, set := strings.Cut(words[0], "=")
		if !set || !identifier.MatchString(name) {
			break
		}
		s.Env[name], words = value, words[1:]
	}
	s.Command = words
	for _, known := range []string{"pytest", "django", "sympy", "unittest"} {
		if strings.Contains(parser, known) {
			s.Runner = known
		}
	}
	o.check(at, s)
	return s
}

// split divides a simple command into words. False means that a shell would do
// more with it.
func split(line string) (words []string, ok bool) {
	var word strings.Builder
	quote, open := rune(0), false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == '\'':
			word.WriteRune(c)
		case strings.ContainsRune("$`\\", c), quote == 0 && strings.ContainsRune("&|;<>()*?[]{}!#~", c):
			return nil, false
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, open = c, true
		case c == ' ' || c == '\t':
			if open {
				words = append(words, word.String())
			}
			word.Reset()
			open = false
		default:
			word.WriteRune(c)
			open = true
		}
	}
	if open {
		words = append(words, word.String())
	}
	return words, quote == 0
}
