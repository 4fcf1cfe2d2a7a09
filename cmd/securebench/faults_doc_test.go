package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFaultTable: every test that docs/faults.md names exists.
func TestFaultTable(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "faults.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 || cells[1] == " fault " || strings.HasPrefix(cells[1], "---") {
			continue
		}
		rows++
		checkNamedTests(t, root, "| "+cells[1]+"|"+cells[3]+"|") // the tests are its last column
	}
	if rows < 15 {
		t.Errorf("only %d rows were read", rows)
	}
}
