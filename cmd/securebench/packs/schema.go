package packs

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/families"
	"securebench/internal/fault"
	"securebench/internal/importer/packdir"
	"securebench/internal/redact"
	"securebench/internal/schemas"
)

func (g group) schemaCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "schema [NAME]", Short: "Print the JSON Schema of a file",
		Long: `Print the JSON Schema (draft 2020-12) of a file that you write, or that a run
leaves, or list the schemas. With -o, write NAME.schema.json, or all of them, into
a folder.

An editor that knows the schema of a file completes and explains its keys.
"securebench init" writes packs whose files name theirs. The schemas are as strict
as "securebench pack check --strict": an unknown key is an error.`,
		Example:           "  securebench schema tester\n  securebench schema -o schema",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(schemas.Names(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case dir != "":
				return g.writeSchemas(dir, args)
			case len(args) == 0:
				return g.listSchemas()
			}
			text, err := schemas.Text(args[0], families.All())
			if err != nil {
				return subcommand.UsageError(err)
			}
			_, err = g.Stdout.Write(text)
			return err
		},
	}
	c.Flags().StringVarP(&dir, "output-dir", "o", "", "`DIR` to write into; what is there is replaced")
	return c
}

func (g group) listSchemas() error {
	w := console.NewTable(g.Stdout)
	fmt.Fprintln(w, "NAME\tDESCRIBES")
	for _, s := range schemas.All() {
		fmt.Fprintf(w, "%s\t%s\n", s.Name, s.What)
	}
	return w.Flush()
}

// schemaFile is the name of a schema's file.
func schemaFile(name string) string { return name + ".schema.json" }

func (g group) writeSchemas(dir string, names []string) error {
	if len(names) == 0 {
		names = schemas.Names()
	}
	out, err := packdir.New(dir, true)
	if err != nil {
		return fault.As(fault.Refused, err)
	}
	defer out.Discard()
	for _, name := range names {
		text, err := schemas.Text(name, families.All())
		if err != nil {
			return subcommand.UsageError(err)
		}
		if err := out.PutFile(schemaFile(name), text, false); err != nil {
			return fault.As(fault.Refused, err)
		}
	}
	if err := out.Commit(); err != nil {
		return fault.As(fault.Refused, err)
	}
	_, err = fmt.Fprintf(g.Stdout, "wrote %s into %s\n", strings.Join(names, ", "), redact.Quote(dir))
	return err
}
