package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"securebench/internal/attest"
	"securebench/internal/config"
	"securebench/internal/evidence"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// trustFlags say whose signature counts.
type trustFlags struct {
	key       string
	keyGiven  func() bool // "" is no key either
	anySigner bool
}

func (f *trustFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.key, "key", "", "file of the public key (PEM) that must have signed the run")
	c.Flags().BoolVar(&f.anySigner, "any-signer", false, "accept a signer that is not in the keyring")
	c.MarkFlagsMutuallyExclusive("key", "any-signer")
	f.keyGiven = func() bool { return c.Flags().Changed("key") }
}

const trustHelp = `
A signature counts if its key is the one of --key or, without that flag, is in
the keyring: your own keys, and those that you gave to "securebench key trust".
--any-signer accepts every other key too, and says which one it was: the run is
then known to be whole, not whose it is.`

const verifyHelp = `Check that a run is whole, unchanged and signed, without network, engine or pack.

RUN is the output directory of a run, a published copy of one, or a bundle.
Every byte counts: records and their chain, the run manifest, the signed
statement, the candidates, the operator's restricted folder where it is there,
and files that are missing or do not belong. Each problem is one line on
standard output, with file and line.
` + trustHelp + `

What a signature does not say is that the operator was honest. Derive the
verdicts again with "securebench reverify" where that matters.

The exit code is 13 when anything is wrong, and for an unknown signer.`

func (a *app) verifyCommand() *cobra.Command {
	var trust trustFlags
	var asJSON bool
	c := &cobra.Command{
		Use: "verify RUN", Short: "Check that a run is whole, unchanged and signed",
		Long: verifyHelp, Args: need("RUN"),
		Example: "  securebench verify runs/demo\n  securebench verify demo.zip --key lab.pem\n  securebench verify runs/demo --any-signer --json",
		RunE: func(c *cobra.Command, args []string) error {
			return a.verify(c.Context(), args[0], trust, asJSON)
		},
	}
	trust.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
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
		return errors.Join(a.verifyJSON(res, signer), signer.judge(res))
	}
	for _, p := range res.Problems {
		fmt.Fprintln(a.stdout, p)
	}
	if res.More > 0 {
		fmt.Fprintf(a.stdout, "and %s more\n", plural(res.More, "problem"))
	}
	if err := signer.judge(res); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "verified: %s of run %s, signed by %s\n", plural(int(res.Records), "record"), redact.Quote(res.Manifest.RunID), signer)
	for _, note := range notes(res) {
		fmt.Fprintln(a.stdout, note)
	}
	return nil
}

// notes are what a reader of a verified run should know besides.
func notes(res *evidence.Result) (out []string) {
	out = append(out, res.Notes...)
	if res.Published {
		out = append(out, "published copy: the operator's restricted and history folders are not here and were not checked")
	}
	m := res.Manifest
	if n := m.Planned.LeftOut; n > 0 {
		out = append(out, fmt.Sprintf("part of the pack: %d of its %s were left out by a flag", n, plural(n+m.Planned.Tasks, "row")))
	}
	out = append(out, limitNotes(m.Limits)...)
	if n := m.FormerRuns; n > 0 {
		out = append(out, plural(n, "former run")+" lay in the same directory before")
	}
	for _, r := range m.ResumedFrom {
		line := fmt.Sprintf("resumed at %s with %s", redact.Escape(r.At), plural(r.Kept, "record"))
		for _, reason := range slices.Sorted(maps.Keys(r.Rerun)) {
			line += fmt.Sprintf(", %s %d", redact.Escape(reason), r.Rerun[reason])
		}
		out = append(out, line)
	}
	return out
}

