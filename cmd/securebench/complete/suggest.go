package complete

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// near is how many letters a misspelt word may differ from the one that is meant.
const near = 2

// unknown refuses the arguments of a command that only groups others, and says which
// of them may be meant.
func unknown(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], c.CommandPath(), meant(suggestions(c, args[0]), c))
}

func suggestions(c *cobra.Command, word string) []string {
	c.SuggestionsMinimumDistance = near
	return c.SuggestionsFor(word)
}

// flagError adds to the error about an unknown flag which one may be meant.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	flags := &cobra.Command{} // its commands are the flags: cobra compares names of commands alone
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags.AddCommand(&cobra.Command{Use: "--" + f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return fmt.Errorf("%w%s", err, meant(suggestions(flags, "--"+unknown.GetSpecifiedName()), c))
}

// meant names what may be meant, or where to look.
func meant(names []string, c *cobra.Command) string {
	if len(names) == 0 {
		return fmt.Sprintf(": see %s --help", c.CommandPath())
	}
	return fmt.Sprintf(": did you mean %s?", strings.Join(names, " or "))
}
