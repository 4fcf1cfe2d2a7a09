package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAttackTable keeps docs/attacks.md honest: every test that it names is
// there, and its counts are those of its rows.
func TestAttackTable(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "attacks.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`^\| ([A-Z][0-9]{2}) \| ([A-Z/]+) \| [^|]+ \| .* \| (.*) \| (.*) \|$`)
	test := regexp.MustCompile("`([a-z/]+) ((?:Test|Fuzz)[A-Za-z0-9]+)")
	held, part, seen := map[string]int{}, map[string]int{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		m := row.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		id, tier, result := m[1], m[2], m[3]
		if seen[id] {
			t.Errorf("%s has two rows", id)
		}
		seen[id] = true
		if strings.HasPrefix(result, "in part") {
			part[tier]++
			part["all"]++
		} else {
			held[tier]++
			held["all"]++
		}
		named := test.FindAllStringSubmatch(m[4], -1)
		if len(named) == 0 {
			t.Errorf("%s names no test", id)
		}
		for _, n := range named {
			if !declares(t, filepath.Join(root, n[1]), n[2]) {
				t.Errorf("%s names %s in %s, which is not there", id, n[2], n[1])
			}
		}
	}
	if len(seen) < 80 {
		t.Fatalf("only %d rows were read", len(seen))
	}
	for _, tier := range []string{"U", "U/P", "U/C", "P", "P/C", "C", "all"} {
		want := fmt.Sprintf("| %s | %d | %d |", tier, held[tier], part[tier])
		if !strings.Contains(string(text), "\n"+want) {
			t.Errorf("the counts do not say %q", want)
		}
	}
}

// declares reports whether a test is declared in a folder.
func declares(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
