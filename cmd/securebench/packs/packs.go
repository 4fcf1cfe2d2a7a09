// Package packs provides the commands about packs: "securebench init", which writes a
// first one, "securebench schema", and the group "securebench pack", which checks, adds
// to, shows, imports and builds them.
package packs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/families"
	"securebench/internal/family"
	"securebench/internal/family/repopatch/policy"
	"securebench/internal/fault"
	"securebench/internal/importer"
	"securebench/internal/importer/packdir"
	"securebench/internal/packlint"
	"securebench/internal/pipeline/pack"
	"securebench/internal/redact"
	"securebench/internal/sandbox/engines"
	"securebench/internal/source"
	"securebench/internal/workload"
)

// group is the command group in its surroundings.
type group struct{ *subcommand.Shell }

// Commands returns the commands.
func Commands(sh *subcommand.Shell) []*cobra.Command {
	g := group{sh}
	return []*cobra.Command{g.command(), g.initCommand(), g.schemaCommand()}
}

func (g group) command() *cobra.Command {
	c := &cobra.Command{Use: "pack", Short: "Check, extend, show, import and build packs", Args: cobra.NoArgs, RunE: subcommand.Missing,
		Example: "  securebench pack check packs/demo\n  securebench pack show packs/demo HumanEval/0"}
	c.AddCommand(g.checkCommand(), g.lintCommand(), g.addCommand(), g.freezeCommand(), g.showCommand(), g.importCommand(), g.buildCommand(), g.lockCommand())
	return c
}

func (g group) checkCommand() *cobra.Command {
	var strict bool
	c := &cobra.Command{
		Use: "check PACK", Short: "Check a pack without running anything", Args: subcommand.Need("PACK"),
		Long: `Check a pack without running anything: the manifest, every row against its
family's schema and rules, ids, assets. Every error names file, line and
column. Warnings are printed and do not change the exit code, unless --strict
turns them into errors. A pack without rows is a warning.`,
		Example: "  securebench pack check packs/demo",
		RunE: func(c *cobra.Command, args []string) error {
			return g.check(c.Context(), args[0], strict)
		},
	}
	c.Flags().BoolVar(&strict, "strict", false, "refuse a pack that has warnings")
	return c
}

func (g group) lintCommand() *cobra.Command {
	var strict, images bool
	c := &cobra.Command{
		Use: "lint PACK", Short: "Look for what is wrong with a pack that is passed on", Args: subcommand.Need("PACK"),
		Long: `Look for what is wrong with a pack that others are to use: all that "pack check" finds, and
what keeps it from being the same for them, or from being passed on at all: images that are
named by a tag, packages without a version in the recipes of images, and a licence and a
source that nothing names. Everything is a warning, unless --strict turns it into an error.

With --images, the images that "pack build" made are searched as well, every layer and the
configuration of each: for the hidden values, tests and evaluation files of the tasks whose
agents run in it. They are exported from Docker, one after the other, to the folder for
temporary files.`,
		Example: "  securebench pack lint packs/demo\n  securebench pack lint packs/quixbugs --images",
		RunE: func(c *cobra.Command, args []string) error {
			return g.lint(c.Context(), args[0], strict, images)
		},
	}
	c.Flags().BoolVar(&strict, "strict", false, "refuse a pack that has warnings")
	c.Flags().BoolVar(&images, "images", false, "search the layers of the images that the pack builds")
	return c
}

func (g group) lint(ctx context.Context, arg string, strict, images bool) error {
	in, err := g.warned(ctx, arg, strict)
	if err != nil {
		return err
	}
	found, err := packlint.Lasting(ctx, in.Pack)
	if err != nil {
		return fault.As(fault.Pack, err)
	}
	if images {
		inside, err := g.layers(ctx, in.Pack)
		if err != nil {
			return err
		}
		found = append(found, inside...)
	}
	if strict && len(found) > 0 {
		return fault.As(fault.Pack, found.Err())
	}
	for _, w := range found {
		g.Say("warning: %v", w)
	}
	in.Warnings = append(in.Warnings, found...)
	return g.checked(in)
}

