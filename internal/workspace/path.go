package workspace

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The folders of a workspace in which securebench places its own files.
const (
	OwnRoot        = "securebench"
	PublicRoot     = OwnRoot + "/public"
	EvaluationRoot = OwnRoot + "/evaluation_inputs"
	evaluatorRoot  = OwnRoot + "/evaluator" // reserved: nothing is laid there
)

// The bounds of paths in bytes, and of the nesting of an asset's folders. The
// bound of one part is that of common file systems.
const (
	MaxPath  = 1024
	MaxPart  = 255
	MaxDepth = 64
)

// CleanPath returns the normal form of a path that a pack or a harness names
// inside the workspace. It refuses what [cleanSource] refuses, the mandatory
// denied paths and the roots of non-public material.
func CleanPath(p string) (string, error) {
	c, err := cleanAllowed(p)
	switch {
	case err != nil:
		return "", err
	case under(c, EvaluationRoot), under(c, evaluatorRoot):
		return "", errors.New("path is reserved for non-public materialization")
	}
	return c, nil
}

// cleanSource returns the normal form of a path below an asset root: not
// empty, relative, slash-separated, without "..", backslash or control
// characters, and not the root itself.
func cleanSource(p string) (string, error) {
	switch {
	case p == "":
		return "", errors.New("path must be a non-empty string")
	case !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl):
		return "", errors.New("path contains a control character or invalid UTF-8")
	case strings.Contains(p, `\`):
		return "", errors.New("path must use / and no backslash")
	case strings.HasPrefix(p, "/"):
		return "", errors.New("path must be relative")
	case len(p) > MaxPath:
		return "", fmt.Errorf("path is longer than %d bytes", MaxPath)
	}
	parts := strings.Split(p, "/")
	switch {
	case slices.Contains(parts, ".."):
		return "", errors.New(`path must not contain ".."`)
	case slices.ContainsFunc(parts, func(s string) bool { return len(s) > MaxPart }):
		return "", errors.New("a part of the path is longer than 255 bytes")
	}
	c := path.Clean(p)
	if c == "." {
		return "", errors.New("path must not be the root itself")
	}
	return c, nil
}

// cleanAllowed is cleanSource, and refuses the mandatory denied paths.
func cleanAllowed(p string) (string, error) {
	c, err := cleanSource(p)
	if err != nil {
		return "", err
	}
	for _, d := range []string{
		"ground_truth", "scorer", "eval", "task/hidden.json",
		"task/evaluation_inputs.json", "input/hidden.json", "output/score.json",
	} {
		if under(c, d) {
			return "", fmt.Errorf("path is denied: /%s", d)
		}
	}
	return c, nil
}

// inside returns a check for paths of securebench's own files below root.
func inside(root string) func(string) (string, error) {
	return func(p string) (string, error) {
		c, err := cleanAllowed(p)
		switch {
		case err != nil:
			return "", err
		case c == root || !under(c, root):
			return "", fmt.Errorf("path is outside the allowed root %s", root)
		}
		return c, nil
	}
}

// under reports whether the clean path p is root or below it.
func under(p, root string) bool {
	rest, ok := strings.CutPrefix(p, root)
	return ok && (rest == "" || rest[0] == '/')
}

// parents yields the parent directories of a clean path, nearest first.
func parents(p string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for p = path.Dir(p); p != "."; p = path.Dir(p) {
			if !yield(p) {
				return
			}
		}
	}
}
