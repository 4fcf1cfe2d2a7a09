package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/attest"
	"securebench/internal/console"
	"securebench/internal/evidence"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/source"
)

const keyHelp = `Manage the keys that sign runs and those that verify them.

A complete run is signed with the signing key, which the first run generates.
The keyring is the directory that SECUREBENCH_KEYS names, or securebench/keys
in your configuration directory:

  signing.pem  the signing key (PKCS#8, Ed25519); only you may read it
  retired/     public halves of former signing keys: old runs still verify
  trusted/     public keys of others whose runs you trust

An ID is "sha256:" and 64 hex digits; the first 8 or more digits suffice if they
are unique. No command prints a private key: to move the signing key to another
machine, copy signing.pem and import it there.

The exit code is 10 for an invalid key file, 13 for a keyring that other users
could read or change, and 15 if the command is refused.`

func (a *app) keyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "key", Short: "Generate, show and trust the keys that sign runs", Long: keyHelp,
		Args: cobra.NoArgs, RunE: subcommand.Missing,
		Example: "  securebench key list\n  securebench key trust lab.pem --name lab",
	}
	c.AddCommand(a.keyNewCommand(), a.keyShowCommand(), a.keyListCommand(), a.keyExportCommand(), a.keyImportCommand(), a.keyTrustCommand())
	return c
}

func (a *app) keyNewCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "new", Short: "Generate a signing key", Args: cobra.NoArgs,
		Long: `Generate a signing key and print its id. If there is one already, the command is
refused unless --force is given. With --force, the private half of the former
key is deleted; its public half is kept, so that old runs still verify.`,
		Example: "  securebench key new\n  securebench key new --force",
		RunE: func(*cobra.Command, []string) error {
			return a.keyNew(force)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "retire the existing signing key")
	return c
}

func (a *app) keyNew(force bool) error {
	ring, err := evidence.OpenKeyring(os.Getenv)
	if err != nil {
		return err
	}
	key, err := evidence.NewSigningKey(ring, force)
	if err != nil {
		return keyAdvice(err)
	}
	return a.placed(ring, key)
}

// keyAdvice adds advice to the error for an existing signing key.
func keyAdvice(err error) error {
	if errors.Is(err, evidence.ErrHasKey) {
		return fault.Errorf(fault.KindOf(err), "%w: give --force to retire it", err)
	}
	return err
}

// placed prints the new signing key and its file.
func (a *app) placed(ring *attest.Keyring, key attest.PublicKey) error {
	a.say("the signing key is in %s: keep this file secret", redact.Escape(ring.SigningFile()))
	_, err := fmt.Fprintln(a.stdout, key.ID)
	return err
}

func (a *app) keyShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show the signing key's id and public half", Args: cobra.NoArgs,
		Example: "  securebench key show",
		RunE: func(*cobra.Command, []string) error {
			k, err := publicKey(nil)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "%s\n%s", k.ID, k.PEM())
			return err
		},
	}
}

func (a *app) keyListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the keys", Args: cobra.NoArgs,
		Long:    "List the signing key, the retired and the trusted keys.",
		Example: "  securebench key list\n  securebench key list --json",
		RunE: func(*cobra.Command, []string) error {
			return a.keyList(asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per key instead of a table")
	return c
}

func (a *app) keyList(asJSON bool) error {
	ring, err := evidence.OpenKeyring(os.Getenv)
	if err != nil {
		return err
	}
	entries, err := ring.List()
	if err != nil {
		return evidence.KeyringError(err)
	}
	if asJSON {
		return a.keyLines(entries)
	}
	w := console.NewTable(a.stdout)
	fmt.Fprintln(w, "ROLE\tID\tNAME")
	for _, e := range entries {
		fmt.Fprintf(w, "%s\tsha256:%s\t%s\n", e.Role, console.ShortDigest(e.Key.ID), cmp.Or(e.Name, "-"))
	}
	return w.Flush()
}

func (a *app) keyLines(entries []attest.Entry) error {
	for _, e := range entries {
		b, err := json.Marshal(struct {
			Role attest.Role `json:"role"`
			ID   string      `json:"id"`
			Name string      `json:"name"`
		}{e.Role, e.Key.ID, e.Name})
		if err == nil {
			_, err = fmt.Fprintf(a.stdout, "%s\n", b)
		}
		if err != nil {
			return fmt.Errorf("printing the keys: %w", err)
		}
	}
	return nil
}

func (a *app) keyExportCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "export [ID] [-o FILE]", Short: "Write a public key as PEM", Args: cobra.MaximumNArgs(1),
		Long: `Write a public key as PEM: that of the signing key, unless an ID is given. Give
it to those who should trust your runs. A private key is never written: to move
the signing key to another machine, copy signing.pem and import it there.`,
		Example: "  securebench key export -o lab.pem\n  securebench key export 1f2e3d4c",
		RunE: func(_ *cobra.Command, args []string) error {
			k, err := publicKey(args)
			if err == nil {
				err = a.exportKey(k, out)
			}
			return err
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "new `FILE` to write instead of standard output")
	return c
}

