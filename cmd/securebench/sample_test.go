package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"securebench/internal/sampletest"
)

// behindProgram are the attacks of a corpus that are fired at the shipped program: those
// that no other test fires, as docs/attacks says, and some of the rest, of which each is
// fired at its family or at the engines as well.
func behindProgram(t *testing.T, corpus []attack) []attack {
	t.Helper()
	if sampletest.Whole() {
		return corpus
	}
	elsewhere := firedElsewhere(t)
	var out, rest []attack
	for _, a := range corpus {
		if id := regexp.MustCompile(`^[A-Z][0-9]{2}`).FindString(a.id); elsewhere[id] {
			rest = append(rest, a)
		} else {
			out = append(out, a)
		}
	}
	return append(out, sampletest.Of(t, 6, rest)...)
}

// firedElsewhere reads which attacks of docs/attacks have tests in other packages.
func firedElsewhere(t *testing.T) map[string]bool {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "attacks", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	row, other := regexp.MustCompile(`^\| ([A-Z][0-9]{2}) \|.*\| (.*) \|\n`), regexp.MustCompile("`internal/[a-z0-9/]+ (Test|Fuzz)")
	out := map[string]bool{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if m := row.FindStringSubmatch(line); m != nil && other.MatchString(m[2]) {
				out[m[1]] = true
			}
		}
	}
	if len(out) < 50 {
		t.Fatalf("docs/attacks names tests of other packages for %d attacks", len(out))
	}
	return out
}
