package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/durable"
	"securebench/internal/evidence"
	"securebench/internal/families"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/source"
)

const verifyHelp = `Check that a run is complete, unchanged and signed, without network, engine or pack.

RUN is the output directory of a run, a published copy of one, or a bundle.
Everything is checked: records and their hash chain, the run manifest, the signed
statement, the candidates, the operator's restricted folder if present, and
missing or extra files. Each problem is one line on standard output, with file
and line.
` + subcommand.TrustHelp + `

A signature does not prove that the operator was honest. If that matters, derive
the verdicts again with "securebench reverify".

The exit code is 13 if anything is wrong or the signer is unknown.`

func (a *app) verifyCommand() *cobra.Command {
	var trust subcommand.Trust
	var asJSON bool
	c := &cobra.Command{
		Use: "verify RUN", Short: "Check that a run is complete, unchanged and signed",
		Long: verifyHelp, Args: subcommand.Need("RUN"),
		Example: "  securebench verify runs/demo\n  securebench verify demo.zip --key lab.pem\n  securebench verify runs/demo --any-signer --json",
		RunE: func(c *cobra.Command, args []string) error {
			return a.verify(c.Context(), args[0], trust, asJSON)
		},
	}
	trust.Add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return c
}

func (a *app) verify(ctx context.Context, arg string, f subcommand.Trust, asJSON bool) (err error) {
	run, res, signer, err := subcommand.OpenVerified(ctx, arg, f, evidence.Options{})
	if err != nil {
		return err
	}
	if err := run.Close(); err != nil {
		return err
	}
	if asJSON {
		return errors.Join(a.verifyJSON(res, signer), subcommand.Judge(signer, res))
	}
	for _, p := range res.Problems {
		fmt.Fprintln(a.stdout, p)
	}
	if res.More > 0 {
		fmt.Fprintf(a.stdout, "and %s more\n", console.Plural(res.More, "problem"))
	}
	if err := subcommand.Judge(signer, res); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "verified: %s of run %s, signed by %s\n", console.Plural(int(res.Records), "record"), redact.Quote(res.Manifest.RunID), signer)
	for _, note := range res.Remarks(families.All()) {
		fmt.Fprintln(a.stdout, note)
	}
	return nil
}

func (a *app) verifyJSON(res *evidence.Result, s evidence.Signer) error {
	problems := make([]evidence.Problem, len(res.Problems))
	for i, p := range res.Problems { // file names can contain any character
		problems[i] = evidence.Problem{File: redact.Escape(p.File), Line: p.Line, What: redact.Escape(p.What)}
	}
	return a.printJSON(struct {
		OK        bool               `json:"ok"`
		RunID     string             `json:"run_id"`
		Records   int64              `json:"records"`
		Sealed    bool               `json:"sealed"`
		Signer    string             `json:"signer"`
		Trusted   bool               `json:"trusted"`
		Published bool               `json:"published_copy"`
		LeftOut   int                `json:"left_out,omitzero"`
		Engine    string             `json:"engine,omitzero"`
		Problems  []evidence.Problem `json:"problems"`
		More      int                `json:"more_problems"`
	}{subcommand.Judge(s, res) == nil, res.Manifest.RunID, res.Records, res.Sealed, s.Entry.Key.ID, s.Known, res.Published, res.Manifest.Planned.LeftOut, evidence.Engine(res.Manifest), problems, res.More})
}

// printJSON prints one object on a line, in ASCII like a record.
func (a *app) printJSON(v any) error {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err == nil {
		_, err = fmt.Fprintf(a.stdout, "%s\n", redact.ASCII(b))
	}
	if err != nil {
		return fmt.Errorf("printing the result: %w", err)
	}
	return nil
}

const bundleHelp = `Write an archive of the publishable part of a run.

The bundle is a ZIP file with one folder: run manifest, records, candidates,
signed statement and, if there is one, the agents' trace. The operator's files
are left out: raw output, salt and former runs. A bundle can be verified on any
machine and without the pack: securebench verify FILE. The same run always gives
the same bytes.

The run must verify; see securebench verify for --key and --any-signer.`

func (a *app) bundleCommand() *cobra.Command {
	var trust subcommand.Trust
	var out string
	var force bool
	c := &cobra.Command{
		Use: "bundle RUN -o FILE", Short: "Write an archive of the publishable part of a run",
		Long: bundleHelp, Args: subcommand.Need("RUN"),
		Example: "  securebench bundle runs/demo -o demo.zip\n  securebench verify demo.zip",
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				return usageError(errors.New("give -o FILE"))
			}
			return a.bundle(c.Context(), args[0], out, force, trust)
		},
	}
	trust.Add(c)
	c.Flags().StringVarP(&out, "output", "o", "", "the archive to write, such as run.zip")
	c.Flags().BoolVar(&force, "force", false, "replace an existing FILE")
	return c
}

func (a *app) bundle(ctx context.Context, arg, out string, force bool, f subcommand.Trust) (err error) {
	run, _, err := a.shell().OpenTrusted(ctx, arg, f, evidence.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if _, err := os.Lstat(out); err == nil && !force {
		return fault.As(fault.Refused, fmt.Errorf("%s exists already: give --force to replace it", out))
	}
	return writeWhole(out, func(w io.Writer) error { return evidence.WriteBundle(w, run) })
}

// unwritable returns the error for a file of -o that cannot be written. The
// wrapped error names only a temporary file, which the operator does not know.
func unwritable(name string, err error) error {
	if pe := (*os.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	return fault.As(fault.Refused, fmt.Errorf("%s cannot be written: %w", redact.Quote(name), err))
}

// writeWhole creates or replaces a file atomically.
func writeWhole(name string, write func(io.Writer) error) (err error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return unwritable(name, fmt.Errorf("it is %s", source.FileType(info.Mode())))
	}
	dir, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return unwritable(name, err)
	}
	defer dir.Close()
	f, err := durable.Create(dir, durable.UniqueName("."), 0o644)
	if err != nil {
		return unwritable(name, err)
	}
	if err := write(f); err != nil {
		return errors.Join(unwritable(name, err), f.Discard())
	}
	if err := f.Commit(filepath.Base(name)); err != nil {
		return unwritable(name, err)
	}
	return nil
}