// layers searches the images of a pack.
func (g group) layers(ctx context.Context, p *pack.Pack) (found source.Problems, err error) {
	docker, err := engines.OpenDockerImages(ctx, g.Getenv)
	if err != nil {
		return nil, fault.As(fault.Engine, err)
	}
	defer func() { err = errors.Join(err, docker.Close()) }()
	temp, err := os.MkdirTemp("", "securebench-images-")
	if err != nil {
		return nil, fault.As(fault.Infrastructure, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	found, err = packlint.Layers(ctx, p, families.All(), docker.ExportImage, temp)
	if ctx.Err() != nil {
		return nil, fault.Errorf(fault.Interrupted, "interrupted while searching images")
	}
	return found, fault.As(fault.Engine, err)
}

func (g group) check(ctx context.Context, arg string, strict bool) error {
	in, err := g.warned(ctx, arg, strict)
	if err != nil {
		return err
	}
	return g.checked(in)
}

// warned loads a pack and prints its warnings.
func (g group) warned(ctx context.Context, arg string, strict bool) (*workload.Workload, error) {
	loc, _, err := subcommand.Locate(arg)
	if err != nil {
		return nil, err
	}
	in, err := workload.Load(ctx, loc, families.All(), workload.All, workload.Demands{Strict: strict, Lint: true, Leaks: true, Unkept: true})
	if err != nil {
		return nil, err
	}
	for _, w := range in.Warnings {
		g.Say("warning: %v", w)
	}
	return in, nil
}

// checked says how much was found.
func (g group) checked(in *workload.Workload) error {
	_, err := fmt.Fprintf(g.Stdout, "%s version %d: %s good, %s\n", redact.Quote(in.Manifest.ID), in.Manifest.Version,
		console.Plural(in.Count, "row"), console.Plural(len(in.Warnings), "warning"))
	return err
}

func (g group) showCommand() *cobra.Command {
	var as string
	c := &cobra.Command{
		Use: "show PACK TASK", Short: "Show the part of a task that a component sees", Args: subcommand.Need("PACK", "TASK"),
		Long: `Show the part of a task that a component sees, as one JSON object:

  agent         the public lane, which the agent sees
  test_sandbox  the public lane and the evaluation inputs
  evaluator     the public lane and the hidden values
  result        what is published: all names, with the other lanes redacted`,
		Example: "  securebench pack show packs/demo HumanEval/0 --as agent",
		RunE: func(c *cobra.Command, args []string) error {
			return g.show(c.Context(), args[0], args[1], as)
		},
	}
	c.Flags().StringVar(&as, "as", "agent", "`VIEW`: agent, test_sandbox, evaluator or result")
	return c
}

func (g group) show(ctx context.Context, arg, id, as string) error {
	view, err := workload.View(as)
	if err != nil {
		return subcommand.UsageError(err)
	}
	loc, _, err := subcommand.Locate(arg)
	if err != nil {
		return err
	}
	in, err := workload.Load(ctx, loc, families.All(), workload.All, workload.Demands{Unkept: true})
	if err != nil {
		return err
	}
	row, err := in.Find(ctx, id)
	if err != nil {
		return fault.As(fault.Pack, err)
	}
	t, err := in.Compiler.Task(row)
	if err != nil {
		return fault.As(fault.Pack, err)
	}
	text, err := view(t)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(g.Stdout, text)
	return err
}

func (g group) importCommand() *cobra.Command {
	var o importer.Options
	var out string
	c := &cobra.Command{
		Use: "import FORMAT FILE -o DIR", Short: "Convert a public data set into a pack", Args: subcommand.Need("FORMAT", "FILE"),
		Long: "Convert a public data set into a pack. FORMAT is one of\n\n  " + strings.Join(importer.Formats(), "\n  ") + `

FILE is the data set's own JSON lines file; for harbor and terminal-bench it is
a task's folder, or a folder of such folders, for bfcl a file or the folder
bfcl_eval/data of its repository, and for dacode, sheetcopilot and spreadsheetbench a file
with the folders of files beside it, or the repository. Tasks that cannot be imported are
listed with the reason. The output folder gets a manifest, the
rows, and ATTRIBUTION.md with licence and source; gsm8k-answers gives files for
--agent replay instead.`,
		Example: "  securebench pack import humaneval HumanEval.jsonl -o packs/humaneval",
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkLimit(c, o.Limit); err != nil {
				return err
			}
			return g.convert(c.Context(), args[0], args[1], out, o)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&out, "output-dir", "o", "", "`DIR` to write (required)")
	fl.StringVar(&o.ID, "id", "", "the pack's `ID` (default: the format's name)")
	fl.StringVar(&o.Image, "image", importer.DefaultImage, "the rows' `IMAGE`")
	fl.StringVar(&o.Seed, "seed", importer.DefaultSeed, "`SEED` of the order of choices, recorded in each row")
	fl.IntVar(&o.Limit, "limit", 0, "import only the first `N` rows (default all)")
	fl.StringVar(&o.Repos, "repos", "", "swebench: the `DIR` of the repositories' clones")
	fl.StringVar(&o.Specs, "specs", "", "swebench: a `FILE` that says how tests run")
	fl.StringVar(&o.Start, "start", "", "harbor, terminal-bench: a `FILE` that says what is started for the check")
	fl.StringVar(&o.Rule, "rule", importer.OfficialRule, "dacode, spreadsheetbench: the `RULE` that scores rows, official or own")
	fl.BoolVar(&o.Force, "force", false, "replace files that exist, and remove others of a former import")
	c.AddCommand(g.tableCommand(time.Second))
	return c
}

// checkLimit refuses a --limit that would import nothing.
func checkLimit(c *cobra.Command, n int) error {
	if c.Flags().Changed("limit") && n < 1 {
		return subcommand.UsageError(errors.New("--limit must be 1 or more: without it all rows are imported"))
	}
	return nil
}

// refusal is the first problem that a family has with a row, or "".
func refusal(name string, input, eval map[string]jsontext.Value) string {
	f := families.All()[name]
	if f.Check == nil {
		return ""
	}
	problems := f.Check(family.Row{Input: input, Eval: eval})
	if len(problems) == 0 {
		return ""
	}
	return strings.Join(problems[0].Path, ".") + " " + problems[0].Message
}

func (g group) convert(ctx context.Context, format, file, out string, o importer.Options) error {
	switch {
	case !slices.Contains(importer.Formats(), format):
		return subcommand.UsageError(fmt.Errorf("unknown format %q, want one of %s", format, strings.Join(importer.Formats(), ", ")))
	case out == "":
		return subcommand.UsageError(errors.New("missing output folder: give -o DIR"))
	}
	o.Name, o.Denied, o.Refusal = file, policy.Denied, refusal
	in := io.NopCloser(strings.NewReader("")) // a folder is read by its name
	if !importer.IsFolder(format, file) {
		f, err := source.Open(file)
		if err != nil {
			return fault.As(fault.Pack, fmt.Errorf("opening the data set: %w", err))
		}
		in = f
	}
	defer in.Close()
	sum, err := importer.Import(ctx, format, in, out, o)
	if errors.Is(err, packdir.ErrExists) || errors.Is(err, packdir.ErrOutput) {
		return fault.As(fault.Refused, err)
	}
	if err != nil {
		return fault.As(fault.Pack, err)
	}
	for _, task := range sum.LeftOut {
		g.Say("left out: %s", task)
	}
	for _, note := range sum.Notes {
		g.Say("note: %s", note)
	}
	images := ""
	if sum.Images > 0 {
		images = fmt.Sprintf("; %s to build with: securebench pack build %s", console.Plural(sum.Images, "image"), redact.Quote(sum.Dir))
	}
	_, err = fmt.Fprintf(g.Stdout, "imported %d rows of %s into %s: %s%s\n", sum.Rows, sum.Format, redact.Quote(sum.Dir), strings.Join(sum.Files, ", "), images)
	return err
}
