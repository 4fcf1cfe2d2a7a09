package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"securebench/internal/evidence"
	"securebench/internal/preview"
	"securebench/internal/run"
)

// previewFlags are the flags of run that show what it would do.
type previewFlags struct {
	dryRun, json bool
	past         string
}

func (f *previewFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.BoolVar(&f.dryRun, "dry-run", false, "show what would run and what it needs, and run nothing")
	fl.StringVar(&f.past, "estimate-from", "", "with --dry-run: estimate time and cost by the records of `RUN`")
	fl.BoolVar(&f.json, "json", false, "print one JSON object about the --dry-run")
}

func (f *previewFlags) check() error {
	if !f.dryRun && (f.json || f.past != "") {
		return usageError(errors.New("--json and --estimate-from need --dry-run"))
	}
	return nil
}

// preview shows what the run would do. The error says why it could not begin.
func (a *app) preview(ctx context.Context, f *runFlags, o run.Options) error {
	report := f.renderer(a.stderr)
	defer func() { _ = report.Close() }() // the stream remembers write errors
	o.Progress, o.Notice = report, a.notice
	p, err := preview.Look(ctx, o, preview.Options{Past: f.preview.past, Trust: evidence.Trust{Getenv: os.Getenv}})
	if err != nil {
		return a.openError(ctx, err, o.Config.OutputDir)
	}
	write := p.WriteText
	if f.preview.json {
		write = p.WriteJSON
	}
	return errors.Join(write(a.stdout), p.Prevented())
}
