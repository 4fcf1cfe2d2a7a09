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

// trustFlags are the flags that select the accepted signers.
type trustFlags struct {
	key       string
	keyGiven  func() bool // also set by an empty --key
	anySigner bool
}

func (f *trustFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.key, "key", "", "`FILE` of the public key (PEM) that must have signed the run")
	c.Flags().BoolVar(&f.anySigner, "any-signer", false, "accept a signer that is not in the keyring")
	c.MarkFlagsMutuallyExclusive("key", "any-signer")
	f.keyGiven = func() bool { return c.Flags().Changed("key") }
}

const trustHelp = `
A signature counts if its key is the one of --key or, without that flag, is in
the keyring: your own keys, and those added with "securebench key trust".
With --any-signer, every other key is accepted, too, and named: the run is then
known to be intact, but not who signed it.`

const verifyHelp = `Check that a run is complete, unchanged and signed, without network, engine or pack.

RUN is the output directory of a run, a published copy of one, or a bundle.
Everything is checked: records and their hash chain, the run manifest, the signed
statement, the candidates, the operator's restricted folder if present, and
missing or extra files. Each problem is one line on standard output, with file
and line.
` + trustHelp + `

A signature does not prove that the operator was honest. If that matters, derive
the verdicts again with "securebench reverify".

The exit code is 13 if anything is wrong or the signer is unknown.`

func (a *app) verifyCommand() *cobra.Command {
	var trust trustFlags
	var asJSON bool
	c := &cobra.Command{
		Use: "verify RUN", Short: "Check that a run is complete, unchanged and signed",
		Long: verifyHelp, Args: subcommand.Need("RUN"),
		Example: "  securebench verify runs/demo\n  securebench verify demo.zip --key lab.pem\n  securebench verify runs/demo --any-signer --json",
		RunE: func(c *cobra.Command, args []string) error {
			return a.verify(c.Context(), args[0], trust, asJSON)
		},
	}
	trust.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object instead of lines")
	return c
}

func (a *app) verify(ctx context.Context, arg string, f trustFlags, asJSON bool) (err error) {
	run, res, signer, err := openVerified(ctx, arg, f, evidence.Options{})
	if err != nil {
		return err
	}
	if err := run.Close(); err != nil {
		return err
	}
	if asJSON {
		return errors.Join(a.verifyJSON(res, signer), judge(signer, res))
	}
	for _, p := range res.Problems {
		fmt.Fprintln(a.stdout, p)
	}
	if res.More > 0 {
		fmt.Fprintf(a.stdout, "and %s more\n", console.Plural(res.More, "problem"))
	}
	if err := judge(signer, res); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "verified: %s of run %s, signed by %s\n", console.Plural(int(res.Records), "record"), redact.Quote(res.Manifest.RunID), signer)
	for _, note := range res.Remarks(families.All()) {
		fmt.Fprintln(a.stdout, note)
	}
	return nil
}

// trust reads the key of --key.
func (f trustFlags) trust() (evidence.Trust, error) {
	t := evidence.Trust{AnySigner: f.anySigner, Getenv: os.Getenv}
	if !f.keyGiven() {
		return t, nil
	}
	key, err := evidence.ReadPublicKey(f.key)
	t.Key = &key
	return t, err
}

// openVerified opens a run and checks it. The caller closes it.
func openVerified(ctx context.Context, arg string, f trustFlags, opts evidence.Options) (*evidence.Run, *evidence.Result, evidence.Signer, error) {
	t, err := f.trust()
	if err != nil {
		return nil, nil, evidence.Signer{}, err
	}
	return evidence.OpenVerified(ctx, arg, t, opts)
}

// judge returns why a run cannot be trusted, with advice for the operator.
func judge(s evidence.Signer, res *evidence.Result) error {
	err := s.Judge(res)
	if untrusted := (*evidence.UntrustedError)(nil); errors.As(err, &untrusted) && !untrusted.OtherKey {
		return fault.Errorf(fault.KindOf(err), "%w (give --key FILE or --any-signer, or trust it: securebench key trust FILE)", err)
	}
	return err
}

// maxListed is how many problems of a run are printed with the error.
const maxListed = 10

// openTrusted opens a run that verifies and whose signer is accepted. For any
// other run it prints the first problems.
func (a *app) openTrusted(ctx context.Context, arg string, f trustFlags, opts evidence.Options) (*evidence.Run, *evidence.Result, error) {
	run, res, signer, err := openVerified(ctx, arg, f, opts)
	if err != nil {
		return nil, nil, err
	}
	if err := judge(signer, res); err != nil {
		for _, p := range res.Problems[:min(len(res.Problems), maxListed)] {
			a.say("%s", p)
		}
		return nil, nil, errors.Join(err, run.Close())
	}
	return run, res, nil
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
	}{judge(s, res) == nil, res.Manifest.RunID, res.Records, res.Sealed, s.Entry.Key.ID, s.Known, res.Published, res.Manifest.Planned.LeftOut, evidence.Engine(res.Manifest), problems, res.More})
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
	var trust trustFlags
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
	trust.add(c)
	c.Flags().StringVarP(&out, "output", "o", "", "`FILE` to write, such as run.zip")
	c.Flags().BoolVar(&force, "force", false, "replace an existing FILE")
	return c
}

func (a *app) bundle(ctx context.Context, arg, out string, force bool, f trustFlags) (err error) {
	run, _, err := a.openTrusted(ctx, arg, f, evidence.Options{})
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
