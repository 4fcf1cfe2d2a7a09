package swebench

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"securebench/internal/source"
)

// maxSpecs bounds a file of specifications in bytes.
const maxSpecs = 16 << 20

// Specs say how tests run, by instance id, repository and version
// (owner/name@version), or repository.
type Specs struct{ entries map[string]Spec }

// ReadSpecs reads a file of specifications: a JSON object of objects with the
// fields packages, command, env, runner, write and image.
func ReadSpecs(name string) (*Specs, error) {
	data, err := source.ReadFile(name, maxSpecs)
	if err != nil {
		return nil, err
	}
	return ParseSpecs(name, data)
}

// ParseSpecs is [ReadSpecs] for the content of a file.
func ParseSpecs(name string, data []byte) (*Specs, error) {
	root, err := source.ParseJSON(name, 1, data)
	if err != nil {
		return nil, err
	}
	r := &reader{node: root}
	if root.Kind != source.Map {
		r.fail(root, "", "specifications must be an object, not %s", root.Kind)
		return nil, r.problems.Err()
	}
	s := &Specs{entries: map[string]Spec{}}
	for _, f := range root.Fields {
		s.entries[f.Name] = r.entry(f.Value)
	}
	return s, r.problems.Err()
}

// entry reads a specification.
func (r *reader) entry(n *source.Node) Spec {
	if n.Kind != source.Map {
		r.fail(n, "", "a specification must be an object, not %s", n.Kind)
		return Spec{}
	}
	for _, f := range n.Fields {
		if !slices.Contains([]string{"packages", "command", "env", "runner", "write", "image"}, f.Name) {
			r.problems.Add(f.Pos, "", "unknown field %q", f.Name)
		}
	}
	inner := &reader{node: n}
	s := Spec{Image: inner.optional("image"), Runner: inner.optional("runner"), Env: inner.object(n.Get("env"), "env"), Write: inner.object(n.Get("write"), "write")}
	if c := n.Get("command"); c != nil {
		s.Command = inner.strings(c, "command")
	}
	if p := n.Get("packages"); p != nil {
		s.Packages = inner.strings(p, "packages")
	}
	inner.check(n, s)
	r.problems = append(r.problems, inner.problems...)
	return s
}

// find returns the most specific entry.
func (s *Specs) find(row *Row) (Spec, bool) {
	if s == nil {
		return Spec{}, false
	}
	for _, key := range []string{row.ID, row.Repo + "@" + row.Version, row.Repo} {
		if spec, ok := s.entries[key]; ok {
			return spec, true
		}
	}
	return Spec{}, false
}

var (
	packageName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	variable    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	plainPath   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$`)
)

// check refuses what cannot become part of a recipe or a command.
func (r *reader) check(at *source.Node, s Spec) {
	if len(s.Command) == 0 || s.Command[0] == "" {
		r.fail(at, "", "the test command is missing")
	}
	for _, p := range s.Packages {
		if !packageName.MatchString(p) {
			r.fail(at, "", "%.80q is not the name of a Debian package", p)
		}
	}
	for name := range s.Env {
		if !variable.MatchString(name) {
			r.fail(at, "", "%.80q is not the name of a variable", name)
		}
	}
	for name := range s.Write {
		if !plainPath.MatchString(name) {
			r.fail(at, "", "%.80q is not a plain path", name)
			continue
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, file := s.Write[dir]; file {
				r.fail(at, "", "%.80q is a file and a folder", dir)
			}
		}
	}
	if s.Runner != "" && !slices.Contains([]string{"pytest", "unittest", "django", "sympy", "go", "junit", "tap"}, s.Runner) {
		r.fail(at, "", "the runner %.80q is not known", s.Runner)
	}
}

// object reads an object of strings, which may be missing or null.
func (r *reader) object(n *source.Node, name string) map[string]string {
	if n == nil || n.Kind == source.Null {
		return nil
	}
	if n.Kind != source.Map {
		r.fail(n, "", "%s must be an object, not %s", name, n.Kind)
		return nil
	}
	out := map[string]string{}
	for _, f := range n.Fields {
		if f.Value.Kind != source.String {
			r.fail(f.Value, "", "%s.%s must be a string, not %s", name, f.Name, f.Value.Kind)
		}
		out[f.Name] = f.Value.Text
	}
	return out
}

// reproduced reads how a row was run on Debian.
func (r *reader) reproduced(n *source.Node) (s Spec) {
	inner := &reader{node: n}
	if n.Kind != source.Map {
		r.fail(n, "", "reproduced must be an object, not %s", n.Kind)
		return s
	}
	s.Packages, s.Command = inner.list("apt_packages"), inner.list("test_command")
	s.Env, s.Write = inner.object(n.Get("env"), "env"), inner.object(n.Get("write_before_run"), "write_before_run")
	if len(inner.problems) == 0 {
		inner.check(n, s)
	}
	r.problems = append(r.problems, inner.problems...)
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
// command is used alone: the rest puts test files in place, which the verifier
// does itself.
func (r *reader) script() (s Spec) {
	s.Image = r.text("image")
	script, parser := r.text("eval_script"), r.text("log_parser")
	if len(r.problems) > 0 {
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
	at := r.node.Get("eval_script")
	if !started || !ended || len(lines) != 1 {
		r.fail(at, "give --specs FILE with an entry for this row", "eval_script does not have one test command between its marks")
		return s
	}
	words, ok := split(lines[0])
	if !ok {
		r.fail(at, "give --specs FILE with an entry for this row", "the test command %.200q needs a shell", lines[0])
		return s
	}
	s.Env = map[string]string{}
	if strings.Contains(script, "activate testbed") {
		s.Env["PATH"] = condaPath
	}
	for len(words) > 0 {
		name, value, set := strings.Cut(words[0], "=")
		if !set || !variable.MatchString(name) {
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
	r.check(at, s)
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