// limitNotes names the limits of a run that are not this build's defaults:
// more time or memory can be the better score.
func limitNotes(l record.Limits) (out []string) {
	def := config.Default().Limits
	for _, c := range []struct {
		name     string
		was, def any
	}{
		{"memory", l.Memory, def.Memory}, {"cpus", l.CPUs, def.CPUs}, {"pids", l.Pids, def.Pids},
		{"disk", l.Disk, def.Disk}, {"files", cmp.Or(l.Files, def.Files), def.Files}, {"output", l.Output, def.Output}, {"candidate", l.Candidate, def.Candidate},
		{"produce_seconds", l.ProduceSeconds, def.Produce.Seconds()},
	} {
		if c.was != c.def {
			out = append(out, fmt.Sprintf("limit %s: %v, by default %v", c.name, c.was, c.def))
		}
	}
	reg := families()
	for _, name := range slices.Sorted(maps.Keys(l.VerifySeconds)) {
		if fam, ok := reg[name]; ok && l.VerifySeconds[name] != float64(fam.VerifySeconds) {
			out = append(out, fmt.Sprintf("limit verify_seconds of %s: %v, by default %d", name, l.VerifySeconds[name], fam.VerifySeconds))
		}
	}
	return out
}

// signature is who signed a run, and whether that counts.
type signature struct {
	entry attest.Entry
	known bool // in the keyring, or the key of --key
	any   bool // unknown keys are accepted
	key   bool // --key says which one it must be
}

// String names the signer for a reader.
func (s signature) String() string {
	switch {
	case !s.known:
		return "unknown key " + s.entry.Key.ID
	case s.entry.Role == attest.RoleSigning, s.entry.Role == attest.RoleRetired:
		return "your own key " + s.entry.Key.ID
	case s.entry.Name != "":
		return redact.Escape(s.entry.Name) + ", " + s.entry.Key.ID
	}
	return s.entry.Key.ID
}

// judge returns why the run is not to be believed, or nil.
func (s signature) judge(res *evidence.Result) error {
	switch {
	case !res.OK():
		return coded(exitIntegrity, fmt.Errorf("the run does not verify: %s", plural(len(res.Problems)+res.More, "problem")))
	case !s.known && s.key:
		return coded(exitIntegrity, fmt.Errorf("the run is whole, but signed by %s, not by the key of --key", s.entry.Key.ID))
	case !s.known && !s.any:
		return coded(exitIntegrity, fmt.Errorf("the run is whole, but signed by a key that is not trusted: %s (give --key FILE, or --any-signer, or trust it: securebench key trust FILE)", s.entry.Key.ID))
	}
	return nil
}

// openVerified opens a run and checks it. The caller closes it.
func openVerified(ctx context.Context, arg string, f trustFlags, opts evidence.Options) (*evidence.Run, *evidence.Result, signature, error) {
	var s signature
	want, err := f.wanted()
	if err != nil {
		return nil, nil, s, err
	}
	run, err := openRun(arg)
	if err != nil {
		return nil, nil, s, err
	}
	res, err := run.Verify(ctx, opts)
	if err == nil && res.Sealed {
		s, err = f.signature(res.Signer, want)
	}
	if ctx.Err() != nil {
		err = coded(exitInterrupted, errors.New("interrupted"))
	}
	if err != nil {
		return nil, nil, s, errors.Join(err, run.Close())
	}
	return run, res, s, nil
}

// openTrusted opens a run that is to be believed. Of any other it says the
// first problems.
func (a *app) openTrusted(ctx context.Context, arg string, f trustFlags, opts evidence.Options) (*evidence.Run, *evidence.Result, error) {
	run, res, signer, err := openVerified(ctx, arg, f, opts)
	if err != nil {
		return nil, nil, err
	}
	if err := signer.judge(res); err != nil {
		for _, p := range res.Problems[:min(len(res.Problems), maxProblems)] {
			a.say("%s", p)
		}
		return nil, nil, errors.Join(err, run.Close())
	}
	return run, res, nil
}

// openRun opens a run; what is no run is wrong usage.
func openRun(arg string) (*evidence.Run, error) {
	run, err := evidence.OpenRun(arg)
	if errors.Is(err, evidence.ErrBroken) {
		return nil, coded(exitIntegrity, err)
	}
	if err != nil {
		return nil, coded(exitUsage, err)
	}
	for _, name := range []string{record.LinesName, record.ManifestName, record.StatementName} {
		if _, err := fs.Stat(run, name); err == nil {
			return run, nil
		}
	}
	code := exitUsage
	if run.Bundle() {
		code = exitIntegrity
	}
	return nil, errors.Join(coded(code, fmt.Errorf("%s holds no run: no %s, no %s", redact.Quote(arg), record.ManifestName, record.LinesName)), run.Close())
}

