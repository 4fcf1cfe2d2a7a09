package main

import (
	"path/filepath"
	"testing"
)

// TestFirstPackTutorial follows docs/tutorials/first-pack.md as it is written.
func TestFirstPackTutorial(t *testing.T) {
	t.Parallel()
	needEngine(t)
	follow(t, filepath.Join("..", "..", "docs", "tutorials", "first-pack.md"))
}
