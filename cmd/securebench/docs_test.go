package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestAttackTable checks the pages of docs/attacks: every test that they name
// exists, and the counts match the rows.
func TestAttackTable(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "attacks", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var text []byte // of all pages
	for _, page := range pages {
		more, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, more...)
	}
	row := regexp.MustCompile(`^\| ([A-Z][0-9]{2}) \| ([A-Z/]+) \| [^|]+ \| .* \| (.*) \| (.*) \|$`)
	held, part, seen := map[string]int{}, map[string]int{}, map[string]bool{}
	beside := false // the table is one of attacks that are not in the corpus
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(line, " test |\n") {
			beside = strings.HasPrefix(line, "| attack |")
		}
		if beside {
			checkNamedTests(t, root, line)
			continue
		}
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
		checkNamedTests(t, root, m[0])
	}
	if len(seen) < 80 {
		t.Fatalf("only %d rows were read", len(seen))
	}
	for _, tier := range []string{"U", "U/P", "U/C", "U/L", "P", "P/C", "C", "L", "all"} {
		want := fmt.Sprintf("| %s | %d | %d |", tier, held[tier], part[tier])
		if !strings.Contains(string(text), "\n"+want) {
			t.Errorf("the counts do not say %q", want)
		}
	}
}

// namedTest is a test as the tables name it: a package and a function.
var namedTest = regexp.MustCompile("`([a-z/]+) ((?:Test|Fuzz)[A-Za-z0-9_]+)")

// checkNamedTests fails unless a row of a table names a test, and every test
// that it names exists. Other lines are ignored.
func checkNamedTests(t *testing.T, root, line string) {
	t.Helper()
	row := strings.TrimSpace(line)
	if !strings.HasPrefix(row, "| ") || strings.HasSuffix(row, "| test |") {
		return
	}
	named := namedTest.FindAllStringSubmatch(row[strings.LastIndex(strings.TrimSuffix(row, "|"), "|"):], -1)
	if len(named) == 0 {
		t.Errorf("this row names no test: %s", row)
	}
	for _, n := range named {
		if !declares(t, filepath.Join(root, n[1]), n[2]) {
			t.Errorf("this row names %s in %s, which is not there: %s", n[2], n[1], row)
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

// TestComingFrom: the commands and flags that docs/coming-from.md names as ours exist.
func TestComingFrom(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "coming-from.md"))
	if err != nil {
		t.Fatal(err)
	}
	root := new(app).root()
	known := map[string]bool{}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { known["--"+f.Name] = true })
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	code, flags := regexp.MustCompile("`[^`]+`"), regexp.MustCompile(`(?:^|[\s\x60'])(--[a-z][a-z-]*)`)
	checked := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 2 {
			continue
		}
		for _, quoted := range code.FindAllString(cells[1], -1) {
			has := func(flag string) bool { return known[flag] }
			if words := strings.Fields(strings.Trim(quoted, "`")); words[0] == "securebench" {
				c, _, err := root.Find(words[1:])
				if err != nil || c == root {
					t.Errorf("%s: there is no such command", quoted)
				}
				has = func(flag string) bool { return c.Flag(flag[2:]) != nil }
			}
			for _, m := range flags.FindAllStringSubmatch(quoted, -1) {
				if checked++; !has(m[1]) {
					t.Errorf("%s: there is no flag %s", quoted, m[1])
				}
			}
		}
	}
	if checked < 30 {
		t.Errorf("only %d flags were read", checked)
	}
}
