package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"strings"
	"unicode/utf8"

	"securebench/internal/source"
)

// DefaultEnvFile is the env file that need not exist.
const DefaultEnvFile = ".env"

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Var is one line of an env file. Its value may be a secret, so printing,
// logging and marshalling a Var give the name alone or fail.
type Var struct{ Name, Value string }

// String returns the name.
func (v Var) String() string { return v.Name }

// GoString returns the name: %#v must not print the value either.
func (v Var) GoString() string { return v.Name }

// LogValue logs the name.
func (v Var) LogValue() slog.Value { return slog.StringValue(v.Name) }

// MarshalJSON refuses.
func (v Var) MarshalJSON() ([]byte, error) {
	return nil, errors.New("config: a variable may not be marshalled")
}

// LoadEnv reads an env file: KEY=VALUE lines, blank lines, lines that start
// with #, an optional "export ". Both sides are trimmed and one pair of quotes
// is taken off the value; there are no escapes, inline comments or expansions.
// A repeated key, a quote that is not closed and a name that no shell could
// set are errors. A missing file is an error unless it is [DefaultEnvFile].
//
// Whether a variable that the environment already has is kept is up to the
// caller. Errors never hold a value.
func LoadEnv(path string) ([]Var, error) {
	data, err := source.ReadFile(path, maxFile)
	if path == DefaultEnvFile && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the env file: %w", err)
	}
	return parseEnv(path, data)
}

func parseEnv(path string, data []byte) ([]Var, error) {
	var ps source.Problems
	var out []Var
	first := map[string]int{}
	line := 0
	for text := range strings.SplitSeq(string(data), "\n") {
		line++
		text = strings.TrimSpace(text)
		if text == "" || text[0] == '#' {
			continue
		}
		v, problem := parseVar(text)
		if problem == "" && first[v.Name] > 0 {
			problem = fmt.Sprintf("duplicate key %s, first set in line %d", v.Name, first[v.Name])
		}
		if problem != "" {
			ps.Add(source.Pos{File: path, Line: line}, "", "%s", problem)
			continue
		}
		first[v.Name] = line
		out = append(out, v)
	}
	if err := ps.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

// parseVar reads a trimmed line and says what is wrong with it.
func parseVar(text string) (v Var, problem string) {
	if rest, ok := strings.CutPrefix(text, "export "); ok {
		text = strings.TrimSpace(rest)
	}
	name, value, ok := strings.Cut(text, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	switch {
	case !ok || name == "":
		return v, "expected KEY=VALUE"
	case !envName.MatchString(name):
		// A misplaced secret can stand before the sign: don't repeat it.
		return v, "expected KEY=VALUE, where KEY has letters, digits and _ only"
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return v, "the value of " + name + " is not valid text"
	}
	if value != "" && (value[0] == '"' || value[0] == '\'') {
		if len(value) < 2 || value[len(value)-1] != value[0] {
			return v, "the quote of " + name + " is not closed at the end of the line"
		}
		value = value[1 : len(value)-1]
	}
	return Var{name, value}, ""
}
