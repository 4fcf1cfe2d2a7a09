package repository

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Paths returns the paths that the headers of a patch name, sorted. It is for
// trusted patches: what a patch does is known only once it was applied.
func Paths(patch []byte) ([]string, error) {
	files, _, err := gitdiff.Parse(bytes.NewReader(patch))
	if err != nil {
		return nil, fmt.Errorf("reading a patch: %w", err)
	}
	git := bytes.HasPrefix(patch, []byte("diff --git ")) || bytes.Contains(patch, []byte("\ndiff --git "))
	var paths []string
	for _, f := range files {
		for _, name := range []string{f.OldName, f.NewName} {
			// Of other patches, git apply drops the first folder too; the parser does not.
			if _, rest, ok := strings.Cut(name, "/"); ok && !git {
				name = rest
			}
			if name != "" && name != "/dev/null" {
				paths = append(paths, name)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}
