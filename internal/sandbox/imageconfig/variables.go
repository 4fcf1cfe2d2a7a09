package imageconfig

import (
	"fmt"
	"slices"
	"strings"

	"securebench/internal/sandbox"
)

// The bounds of variables: the kernel starts no program with a longer one, or with
// more of them than this beside what sandboxes add.
const (
	maxVariable  = 128<<10 - 1
	maxVariables = 7 << 18
)

// CheckVariables returns a [sandbox.ErrUnusable] if no program can be started with the
// variables of an image.
func CheckVariables(env []string) error {
	sum := 0
	for _, v := range env {
		if len(v) > maxVariable {
			name, _, _ := strings.Cut(v, "=")
			return sandbox.Unusable(fmt.Errorf("the image's variable %.50q has %d bytes, with which Linux starts no program", name, len(v)))
		}
		sum += len(v) + 1 + 8 // and a pointer
	}
	if sum > maxVariables {
		return sandbox.Unusable(fmt.Errorf("the image's variables have %d bytes together, with which Linux starts no program", sum))
	}
	return nil
}

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
