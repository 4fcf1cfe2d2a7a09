package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is larger than this is split: it does more than one thing. Tests and
// test kits do not count.
const (
	maxPackageLines = 2000
	maxFileLines    = 500
)

// TestSizes keeps files and packages small enough to be read at one go.
func TestSizes(t *testing.T) {
	root, packages := filepath.Join("..", ".."), map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || path != root && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		lines := bytes.Count(text, []byte("\n"))
		packages[filepath.Dir(path)] += lines
		if lines > maxFileLines {
			t.Errorf("%s has %d lines, want at most %d", path, lines, maxFileLines)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, lines := range packages {
		if lines > maxPackageLines {
			t.Errorf("%s has %d lines, want at most %d", dir, lines, maxPackageLines)
		}
	}
	if len(packages) < 50 {
		t.Errorf("only %d packages were found", len(packages))
	}
}
