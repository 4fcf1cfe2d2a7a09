package complete

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"securebench/internal/console"
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
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		return notNumber(invalid)
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	name := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" { // of -agent, which lacks a hyphen
		name = short
	}
	flags := &cobra.Command{} // its commands are the flags: cobra compares only the names of commands
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags.AddCommand(&cobra.Command{Use: "--" + f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return fmt.Errorf("%w%s", err, meant(suggestions(flags, "--"+name), c))
}

// meant names what may be meant, or where to look.
func meant(names []string, c *cobra.Command) string {
	if len(names) == 0 {
		return fmt.Sprintf(": see %s --help", c.CommandPath())
	}
	return fmt.Sprintf(": did you mean %s?", strings.Join(names, " or "))
}

// notNumber says what a flag wants whose value is not a number.
func notNumber(err *pflag.InvalidValueError) error {
	if !errors.As(err, new(*strconv.NumError)) {
		return err
	}
	want := "a whole number"
	switch t := err.GetFlag().Value.Type(); {
	case t == "bool":
		want = "true, false or nothing"
	case strings.HasPrefix(t, "float"):
		want = "a number"
	}
	return fmt.Errorf("--%s is %q, want %s", err.GetFlag().Name, err.GetValue(), want)
}

// strict makes a command refuse flags that are given without a value, such as by a
// variable that is not set: they would count as not given. And it says of arguments
// that are too many or too few what is wanted.
func strict(c *cobra.Command) {
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		var empty error
		c.Flags().Visit(func(f *pflag.Flag) {
			if f.Value.Type() == "string" && f.Value.String() == "" && empty == nil {
				value, _ := pflag.UnquoteUsage(f)
				empty = fmt.Errorf("--%s is empty, want %s: give one, or leave the flag out", f.Name, value)
			}
		})
		if empty != nil {
			return empty
		}
		err := check(c, args)
		if err == nil || !counted(err) {
			return err
		}
		for _, arg := range args {
			if all, _ := values("--resume", nil, ""); c.Flags().Changed("resume") && slices.Contains(all, arg) {
				return fmt.Errorf("the value of --resume follows an equals sign: --resume=%s", arg)
			}
		}
		want := "no arguments"
		if _, names, ok := strings.Cut(c.Use, " "); ok {
			want = names
		}
		return fmt.Errorf("want %s, got %s: see %s --help", want, console.Plural(len(args), "argument"), c.CommandPath())
	}
}

// counted reports whether an error is one of cobra's about the number of arguments.
func counted(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "accepts ") || strings.HasPrefix(text, "requires at least ")
}
