package main

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"securebench/internal/console"
)

// synonyms are names that a flag must not have, because another name already
// means it. What is hidden may: a former name still works.
func synonyms() map[string]string {
	return map[string]string{
		"format": "json", "as-json": "json", "to-csv": "csv",
		"out": "output", "output-file": "output", "file": "output", "outdir": "output-dir", "dir": "output-dir", "folder": "output-dir",
		"jobs": "workers", "parallel": "workers", "concurrency": "workers",
		"overwrite": "force", "replace": "force", "assume-yes": "yes", "silent": "quiet",
		"max": "limit", "count": "limit", "first": "limit", "random": "sample",
		"tasks": "task", "only": "task", "tags": "tag", "families": "family",
		"tester": "config", "pubkey": "key", "public-key": "key", "times": "repeat", "samples": "attempts",
	}
}

// outputs are the names behind -o: a file and a folder are different things to ask for.
func outputs() []string { return []string{"output", "output-dir"} }

// TestOneNameForOneFlag: over all commands, a flag has one name, one type and one
// letter, and its value a name in capitals.
func TestOneNameForOneFlag(t *testing.T) {
	type use struct{ command, value, short string }
	names, letters := map[string]use{}, map[string]string{}
	eachCommand(t, func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			at := c.CommandPath() + " --" + f.Name
			if other := synonyms()[f.Name]; other != "" {
				t.Errorf("%s: the name of this flag is --%s", at, other)
			}
			now := use{c.CommandPath(), kind(f), f.Shorthand}
			if before, ok := names[f.Name]; ok && (before.value != now.value || before.short != now.short) {
				t.Errorf("%s is a %s with the letter %q, and %q of %s a %s with %q", at, now.value, now.short, f.Name, before.command, before.value, before.short)
			}
			names[f.Name] = now
			if f.Shorthand != "" {
				name := f.Name
				if name == outputs()[1] {
					name = outputs()[0]
				}
				if before, ok := letters[f.Shorthand]; ok && before != name {
					t.Errorf("%s: -%s is --%s elsewhere", at, f.Shorthand, before)
				}
				letters[f.Shorthand] = name
			}
			value, usage := pflag.UnquoteUsage(f)
			if value != strings.ToUpper(value) || value == "" && f.Value.Type() != "bool" {
				t.Errorf("%s: its value is %q in the help: put a word in capitals between backquotes", at, value)
			}
			if first := []rune(usage + ".")[0]; strings.HasSuffix(usage, ".") || unicode.IsUpper(first) && !strings.HasPrefix(usage, value) {
				t.Errorf("%s: %q is not a phrase", at, usage)
			}
			if f.Name == "json" && !strings.HasPrefix(usage, "print one JSON object") {
				t.Errorf("%s: %q: --json prints objects on standard output", at, usage)
			}
		})
	})
	if len(names) < 25 {
		t.Errorf("only %d flags were found", len(names))
	}
}

// kind is a flag's type. One engine and several are one kind.
func kind(f *pflag.Flag) string {
	switch f.Name {
	case "engine": // bench takes several
		return "name"
	case "seed": // of numbers that are drawn, and of an order of rows, which has a text
		return "seed"
	}
	return f.Value.Type()
}

// eachCommand visits all commands that a user can see.
func eachCommand(t *testing.T, visit func(*cobra.Command)) {
	t.Helper()
	n := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		n++
		visit(c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).root())
	if n < 25 {
		t.Errorf("only %d commands were found", n)
	}
}

// TestTablesOfHelpFit: the text and the lists of commands and flags fit 80 columns.
func TestTablesOfHelpFit(t *testing.T) {
	eachCommand(t, func(c *cobra.Command) {
		if c.Parent() != nil && c.Parent().Name() == "completion" {
			return // cobra's own text
		}
		var help strings.Builder
		c.SetOut(&help)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		text, usage, ok := strings.Cut(help.String(), "\nUsage:\n")
		if !ok {
			t.Fatalf("%s --help has no usage: %q", c.CommandPath(), help.String())
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > console.DefaultWidth {
				t.Errorf("%s --help: %d characters: %s", c.CommandPath(), len(line), line)
			}
		}
		for line := range strings.Lines(usage) {
			if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "  securebench ") && len(line) > console.DefaultWidth {
				t.Errorf("%s --help: %d characters: %s", c.CommandPath(), len(line), line)
			}
		}
	})
}
