package console_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/console"
)

func laidOut(t interface{ Fatal(...any) }, lines string) string {
	var b bytes.Buffer
	table := console.NewTable(&b)
	if _, err := table.Write([]byte(lines)); err != nil {
		t.Fatal(err)
	}
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTable(t *testing.T) {
	n := func(k int) string { return strings.Repeat("n", k) }
	for in, want := range map[string]string{
		"":                  "",
		"nothing here\n":    "nothing here\n",
		"A\tBB\nccc\td\n":   "A    BB\nccc  d\n",
		"A\tB\n\nccc\td\n":  "A  B\n\nccc  d\n",
		"日本\tx\nab\ty\n":    "日本  x\nab    y\n",
		"A\t\tC\n":          "A    C\n",
		n(90) + "\n":        n(78) + "\n  " + n(12) + "\n",
		"  " + n(90) + "\n": "  " + n(76) + "\n    " + n(14) + "\n",
		n(90) + "\tx\n":     n(75) + "    x\n  " + n(15) + "\n",
		"x\t" + n(60) + " " + n(60) + "\ty\n": "x  " + n(60) + strings.Repeat(" ", 16) + "y\n" +
			"   " + n(60) + "\n",
		// The space after a word that fills its column does not begin the next row.
		// The space after a word that fills its row does not begin the next one.
		n(78) + " " + n(9) + "\n":   n(78) + "\n  " + n(9) + "\n",
		n(156) + "  " + n(9) + "\n": n(78) + "\n  " + n(78) + "\n  " + n(9) + "\n",
		// The widest columns give way, the others keep their width.
		"KEY\t" + n(50) + "\t" + n(40) + "\n": "KEY  " + n(33) + "  " + n(40) + "\n     " + n(17) + "\n",
		strings.Repeat("word ", 12) + "\t" + n(50) + "\n": strings.Repeat("word ", 4) + "word      " + n(50) + "\n" +
			"  word word word word word\n  word word\n",
	} {
		if diff := cmp.Diff(want, laidOut(t, in)); diff != "" {
			t.Errorf("%q:\n%s", in, diff)
		}
	}
}

// TestTableFits: whatever the cells, up to ten columns fit, no character is lost, and
// only the first cells of lines begin lines.
func TestTableFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.StringMatching(`[A-Z]{0,3}[a-z日é /-]{0,120}`)
		var in strings.Builder
		starts := 0
		for range rapid.IntRange(1, 6).Draw(t, "lines") {
			cells := rapid.SliceOfN(cell, 1, 10).Draw(t, "cells")
			cells[0] = "X" + cells[0]
			in.WriteString(strings.Join(cells, "\t") + "\n")
			starts++
		}
		out := laidOut(t, in.String())
		for line := range strings.Lines(out) {
			line = strings.TrimSuffix(line, "\n")
			if ansi.StringWidth(line) > console.DefaultWidth {
				t.Fatalf("%d columns: %q", ansi.StringWidth(line), line)
			}
			if !strings.HasPrefix(line, " ") {
				starts--
			}
		}
		if starts != 0 {
			t.Fatalf("%d lines too few begin without a space:\n%s", starts, out)
		}
		if diff := cmp.Diff(letters(in.String()), letters(out)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestParagraphs(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                               "",
		"one two\nthree\n\nfour\n":       "one two\nthree\n\nfour\n",
		"one two three\nfour\n\nfive":    "one two\nthree four\n\nfive",
		"one two three\n  a  bb cc dd\n": "one two\nthree\n  a  bb cc dd\n",
		"  a  b\n  c\nd":                 "  a  b\n  c\nd",
		"a-word-that-fits-nowhere":       "a-word-tha\nt-fits-now\nhere",
	} {
		if diff := cmp.Diff(want, console.Paragraphs(in, 10)); diff != "" {
			t.Errorf("%q: %s", in, diff)
		}
	}
}

// letters counts the characters of a text that are not white space.
func letters(s string) map[rune]int {
	n := map[rune]int{}
	for _, r := range s {
		if !strings.ContainsRune(" \t\n", r) {
			n[r]++
		}
	}
	return n
}

func TestShortDigest(t *testing.T) {
	for in, want := range map[string]string{"": "", "sha256:0123456789abcdef": "0123456789ab", "0123": "0123"} {
		if got := console.ShortDigest(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