// exportKey never replaces a file, because that could be a key.
func (a *app) exportKey(k attest.PublicKey, file string) error {
	if file == "" {
		_, err := a.stdout.Write(k.PEM())
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fault.As(fault.Refused, fmt.Errorf("exporting the key: %s already exists: remove it or choose another file", redact.Escape(file)))
	}
	if err != nil {
		return subcommand.Unwritable(file, err)
	}
	_, err = f.Write(k.PEM())
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(subcommand.Unwritable(file, err), os.Remove(file))
	}
	return nil
}

func (a *app) keyImportCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "import FILE", Short: "Import a signing key", Args: subcommand.Need("FILE"),
		Long: `Make a private key (Ed25519, PKCS#8 PEM, not encrypted) the signing key and print
its id; FILE may be - for standard input. If there is a signing key already, the
command is refused unless --force is given, as with "key new". FILE is left
unchanged.`,
		Example: "  securebench key import signing.pem\n  openssl genpkey -algorithm ed25519 | securebench key import -",
		RunE: func(c *cobra.Command, args []string) error {
			return a.keyImport(c.InOrStdin(), args[0], force)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "retire the existing signing key")
	return c
}

func (a *app) keyImport(stdin io.Reader, file string, force bool) error {
	return withKeyFile(stdin, file, func(ring *attest.Keyring, in io.Reader, name string) error {
		key, err := evidence.ImportSigningKey(ring, in, name, force)
		if err != nil {
			return keyAdvice(err)
		}
		return a.placed(ring, key)
	})
}

// withKeyFile opens the keyring and a key file, or standard input for "-".
func withKeyFile(stdin io.Reader, file string, use func(ring *attest.Keyring, in io.Reader, name string) error) error {
	ring, err := evidence.OpenKeyring(os.Getenv)
	if err != nil {
		return err
	}
	if file == "-" {
		return use(ring, stdin, "standard input")
	}
	f, err := source.Open(file)
	if err != nil {
		return fault.As(fault.Config, fmt.Errorf("reading the key: %w", err))
	}
	defer f.Close()
	return use(ring, f, redact.Escape(file))
}

func (a *app) keyTrustCommand() *cobra.Command {
	var name, remove string
	c := &cobra.Command{
		Use: "trust {FILE [--name NAME] | --remove ID}", Short: "Trust another party's public key", Args: cobra.MaximumNArgs(1),
		Long: `Trust the runs that another party's key signed: add a public key (Ed25519, PEM)
and print its id; FILE may be - for standard input. Confirm the id with the
key's owner before you rely on a score. A key that is already trusted gets the
new name. With --remove, a key is no longer trusted.`,
		Example: "  securebench key trust lab.pem --name lab\n  securebench key trust --remove 1f2e3d4c",
		RunE: func(c *cobra.Command, args []string) error {
			removing := c.Flags().Changed("remove")
			switch {
			case removing && (len(args) > 0 || c.Flags().Changed("name")):
				return usageError(errors.New("--remove takes an ID and nothing else"))
			case removing:
				return a.keyDistrust(remove)
			case len(args) == 0:
				return usageError(errors.New("give the FILE of a public key, or --remove ID"))
			}
			return a.keyTrust(c.InOrStdin(), args[0], name)
		},
	}
	c.Flags().StringVar(&name, "name", "", "`NAME` of the key: letters, digits, spaces and . _ - @")
	c.Flags().StringVar(&remove, "remove", "", "stop trusting the key with this `ID`")
	return c
}

func (a *app) keyTrust(stdin io.Reader, file, name string) error {
	return withKeyFile(stdin, file, func(ring *attest.Keyring, in io.Reader, from string) error {
		k, err := evidence.TrustKey(ring, in, from, name)
		if err == nil {
			_, err = fmt.Fprintln(a.stdout, k.ID)
		}
		return err
	})
}

func (a *app) keyDistrust(id string) error {
	ring, err := evidence.OpenKeyring(os.Getenv)
	if err != nil {
		return err
	}
	if err := ring.Distrust(id); err != nil {
		return evidence.KeyringError(err)
	}
	a.say("the key is no longer trusted")
	return nil
}

// publicKey returns the key with the id in args, or the signing key's public
// half.
func publicKey(args []string) (attest.PublicKey, error) {
	ring, err := evidence.OpenKeyring(os.Getenv)
	if err != nil {
		return attest.PublicKey{}, err
	}
	if len(args) == 0 {
		return evidence.FindKey(ring, "")
	}
	return evidence.FindKey(ring, args[0])
}
