package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/earlier"
	"securebench/internal/evidence"
	"securebench/internal/redact"
	"securebench/internal/selection"
)

// choiceFlags choose some of a pack's rows.
type choiceFlags struct {
	choice   selection.Choice
	failedIn string
	changed  func(string) bool
}

// choiceHelp explains the flags.
const choiceHelp = `
--task, --family, --tag and --failed-in choose rows: a row runs if it meets each
of the flags that are given, and one of the values of a flag that is repeated.
In a pattern of --task, * matches any characters. --sample draws from those rows,
--limit takes the first of what is left, and --shuffle only changes the order.
The same --seed draws the same rows on every machine. Rows that are left out are
counted in the summary, in run.json, in the statement and in every report.`

// add adds the flags to a command.
func (f *choiceFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringArrayVar(&f.choice.Tasks, "task", nil, "run the tasks whose id matches `PATTERN`, such as 'HumanEval/1*' (repeatable)")
	fl.StringArrayVar(&f.choice.Families, "family", nil, "run the tasks of family `NAME` (repeatable)")
	fl.StringArrayVar(&f.choice.Tags, "tag", nil, "run the tasks with `NAME` in metadata.tags (repeatable)")
	fl.StringVar(&f.failedIn, "failed-in", "", "run the tasks with an attempt that did not pass in `RUN`")
	fl.IntVar(&f.choice.Sample, "sample", 0, "run `N` tasks, drawn at random")
	fl.Uint64Var(&f.choice.Seed, "seed", 0, "`S` determines what --sample draws and how --shuffle sorts")
	fl.BoolVar(&f.choice.Shuffle, "shuffle", false, "run the tasks in a random order")
	f.changed = fl.Changed
}

// check rejects invalid values.
func (f *choiceFlags) check() error {
	switch {
	case f.changed("sample") && f.choice.Sample < 1:
		return subcommand.UsageError(errors.New("--sample must be 1 or more"))
	case f.changed("seed") && f.choice.Sample == 0 && !f.choice.Shuffle:
		return subcommand.UsageError(errors.New("--seed needs --sample or --shuffle"))
	case f.changed("failed-in") && f.failedIn == "":
		return subcommand.UsageError(errors.New("--failed-in is empty, want the output directory of a run"))
	}
	return f.choice.Check()
}

// of returns what the flags choose for a run into outputDir. It reads the run
// of --failed-in, which must verify and be signed by a key of the keyring.
func (f *choiceFlags) of(ctx context.Context, outputDir string) (selection.Choice, error) {
	c := f.choice
	if f.failedIn == "" {
		return c, nil
	}
	a, err := os.Stat(f.failedIn)
	if b, other := os.Stat(outputDir); err == nil && other == nil && os.SameFile(a, b) {
		return c, subcommand.UsageError(fmt.Errorf("--failed-in %s is the output directory of this run: give another --output-dir", redact.Quote(f.failedIn)))
	}
	if c.FailedIn, err = earlier.Open(ctx, f.failedIn, evidence.Trust{Getenv: os.Getenv}); err != nil {
		return c, fmt.Errorf("--failed-in: %w", err)
	}
	return c, nil
}
