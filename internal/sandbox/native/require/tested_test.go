package require

import (
	"os"
	"strings"
	"testing"
)

// TestTableOfTested holds the documentation to what auto goes by.
func TestTableOfTested(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/engines.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Tested\n")
	count := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "|\n "), " | ")
		if len(cells) != 5 || cells[4] != "yes" {
			continue
		}
		count++
		runtime, _, _ := strings.Cut(cells[0], " ")
		found := false
		for _, c := range tested() {
			found = found || c == combination{runtime, strings.TrimPrefix(cells[1], "version "), cells[2] == "without root", cells[3] == "yes"}
		}
		if !found {
			t.Errorf("%q is documented as tested, and is not", line)
		}
	}
	if count != len(tested()) {
		t.Errorf("%d kinds of machines are documented as tested, not %d", count, len(tested()))
	}
}