// wanted is the key of --key, nil without it.
func (f trustFlags) wanted() (*attest.PublicKey, error) {
	if !f.keyGiven() {
		return nil, nil
	}
	raw, err := source.ReadFile(f.key, maxKeyInput)
	if err != nil {
		return nil, coded(exitConfig, fmt.Errorf("reading the key: %w", err))
	}
	key, err := attest.ParsePublicKey(raw)
	if err != nil {
		return nil, coded(exitConfig, fmt.Errorf("%s: %w", redact.Quote(f.key), err))
	}
	return &key, nil
}

// signature looks the signer up.
func (f trustFlags) signature(signer attest.PublicKey, want *attest.PublicKey) (signature, error) {
	s := signature{entry: attest.Entry{Key: signer}, any: f.anySigner}
	if want != nil {
		s.known, s.key = signer == *want, true
		return s, nil
	}
	ring, err := openKeyring()
	if err != nil && f.anySigner {
		return s, nil // without a home there are no keys to know
	}
	if err != nil {
		return s, keyError(err)
	}
	e, ok, err := ring.Lookup(signer.ID)
	if err != nil {
		return s, keyError(err)
	}
	if ok && e.Key == signer {
		s.entry, s.known = e, true
	}
	return s, nil
}

func (a *app) verifyJSON(res *evidence.Result, s signature) error {
	problems := make([]evidence.Problem, len(res.Problems))
	for i, p := range res.Problems { // names of files can hold anything
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
		Problems  []evidence.Problem `json:"problems"`
		More      int                `json:"more_problems"`
	}{s.judge(res) == nil, res.Manifest.RunID, res.Records, res.Sealed, s.entry.Key.ID, s.known, res.Published, res.Manifest.Planned.LeftOut, problems, res.More})
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

const bundleHelp = `Write an archive of what may be published of a run.

The bundle is a zip of one folder: run manifest, records, candidates, signed
statement and, where there is one, the agents' trace. The operator's folders
are left out: raw output, salt and former runs. It verifies by itself, on any
machine and without the pack: securebench verify FILE. The same run gives the
same bytes.

The run must verify; see securebench verify for --key and --any-signer.`

func (a *app) bundleCommand() *cobra.Command {
	var trust trustFlags
	var out string
	var force bool
	c := &cobra.Command{
		Use: "bundle RUN -o FILE", Short: "Write an archive of what may be published of a run",
		Long: bundleHelp, Args: need("RUN"),
		Example: "  securebench bundle runs/demo -o demo.zip\n  securebench verify demo.zip",
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				return coded(exitUsage, errors.New("give -o FILE"))
			}
			return a.bundle(c.Context(), args[0], out, force, trust)
		},
	}
	trust.add(c)
	c.Flags().StringVarP(&out, "output", "o", "", "the archive to write, such as run.zip")
	c.Flags().BoolVar(&force, "force", false, "replace FILE if it is there")
	return c
}

func (a *app) bundle(ctx context.Context, arg, out string, force bool, f trustFlags) (err error) {
	run, _, err := a.openTrusted(ctx, arg, f, evidence.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if _, err := os.Lstat(out); err == nil && !force {
		return coded(exitRefused, fmt.Errorf("%s is there already: give --force to replace it", out))
	}
	return writeWhole(out, func(w *os.File) error { return evidence.WriteBundle(w, run) })
}

// unwritable is a file of -o that cannot be written. What stood in the way has
// the name of a file beside it, which nobody gave.
func unwritable(name string, err error) error {
	if pe := (*os.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	return coded(exitRefused, fmt.Errorf("%s cannot be written: %w", redact.Quote(name), err))
}

// writeWhole makes a file that is there whole or not at all.
func writeWhole(name string, write func(*os.File) error) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return unwritable(name, fmt.Errorf("it is %s", source.FileType(info.Mode())))
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".securebench-*")
	if err != nil {
		return unwritable(name, err)
	}
	err = write(f)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(unwritable(name, err), os.Remove(f.Name()))
	}
	return nil
}
