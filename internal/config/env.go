package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"unicode/utf8"

	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

// DefaultEnvFile is the env file that is read if it exists.
const DefaultEnvFile = ".env"

var envName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Var is one line of an env file. Its value may be a secret, so printing and
// logging a Var show only the name, and marshalling fails.
type Var struct{ Name, Value string }

// String returns the name.
func (v Var) String() string { return v.Name }

// GoString returns the name, because %#v must not print the value either.
func (v Var) GoString() string { return v.Name }

// LogValue logs the name.
func (v Var) LogValue() slog.Value { return slog.StringValue(v.Name) }

// MarshalJSON always fails.
func (v Var) MarshalJSON() ([]byte, error) {
	return nil, errors.New("config: a variable may not be marshalled")
}

// LoadEnv reads an env file: KEY=VALUE lines, blank lines, lines that start
// with #, an optional "export ". Both sides are trimmed and one pair of quotes
// around the value is removed; escapes, inline comments and expansions are not
// supported. A duplicate key, an unclosed quote and a name that is not valid
// in a shell are errors. A missing file is an error unless it is
// [DefaultEnvFile].
//
// The caller decides whether variables that are already set are kept. Errors
// never contain a value.
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

// parseVar reads a trimmed line and returns what is wrong with it.
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
		// A misplaced secret may precede the equals sign: don't repeat it.
		return v, "expected KEY=VALUE, where KEY consists of letters, digits and _"
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return v, "the value of " + name + " is not valid text"
	}
	if value != "" && (value[0] == '"' || value[0] == '\'') {
		if len(value) < 2 || value[len(value)-1] != value[0] {
			return v, "the quoted value of " + name + " is not closed on the line"
		}
		value = value[1 : len(value)-1]
	}
	return Var{name, value}, ""
}
