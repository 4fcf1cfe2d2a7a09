// Package pathname compares slash-separated paths by their words: it looks at no file.
package pathname

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Within reports whether a path is one of the folders or below one. Of relative paths, "."
// contains all that do not lead out of it.
func Within(p string, dirs ...string) bool {
	p = path.Clean(p)
	return slices.ContainsFunc(dirs, func(dir string) bool {
		dir = path.Clean(dir)
		return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/") || dir == "." && filepath.IsLocal(p)
	})
}

// AnyAbove reports whether a clean path or a folder above it is in a set, other than "." and "/".
func AnyAbove(set map[string]bool, p string) bool {
	for ; p != "." && p != "/"; p = path.Dir(p) {
		if set[p] {
			return true
		}
	}
	return false
}

// Overlap reports whether one of two paths is within the other.
func Overlap(a, b string) bool { return Within(a, b) || Within(b, a) }
