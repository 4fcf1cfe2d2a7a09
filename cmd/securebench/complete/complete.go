// Package complete makes the command line forgiving: it completes packs, runs, tasks
// and families, suggests what a misspelt word may mean, writes manual pages, and finds what
// the documents say.
package complete

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/config"
	"securebench/internal/families"
	"securebench/internal/progress"
)

// Setup prepares the program's command, after all others were added to it.
func Setup(root *cobra.Command, version string) {
	root.Version = version
	root.SetVersionTemplate("securebench {{.Version}}\n")
	root.InitDefaultVersionFlag()
	root.Flag("version").Usage = "print the version"
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(manCommand(), docsCommand())
	root.InitDefaultCompletionCmd()
	visit(root, func(c *cobra.Command) {
		if c.HasSubCommands() && len(arguments(c.Use)) == 0 { // it only groups them
			c.Args, c.RunE = unknown, subcommand.Missing
		}
		strict(c)
		words(c)
	})
	root.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}

func visit(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		visit(sub, do)
	}
}

// words lets a command complete its arguments and the values of its flags, by what its
// usage calls them.
func words(c *cobra.Command) {
	if args := arguments(c.Use); c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 && len(args) > 0 {
		c.ValidArgsFunction = func(c *cobra.Command, given []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			kind := args[min(len(given), len(args)-1)]
			if len(given) >= len(args) && !strings.HasSuffix(kind, "...") {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return values(strings.TrimSuffix(kind, "..."), given, word)
		}
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, ok := c.GetFlagCompletionFunc(f.Name); ok || f.Hidden || f.Value.Type() == "bool" {
			return
		}
		value, _ := pflag.UnquoteUsage(f)
		// The flag is there, and has none yet: nothing can fail.
		_ = c.RegisterFlagCompletionFunc(f.Name, func(c *cobra.Command, given []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			switch f.Name {
			case "task", "family", "engine", "progress", "agent", "fail-on", "as", "resume":
				return values("--"+f.Name, given, word)
			}
			return values(value, given, word)
		})
	})
}

// arguments returns what a usage line calls the arguments of its command, such as PACK
// in "check PACK".
func arguments(use string) []string {
	var out []string
	for _, word := range strings.Fields(use)[1:] {
		word = strings.Trim(word, "[]{}…")
		if strings.HasPrefix(word, "-") || word == "|" {
			break
		}
		out = append(out, word)
	}
	return out
}

// values are the completions of a word, by what the usage calls its value.
func values(kind string, given []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const closed = cobra.ShellCompDirectiveNoFileComp
	switch kind {
	case "PACK":
		return found(packs(word))
	case "RUN":
		return found(runs(word))
	case "TASK", "--task":
		return startingWith(tasks(given), word), closed
	case "FAMILY", "--family":
		return startingWith(slices.Sorted(maps.Keys(families.All())), word), closed
	case "--engine":
		return startingWith([]string{config.EngineAuto, config.EngineDocker, config.EngineNative}, word), closed
	case "--progress":
		return startingWith([]string{string(progress.Auto), string(progress.Plain), string(progress.JSON), string(progress.None)}, word), closed
	case "--agent":
		return startingWith([]string{"null", "oracle", "replay:"}, word), closed | cobra.ShellCompDirectiveNoSpace
	case "--fail-on":
		return startingWith([]string{"any", "failed", "pending", "rate<", "regression:"}, word), closed | cobra.ShellCompDirectiveNoSpace
	case "--as":
		return startingWith([]string{"agent", "evaluator", "result", "test_sandbox"}, word), closed
	case "--resume":
		return startingWith([]string{"rerun-changed"}, word), closed
	case "FILE", "SOURCE":
		return nil, cobra.ShellCompDirectiveDefault
	case "DIR":
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return nil, closed
}

// found completes names of files; where there are none, the shell completes.
func found(names []string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(names) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func startingWith(all []string, word string) []cobra.Completion {
	var out []cobra.Completion
	for _, name := range all {
		if strings.HasPrefix(name, word) {
			out = append(out, name)
		}
	}
	return out
}

const manHelp = `Write the manual pages of all commands into DIR, one file each, as packages of
securebench have them.`

func manCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "man -o DIR", Short: "Write the manual pages", Long: manHelp, Args: cobra.NoArgs, Hidden: true,
		Example: "  securebench man -o /usr/local/share/man/man1",
		RunE: func(c *cobra.Command, _ []string) error {
			if dir == "" {
				return subcommand.UsageError(fmt.Errorf("missing folder: give -o DIR"))
			}
			return writeManual(c.Root(), dir)
		},
	}
	c.Flags().StringVarP(&dir, "output-dir", "o", "", "`DIR` to write into")
	return c
}
