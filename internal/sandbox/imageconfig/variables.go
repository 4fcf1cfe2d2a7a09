package imageconfig

import (
	"slices"
	"strings"
)

// VariableNames returns the sorted names of variables.
func VariableNames(env []string) []string {
	var out []string
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// DefaultPath is what engines set where an image sets nothing.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// SearchPath returns the PATH of an image.
func SearchPath(env []string) string {
	path := DefaultPath
	for _, v := range env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			path = p
		}
	}
	return path
}
