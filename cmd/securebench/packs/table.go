package packs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/families"
	"securebench/internal/fault"
	"securebench/internal/importer"
	"securebench/internal/importer/hub"
	"securebench/internal/importer/mapping"
	"securebench/internal/importer/packdir"
	"securebench/internal/importer/table"
	"securebench/internal/redact"
)

// tableImport is what "pack import table" is asked.
type tableImport struct {
	mapping.Options

	out, delimiter, from string
	families             []string
	pause                time.Duration
}

// tableCommand is "pack import table"; after a pause, a host that does not answer is asked
// again.
func (g group) tableCommand(pause time.Duration) *cobra.Command {
	t := tableImport{pause: pause}
	c := &cobra.Command{
		Use: "table [FILE]… -o DIR", Short: "Make a pack of tables", Args: cobra.ArbitraryArgs,
		Long: `Make a pack of tables: CSV, TSV, JSON, JSON lines or Parquet. Each --map says which
column a field of the rows is taken from; without any, the columns are shown with a first
value. Every row is checked by the rules of its family, and each that cannot be a task is
listed with its place; nothing is written then, unless --leave-out leaves such rows out.

In place of FILE, --from names a data set of the Hugging Face hub, whose revision is pinned,
or a file's address. HF_TOKEN is the hub's token, HF_ENDPOINT another hub, and a proxy is
taken from HTTPS_PROXY.

COLUMN is a column's name, with .NAME for what is below it; columns joined by +, under one
another as a text, or as the members of a list; a column with ~PATTERN, for what the
pattern's group finds; a text with {column} in it; or a JSON value.

` + fieldsHelp("short_answer", "multiple_choice", "multimodal_qa", "code_completion", "free_response", "preference_pair"),
		Example: "  securebench pack import table law.csv\n" +
			"  securebench pack import table law.csv --family multiple_choice -o packs/law \\\n    --map question=prompt --map choices=A+B+C+D --map answer=label\n" +
			"  securebench pack import table --from hf:openai/gsm8k:main/test --family short_answer -o packs/gsm8k \\\n    --map question=question --map 'answer=answer~#### (.+)$'",
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkLimit(c, t.Limit); err != nil {
				return err
			}
			return g.importTable(c.Context(), args, t)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&t.out, "output-dir", "o", "", "`DIR` to write (required)")
	fl.StringVar(&t.from, "from", "", "fetch `ADDRESS`: hf:OWNER/NAME[@REVISION][:CONFIG/SPLIT], or https://HOST/FILE[#sha256=DIGEST]")
	fl.StringArrayVar(&t.families, "family", nil, "`FAMILY` of the rows (required)")
	fl.StringArrayVar(&t.Map, "map", nil, "`FIELD=COLUMN`; repeat it for each field")
	fl.StringArrayVar(&t.Where, "where", nil, "only rows with `COLUMN=VALUE`, or != < <= > >= ~PATTERN !~PATTERN; repeat it for more")
	fl.StringVar(&t.Answers, "answers", mapping.ByAny, "`WAY` in which answers name choices: "+strings.Join(mapping.Ways(), ", "))
	fl.StringVar(&t.Separator, "separator", "", "`TEXT` between the choices or answers of one text")
	fl.StringVar(&t.Seed, "seed", "", "`SEED` that orders choices, recorded in each row (default: as they are)")
	fl.StringVar(&t.Read.Split, "split", "", "`NAME` of the part that is imported, of a data set of the hub or a JSON object of lists")
	fl.StringVar(&t.Read.As, "read-as", "", "`TYPE` of the files: "+strings.Join(table.Formats(), ", ")+" (default: by their names)")
	fl.StringVar(&t.delimiter, "delimiter", "", "`CHARACTER` between the columns of CSV (default a comma), or tab")
	fl.BoolVar(&t.Read.NoQuotes, "no-quotes", false, "take quotes of CSV and TSV for characters like any other")
	fl.IntVar(&t.Limit, "limit", 0, "import only the first `N` rows (default all)")
	fl.BoolVar(&t.LeaveOut, "leave-out", false, "leave out rows that cannot be tasks, and list them in the pack")
	fl.StringVar(&t.ID, "id", "", "the pack's `ID` (default: the name of the folder)")
	fl.StringVar(&t.Licence, "licence", "", "`TEXT` that names the licence of the data")
	fl.StringVar(&t.Image, "image", importer.DefaultImage, "the rows' `IMAGE`, where they need one")
	fl.BoolVar(&t.Force, "force", false, "replace files that exist, and remove others of a former import")
	return c
}

