package subcommand

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"securebench/internal/evidence"
	"securebench/internal/fault"
)

// Trust holds the flags that select the accepted signers of runs.
type Trust struct {
	key       string
	keyGiven  func() bool // also set by an empty --key
	anySigner bool
}

// TrustHelp explains the flags.
const TrustHelp = `
A signature counts if its key is the one of --key or, without that flag, is in
the keyring: your own keys, and those added with "securebench key trust".
With --any-signer, every other key is also accepted, and named: the run is then
known to be intact, but not who signed it.`

// Add adds the flags to a command.
func (f *Trust) Add(c *cobra.Command) {
	c.Flags().StringVar(&f.key, "key", "", "`FILE` of the public key (PEM) that must have signed the run")
	c.Flags().BoolVar(&f.anySigner, "any-signer", false, "accept a signer that is not in the keyring")
	c.MarkFlagsMutuallyExclusive("key", "any-signer")
	f.keyGiven = func() bool { return c.Flags().Changed("key") }
}

// Signers returns whose signature counts; it reads the key of --key.
func (f *Trust) Signers() (evidence.Trust, error) {
	t := evidence.Trust{AnySigner: f.anySigner, Getenv: os.Getenv}
	if !f.keyGiven() {
		return t, nil
	}
	key, err := evidence.ReadPublicKey(f.key)
	t.Key = &key
	return t, err
}

// OpenVerified opens a run and checks it. The caller closes it.
func OpenVerified(ctx context.Context, arg string, f Trust, opts evidence.Options) (*evidence.Run, *evidence.Result, evidence.Signer, error) {
	t, err := f.Signers()
	if err != nil {
		return nil, nil, evidence.Signer{}, err
	}
	return evidence.OpenVerified(ctx, arg, t, opts)
}

// Judge returns why a run cannot be trusted, with advice for the operator.
func Judge(s evidence.Signer, res *evidence.Result) error { return AdviseTrust(s.Judge(res)) }

// AdviseTrust adds advice for the operator to the error of a run whose signer is
// not trusted.
func AdviseTrust(err error) error {
	if untrusted := (*evidence.UntrustedError)(nil); errors.As(err, &untrusted) && !untrusted.OtherKey {
		return fault.Errorf(fault.KindOf(err), "%w (give --key FILE or --any-signer, or trust it: securebench key trust FILE)", err)
	}
	if unfinished := (*evidence.UnfinishedError)(nil); errors.As(err, &unfinished) {
		return fault.Errorf(fault.KindOf(err), "%w (continue it with the command that began it and --resume)", err)
	}
	return err
}

// MaxListed is how many problems of a run are printed with the error.
const MaxListed = 10

// OpenTrusted opens a run that verifies and whose signer is accepted. For any
// other run it prints the first problems.
func (s *Shell) OpenTrusted(ctx context.Context, arg string, f Trust, opts evidence.Options) (*evidence.Run, *evidence.Result, error) {
	run, res, signer, err := OpenVerified(ctx, arg, f, opts)
	if err != nil {
		return nil, nil, err
	}
	if err := Judge(signer, res); err != nil {
		for _, p := range res.Problems[:min(len(res.Problems), MaxListed)] {
			s.Say("%s", p)
		}
		return nil, nil, errors.Join(err, run.Close())
	}
	return run, res, nil
}
