package testrunner

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
)

// program is a command that starts Python tests, taken apart.
type program struct {
	shell  []string // the shell that the row's command is for, with its flags; nil without
	env    []string // NAME=VALUE, in front of the command
	dir    string   // of a leading cd, or ""
	python string   // as the command names it; "" if a script names it
	flags  []string // of the interpreter
	module string   // after -m
	script string   // instead of a module
	args   []string
}

var (
	pythonName = lazyregexp.New(`^(python|pypy)[0-9.]*$`)
	assignment = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*=`)
	shellFlags = lazyregexp.New(`^-[a-z]*c$`)
	joinFlags  = lazyregexp.New(`^-[BEsObuORIPdqv]+$`)
)

// errForm is the error for a command that no driver can take over.
var errForm = errors.New("is not one simple command")

// parseProgram takes a command apart.
func parseProgram(argv []string) (p program, err error) {
	words := slices.Clone(argv)
	if len(words) == 3 && isShell(words[0]) && shellFlags.MatchString(words[1]) {
		p.shell = words[:2]
		if p.dir, words, err = splitShell(words[2]); err != nil {
			return p, err
		}
		for len(words) > 0 && assignment.MatchString(words[0]) {
			p.env, words = append(p.env, words[0]), words[1:]
		}
	}
	if len(words) > 0 && path.Base(words[0]) == "env" {
		for words = words[1:]; len(words) > 0 && assignment.MatchString(words[0]); words = words[1:] {
			p.env = append(p.env, words[0])
		}
	}
	if len(words) == 0 || words[0] == "" || strings.HasPrefix(words[0], "-") {
		return p, errForm
	}
	if !pythonName.MatchString(path.Base(words[0])) {
		p.script, p.args = words[0], words[1:]
		return p, nil
	}
	p.python = words[0]
	return p.interpreter(words[1:])
}

// interpreter reads what follows the interpreter's name.
func (p program) interpreter(words []string) (program, error) {
	for len(words) > 0 {
		w := words[0]
		switch {
		case w == "", w == "-m" && len(words) > 1 && words[1] == "":
			return p, errForm
		case w == "-m" && len(words) > 1:
			p.module, p.args = words[1], words[2:]
			return p, nil
		case strings.HasPrefix(w, "-m") && len(w) > 2:
			p.module, p.args = w[2:], words[1:]
			return p, nil
		case (w == "-W" || w == "-X") && len(words) > 1:
			p.flags, words = append(p.flags, w, words[1]), words[2:]
		case strings.HasPrefix(w, "-W") && len(w) > 2, strings.HasPrefix(w, "-X") && len(w) > 2, joinFlags.MatchString(w):
			p.flags, words = append(p.flags, w), words[1:]
		case strings.HasPrefix(w, "-"):
			return p, fmt.Errorf("has the option %s of the interpreter, which no driver takes over", w)
		default:
			p.script, p.args = w, words[1:]
			return p, nil
		}
	}
	return p, errForm
}

func isShell(word string) bool {
	return slices.Contains([]string{"sh", "bash", "dash"}, path.Base(word))
}

// splitShell divides a line for a shell into words, if it is one simple command
// that means the same without a shell. A leading "cd DIR &&" is taken off.
func splitShell(line string) (dir string, words []string, err error) {
	head, rest, found := strings.Cut(line, "&&")
	if found {
		if words, err = shellWords(head); err != nil || len(words) != 2 || words[0] != "cd" {
			return "", nil, errForm
		}
		dir, line = words[1], rest
	}
	words, err = shellWords(line)
	return dir, words, err
}

// shellWords divides a line into words. A character that a shell would treat
// in any other way than as itself is an error.
func shellWords(line string) (words []string, err error) {
	var word strings.Builder
	var quote rune
	inWord, escaped := false, false
	for _, r := range strings.TrimSpace(line) {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			inWord, escaped = true, true
			if quote == '"' {
				return nil, errForm
			}
		case quote != 0 && r == quote:
			quote = 0
		case quote == '\'' || quote == '"' && !strings.ContainsRune("$`", r):
			word.WriteRune(r)
		case quote == 0 && (r == '\'' || r == '"'):
			inWord, quote = true, r
		case r == ' ' || r == '\t':
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		case strings.ContainsRune("|&;<>()$`*?{}\n\r!", r), !inWord && strings.ContainsRune("~#", r):
			return nil, errForm
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	if quote != 0 || escaped {
		return nil, errForm
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// forms says how the command of each driver is written.
//
//nolint:gochecknoglobals // a constant table
var forms = map[string]string{
	"pytest":   `["python3", "-m", "pytest", "tests/test_a.py"]`,
	"unittest": `["python3", "-m", "unittest", "-v", "tests.test_a"]`,
	"django":   `["python3", "tests/runtests.py", "--settings=test_sqlite", "label"]`,
	"sympy":    `["python3", "bin/test", "-C", "--verbose", "sympy/core/tests/test_arit.py"]`,
}

// fits reports which driver can take a command over.
func (p program) fits() string {
	switch {
	case p.module == "pytest" || p.module == "py.test", p.module == "" && p.python == "" &&
		slices.Contains([]string{"pytest", "py.test"}, path.Base(p.script)):
		return "pytest"
	case p.module == "unittest":
		return "unittest"
	case p.module == "" && path.Base(p.script) == "runtests.py":
		return "django"
	case p.module == "" && path.Base(p.script) == "test" && path.Base(path.Dir(p.script)) == "bin":
		return "sympy"
	}
	return ""
}

// driverOf returns the driver that runs the tests, or "" if the command runs as
// it is. An error is the pack's fault.
func (t Tests) driverOf() (string, program, error) {
	if t.Runner == "" && !t.Named() {
		return "", program{}, nil
	}
	if slices.Contains([]string{"go", "junit", "tap"}, t.Runner) {
		return "", program{}, nil
	}
	p, err := parseProgram(t.Command)
	if t.Runner == "" {
		if fits := p.fits(); err == nil && (fits == "pytest" || fits == "unittest") {
			return fits, p, nil
		}
		return "", p, errors.New("the row names tests, but no runner that reports them; set eval.tests.runner")
	}
	form, known := forms[t.Runner]
	switch {
	case !known:
		return "", p, fmt.Errorf("the runner %q is unknown; it is one of pytest, unittest, django, sympy, go, junit and tap", t.Runner)
	case err != nil:
		return "", p, fmt.Errorf("the test command %w; for the runner %s write it as a list like %s", err, t.Runner, form)
	case p.fits() != t.Runner:
		return "", p, fmt.Errorf("the test command does not start %s; write it as a list like %s", t.Runner, form)
	}
	return t.Runner, p, nil
}