// fieldsHelp says which fields families have.
func fieldsHelp(names ...string) string {
	var b strings.Builder
	b.WriteString("Fields of each family, beside id, tags, metadata.NAME, input.NAME and eval.NAME:\n")
	for _, name := range names {
		fmt.Fprintf(&b, "\n  %s\n", name)
		for _, line := range mapping.Fields(name) {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// complete reads what the flags say in other words.
func (t *tableImport) complete(files []string) error {
	switch {
	case len(files) == 0 && t.from == "":
		return errors.New("missing table: give FILE, or --from ADDRESS")
	case len(files) > 0 && t.from != "":
		return errors.New("give FILE or --from, not both")
	case t.from != "" && !hub.IsAddress(t.from):
		return fmt.Errorf("--from is %q: want hf:OWNER/NAME[@REVISION][:CONFIG/SPLIT] or https://HOST/FILE; a file of this machine is given without --from", t.from)
	case len(t.families) > 1:
		return errors.New("--family is given twice: a pack of a table has rows of one family")
	}
	switch r, size := utf8.DecodeRuneInString(t.delimiter); {
	case t.delimiter == "tab":
		t.Read.Delimiter = '\t'
	case t.delimiter == "":
	case size != len(t.delimiter) || strings.ContainsRune("\"\r\n", r) || r == utf8.RuneError:
		return fmt.Errorf("--delimiter is %q: give one character that is no quote, or tab", t.delimiter)
	default:
		t.Read.Delimiter = r
	}
	if len(t.families) == 1 {
		t.Family = t.families[0]
	}
	if t.ID == "" {
		t.ID = suggestedID(t.out)
	}
	return nil
}

// tables are the tables to import, of which those from elsewhere are fetched.
func (g group) tables(ctx context.Context, files []string, t *tableImport) (out []mapping.Table, err error) {
	if t.from == "" {
		base := filepath.Base(files[0])
		t.Dataset = strings.TrimSuffix(base, filepath.Ext(base))
		for _, f := range files {
			out = append(out, mapping.Table{Path: f, Name: f})
		}
		return out, nil
	}
	got, err := hub.Fetch(ctx, t.from, hub.Options{Getenv: g.Getenv, Say: g.Say, Split: t.Read.Split, Pause: t.pause})
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(t.from, "hf:") {
		t.Read.Split = "" // that of the data set, not of a file
	}
	t.Dataset, t.Origin, t.Licence = got.Dataset, got.Origin, cmp.Or(t.Licence, got.Licence)
	for _, f := range got.Files {
		out = append(out, mapping.Table{Path: f.Path, Name: f.Name, At: f.At})
	}
	return out, nil
}

func (g group) importTable(ctx context.Context, files []string, t tableImport) error {
	if err := t.complete(files); err != nil {
		return subcommand.UsageError(err)
	}
	mapped := len(t.Map) > 0 && t.Family != ""
	if mapped && t.out == "" {
		return subcommand.UsageError(errors.New("missing output folder: give -o DIR"))
	}
	if mapped {
		if err := mapping.Check(families.All(), t.Options); err != nil {
			return subcommand.UsageError(err)
		}
	}
	tables, err := g.tables(ctx, files, &t)
	if err != nil {
		return err
	}
	if !mapped {
		return g.columns(tables[0], t)
	}
	sum, err := mapping.Import(ctx, tables, families.All(), t.out, t.Options)
	usage := mapping.UsageError{}
	switch {
	case err != nil && ctx.Err() != nil:
		return fault.As(fault.Interrupted, errors.New("interrupted while importing: nothing was written"))
	case errors.As(err, &usage):
		return subcommand.UsageError(err)
	case errors.Is(err, packdir.ErrExists) || errors.Is(err, packdir.ErrOutput):
		return fault.As(fault.Refused, err)
	case err != nil:
		return fault.As(fault.Pack, err)
	}
	return g.imported(t, sum)
}

// maxSaid is how many lines of a kind are printed; ATTRIBUTION.md has them all.
const maxSaid = 20

// imported says what came of it.
func (g group) imported(t tableImport, sum mapping.Result) error {
	for _, l := range []struct {
		what  string
		lines []string
	}{{"left out", sum.LeftOut}, {"in doubt", sum.Doubts}, {"note", sum.Notes}} {
		for _, line := range l.lines[:min(len(l.lines), maxSaid)] {
			g.Say("%s: %s", l.what, line)
		}
		if more := len(l.lines) - maxSaid; more > 0 {
			g.Say("%s: %d more, which ATTRIBUTION.md lists", l.what, more)
		}
	}
	_, err := fmt.Fprintf(g.Stdout, "imported %s of %s into %s: %s\nnext: %s validate %s\n", console.Plural(sum.Rows, "row"), t.Family, redact.Quote(t.out),
		strings.Join(sum.Files, ", "), g.Called, console.ShellQuote(t.out))
	return err
}

// columns shows what a table has, for whoever has to say what is mapped.
func (g group) columns(first mapping.Table, t tableImport) error {
	all, err := mapping.Columns(first, t.Read)
	if err != nil {
		return fault.As(fault.Pack, err)
	}
	tab := console.NewTable(g.Stdout)
	tab.Line("%s", "column\ttype\tfirst value")
	for _, c := range all {
		kind := c.Type
		if len(c.Classes) > 0 {
			kind += ", classes " + strings.Join(c.Classes, ", ")
		}
		tab.Line("%s\t%s\t%s", console.Cell(c.Name, 60), redact.EscapeShort(kind, 100), redact.EscapeShort(c.First, 60))
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	if t.Family == "" {
		return subcommand.UsageError(errors.New("--family is missing: say of which family the rows are, and with --map which column each field is"))
	}
	return subcommand.UsageError(fmt.Errorf("--map is missing: say which column each field of %s is\n%s", t.Family, strings.Join(mapping.Fields(t.Family), "\n")))
}
