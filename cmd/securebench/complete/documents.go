package complete

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"securebench"
	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/handbook"
	"securebench/internal/redact"
)

const docsHelp = `Find what the documents of this release say, without a network: they are part of the
program.

Without words, the pages to begin with are listed by what you do: write a pack, run
agents, read a score, change securebench. With words, the sections that say most about
them are named, with a line of each. With --page, any page is printed, or a section of one.
`

func docsCommand() *cobra.Command {
	var page string
	c := &cobra.Command{
		Use: "docs [WORD...]", Short: "Find what the documents say", Long: docsHelp, Args: cobra.ArbitraryArgs,
		Example: "  securebench docs\n  securebench docs resume a run\n  securebench docs --page viewer | less\n  securebench docs --page viewer#runs-that-go-on",
		RunE: func(c *cobra.Command, words []string) error {
			b, err := handbook.Open(securebench.Documents)
			if err != nil {
				return err
			}
			w := c.OutOrStdout()
			switch {
			case page != "" && len(words) > 0:
				return subcommand.UsageError(fmt.Errorf("give --page PAGE or words to look for, not both"))
			case page != "":
				text, err := b.Text(page)
				if err != nil {
					return subcommand.UsageError(err)
				}
				_, err = io.WriteString(w, text)
				return err
			case len(words) > 0:
				return search(w, b, strings.Join(words, " "))
			}
			return list(w, b)
		},
	}
	c.Flags().StringVar(&page, "page", "", "print `PAGE`, or PAGE#SECTION, by the name that the list or a search has")
	return c
}

// list lists the pages that the README names, by reader. Others, such as those of single
// families, are found by a search.
func list(w io.Writer, b *handbook.Book) error {
	groups, err := b.Groups()
	if err != nil {
		return err
	}
	t := console.NewTable(w)
	for _, g := range groups {
		t.Line("%s:", g.For)
		for _, p := range g.Pages {
			t.Line("  %s\t%s", p.Name, p.About)
		}
		t.Line("")
	}
	t.Line("securebench docs WORD... finds sections; securebench docs --page PAGE prints a page")
	return t.Flush()
}

// search names the sections that say most about a question.
func search(w io.Writer, b *handbook.Book, question string) error {
	hits := b.Search(question)
	if len(hits) == 0 {
		return subcommand.UsageError(fmt.Errorf("no page says anything about %s: try other words, or securebench docs for the list of pages", redact.Quote(question)))
	}
	for _, h := range hits {
		if _, err := fmt.Fprintf(w, "%s\n    %s\n    %s\n", h.Name, h.Heading, h.Excerpt); err != nil {
			return err
		}
	}
	return nil
}
