package packs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/families"
	"securebench/internal/fault"
	"securebench/internal/importer/packdir"
	"securebench/internal/redact"
	"securebench/internal/schemas"
)

// newPack is what init needs to know.
type newPack struct {
	dir, id  string
	families []string
}

// defaults of a new pack.
const defaultDir = "my-pack"

func defaultFamilies() []string { return []string{"short_answer", "code_completion"} }

func (g group) initCommand() *cobra.Command {
	var p newPack
	c := &cobra.Command{
		Use: "init [DIR]", Short: "Write a first pack, which validates and runs",
		Long: `Write a first pack into a new folder: a manifest, a row of each family that you
want, with its files, a tester YAML, and the schemas with which an editor completes
and checks them. The pack passes "securebench validate" and runs. "securebench pack
add" appends more rows.

On a terminal it asks for what you do not give. Families with a template:
` + strings.Join(templateFamilies(), ", ") + ".",
		Example: "  securebench init my-pack\n  securebench init my-pack --family short_answer --family terminal_task",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				p.dir = args[0]
			}
			if err := g.complete(c.InOrStdin(), &p); err != nil {
				return err
			}
			return g.init(p)
		},
	}
	c.Flags().StringArrayVar(&p.families, "family", nil, "`FAMILY` of a row; repeat it for more (default short_answer and code_completion)")
	c.Flags().StringVar(&p.id, "id", "", "the pack's `ID` (default: the folder's name)")
	err := c.RegisterFlagCompletionFunc("family", cobra.FixedCompletions(templateFamilies(), cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is there
	}
	return c
}

// complete asks for what is missing, or takes the default where there is no one to ask.
func (g group) complete(stdin io.Reader, p *newPack) error {
	if f, ok := stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if err := p.ask(stdin, g.Stderr); err != nil {
			return err
		}
	}
	if p.dir == "" {
		return subcommand.UsageError(errors.New("the folder is missing: give DIR, for example: securebench init my-pack"))
	}
	if len(p.families) == 0 {
		p.families = defaultFamilies()
	}
	if p.id == "" {
		p.id = suggestedID(p.dir)
	}
	for i, f := range p.families {
		switch {
		case !slices.Contains(templateFamilies(), f):
			return subcommand.UsageError(fmt.Errorf("--family is %q, want one of %s", f, strings.Join(templateFamilies(), ", ")))
		case slices.Contains(p.families[:i], f):
			return subcommand.UsageError(fmt.Errorf("--family %s is given twice; securebench pack add appends more rows", f))
		}
	}
	if err := checkName("the pack's id", p.id); err != nil {
		return subcommand.UsageError(fmt.Errorf("%w (give --id)", err))
	}
	return nil
}

// suggestedID makes an id of a folder's name.
func suggestedID(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	words := strings.FieldsFunc(strings.ToLower(filepath.Base(abs)), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return strings.Join(words, "-")
}

// ask asks for what no flag says. An empty line takes what is in brackets.
func (p *newPack) ask(in io.Reader, out io.Writer) error {
	q := questions{bufio.NewReader(in), out}
	if p.dir == "" {
		dir, err := q.ask("Folder of the new pack", defaultDir)
		if err != nil {
			return err
		}
		p.dir = dir
	}
	if p.id == "" {
		id, err := q.ask("Its id", suggestedID(p.dir))
		if err != nil {
			return err
		}
		p.id = id
	}
	if len(p.families) > 0 {
		return nil
	}
	for i, f := range templateFamilies() {
		fmt.Fprintf(out, "  %d  %s\n", i+1, f)
	}
	for {
		answer, err := q.ask("Families, as names or numbers", strings.Join(defaultFamilies(), " "))
		if err != nil {
			return err
		}
		var unknown string
		if p.families, unknown = chosen(answer); unknown == "" {
			return nil
		}
		fmt.Fprintf(out, "%s is not one of them\n", redact.Quote(unknown))
	}
}

// chosen reads names or numbers of families; unknown is the first that is neither.
func chosen(answer string) (names []string, unknown string) {
	all := templateFamilies()
	for _, word := range strings.FieldsFunc(answer, func(r rune) bool { return r == ' ' || r == ',' }) {
		if n, err := strconv.Atoi(word); err == nil && n >= 1 && n <= len(all) {
			word = all[n-1]
		}
		if !slices.Contains(all, word) {
			return nil, word
		}
		if !slices.Contains(names, word) {
			names = append(names, word)
		}
	}
	return names, ""
}

// questions asks on a terminal.
type questions struct {
	in  *bufio.Reader
	out io.Writer
}

func (q questions) ask(what, def string) (string, error) {
	fmt.Fprintf(q.out, "%s [%s]: ", what, def)
	line, err := q.in.ReadString('\n')
	if err != nil && strings.TrimSpace(line) == "" {
		return "", subcommand.UsageError(fmt.Errorf("reading the answer: %w", err))
	}
	if line = strings.TrimSpace(line); line == "" {
		return def, nil
	}
	return line, nil
}

// init writes the pack, or nothing.
func (g group) init(p newPack) error {
	made, err := firstPack(p.id, p.families)
	if err != nil {
		return err
	}
	out, err := packdir.New(p.dir, false)
	if err != nil {
		return fault.As(fault.Refused, err)
	}
	defer out.Discard()
	for _, name := range []string{"manifest", schemas.Row, "tester"} {
		text, err := schemas.Text(name, families.All())
		if err != nil {
			return err
		}
		made.Files = append(made.Files, starterFile{Path: schemaDir + "/" + schemaFile(name), Data: text})
	}
	for _, f := range made.Files {
		if err := out.PutFile(f.Path, f.Data, false); err != nil {
			return fault.As(fault.Refused, err)
		}
	}
	if err := out.Commit(); err != nil {
		return fault.As(fault.Refused, err)
	}
	return g.next(p.dir, made)
}

// next says what was written and what to do with it.
func (g group) next(dir string, made starterPack) error {
	name := console.ShellQuote(dir)
	lines := []string{
		fmt.Sprintf("wrote %s: a pack of %s", redact.Quote(dir), console.Plural(made.Rows, "row")), "",
		"  " + g.Called + " pack check " + name,
	}
	if made.Image {
		lines = append(lines, "  "+g.Called+" pack build "+name)
	}
	lines = append(lines,
		"  "+g.Called+" validate "+name,
		"  "+g.Called+" run "+name+" --agent oracle",
		"  "+g.Called+" run --config "+console.ShellQuote(filepath.Join(dir, "tester.yaml")))
	_, err := fmt.Fprintln(g.Stdout, strings.Join(lines, "\n"))
	return err
}
