// Package patchtest reads patches in tests, with another reader than the product's.
package patchtest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Paths returns the paths that the headers of a patch in git's form name, sorted.
func Paths(patch []byte) ([]string, error) {
	files, _, err := gitdiff.Parse(bytes.NewReader(patch))
	if err != nil {
		return nil, fmt.Errorf("reading a patch: %w", err)
	}
	var paths []string
	for _, f := range files {
		for _, name := range []string{f.OldName, f.NewName} {
			if name != "" && name != "/dev/null" {
				paths = append(paths, name)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}
