package packs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/durable"
	"securebench/internal/families"
	"securebench/internal/fault"
	"securebench/internal/importer/packdir"
	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/workload"
)

func (g group) addCommand() *cobra.Command {
	var id string
	c := &cobra.Command{
		Use: "add PACK FAMILY", Short: "Append a row from a template", Args: subcommand.Need("PACK", "FAMILY"),
		Long: `Append a row of a family to a pack, with the files that it needs, as "securebench
init" writes them: a whole task that validates, to be changed into your own.
Existing rows and files stay as they are. Families with a template:
` + strings.Join(templateFamilies(), ", ") + ".",
		Example: "  securebench pack add my-pack terminal_task --id count-orders",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return templateFamilies(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			return g.add(c.Context(), args[0], args[1], id)
		},
	}
	c.Flags().StringVar(&id, "id", "", "the row's `ID` (default: the family with a number)")
	return c
}

func (g group) add(ctx context.Context, arg, family, id string) error {
	loc, _, err := subcommand.Locate(arg)
	if err != nil {
		return err
	}
	taken := map[string]bool{}
	in, err := workload.Load(ctx, loc, families.All(), workload.All, workload.Demands{Unkept: true, Seen: func(id string) { taken[id] = true }})
	if err != nil {
		return err
	}
	if id == "" {
		id = freshID(family, func(id string) bool { return taken[id] })
	}
	if err := checkName("the row's id", id); err != nil {
		return subcommand.UsageError(fmt.Errorf("%w (give --id)", err))
	}
	if taken[id] {
		return fault.As(fault.Refused, fmt.Errorf("%s already has a row with the id %q: give another --id", loc.Tasks, id))
	}
	m := in.Manifest
	at := rowPlace{Pack: m.ID, Version: m.Version, Public: m.PublicRoot, Eval: m.EvalRoot}
	if in.IsFolder() {
		at.Task = filepath.Base(loc.Tasks)
	}
	row, err := newRow(family, id, at)
	if err != nil {
		return subcommand.UsageError(err)
	}
	if row.Image {
		if err := checkName("the pack's id", m.ID); err != nil {
			return fault.As(fault.Pack, fmt.Errorf("%s: %w: it is part of the names of images", loc.Manifest, err))
		}
	}
	if at.Task != "" {
		err = writeTask(filepath.Dir(loc.Manifest), row)
	} else {
		err = appendRow(loc.Tasks, filepath.Dir(loc.Manifest), row)
	}
	if err != nil {
		return fault.As(fault.Refused, fmt.Errorf("adding a row to %s: %w", loc.Tasks, err))
	}
	text := fmt.Sprintf("added %s (%s) to %s", redact.Quote(id), family, redact.Quote(loc.Tasks))
	for _, f := range row.Files {
		text += "\n  with " + redact.Quote(filepath.Join(filepath.Dir(loc.Manifest), f.Path))
	}
	if row.Image {
		text += fmt.Sprintf("\nits image has yet to be built: %s pack build %s %s", g.Called, console.ShellQuote(arg), id)
	}
	_, err = fmt.Fprintln(g.Stdout, text)
	return err
}

// writeTask writes a task with its files, none of which may exist.
func writeTask(pack string, row starterRow) error {
	files, err := packdir.New(pack, false)
	if err != nil {
		return err
	}
	defer files.Discard()
	for _, f := range row.Files {
		if err := files.PutFile(f.Path, f.Data, false); err != nil {
			return err
		}
	}
	return files.Commit()
}

// maxTasks bounds a file of rows that is rewritten.
const maxTasks = 1 << 30

// appendRow writes the row's files, none of which may exist, and then the rows with
// the new one, whole or not at all.
func appendRow(tasks, pack string, row starterRow) (err error) {
	before, err := source.ReadFile(tasks, maxTasks)
	if err != nil {
		return err
	}
	if len(before) > 0 && !bytes.HasSuffix(before, []byte("\n")) {
		before = append(before, '\n')
	}
	files, err := packdir.New(pack, false)
	if err != nil {
		return err
	}
	defer files.Discard()
	for _, f := range row.Files {
		if err := files.PutFile(f.Path, f.Data, false); err != nil {
			return err
		}
	}
	if err := files.Commit(); err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(tasks))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return durable.WriteFile(root, filepath.Base(tasks), append(before, row.Line...), 0o644)
}
