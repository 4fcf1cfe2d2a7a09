package fleet

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/remote"
)

func (g group) hubCommand() *cobra.Command {
	c := &cobra.Command{Use: "hub", Short: "Invite and watch the workers of runs with --hub", Args: cobra.NoArgs, RunE: subcommand.Missing}
	c.AddCommand(g.initCommand(), g.inviteCommand(), g.revokeCommand(), g.listCommand(), g.statusCommand(), g.drainCommand())
	return c
}

func (g group) initCommand() *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Make the key and the certificate of this user's hub", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			keys, err := remote.DefaultKeys()
			if err == nil {
				err = keys.Init()
			}
			if errors.Is(err, remote.ErrHub) {
				return fault.As(fault.Refused, err)
			}
			if err == nil {
				g.Say("made the hub in %s", redact.Quote(keys.Dir))
			}
			return fault.As(fault.Config, err)
		},
	}
}

func (g group) inviteCommand() *cobra.Command {
	var name, roles, file string
	c := &cobra.Command{
		Use: "invite --name NAME -o FILE", Short: "Make a credential for workers", Args: cobra.NoArgs,
		Long: `Make a credential for workers, which may be used by any number of them.

A worker with the role produce runs agents and gets the public part of tasks. One with
the role verify scores candidates and gets what evaluation needs. With a credential for
each role, on different machines, no machine that runs an agent has the answers.`,
		Example: "  securebench hub invite --name agents --roles produce -o agents.json\n  securebench hub invite --name scorers --roles verify -o scorers.json",
		RunE: func(*cobra.Command, []string) error {
			if name == "" || file == "" {
				return subcommand.UsageError(errors.New("give --name NAME and -o FILE"))
			}
			may, err := remote.ParseRoles(roles)
			if err != nil {
				return subcommand.UsageError(fmt.Errorf("--roles: %w", err))
			}
			return g.invite(name, may, file)
		},
	}
	c.Flags().StringVar(&name, "name", "", "`NAME` of the credential: lower-case letters, digits and hyphens")
	c.Flags().StringVar(&roles, "roles", "produce,verify", "`ROLES`: produce, verify or produce,verify")
	c.Flags().StringVarP(&file, "output", "o", "", "write the credential to `FILE`, which must not exist")
	return c
}

// invite writes a credential to a new file that only its owner can read.
func (g group) invite(name string, roles []remote.Role, file string) error {
	keys, err := remote.DefaultKeys()
	if err != nil {
		return fault.As(fault.Config, err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return subcommand.Unwritable(file, err)
	}
	credential, err := keys.Invite(name, roles)
	var b []byte
	if err == nil {
		b, err = credential.Bytes()
	}
	if err == nil {
		_, err = f.Write(b)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fault.As(fault.Config, errors.Join(err, os.Remove(file)))
	}
	g.Say("invited %s; whoever has %s can be this worker", name, redact.Quote(file))
	return nil
}

func (g group) revokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "Turn away the workers with a credential", Args: subcommand.Need("NAME"),
		Long: `Turn away the workers with a credential. A run that is under way disconnects them
within seconds, and gives what they have to others.`,
		RunE: func(_ *cobra.Command, args []string) error {
			keys, err := remote.DefaultKeys()
			if err == nil {
				err = keys.Revoke(args[0])
			}
			return fault.As(fault.Config, err)
		},
	}
}

func (g group) listCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the credentials of workers", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			keys, err := remote.DefaultKeys()
			if err != nil {
				return fault.As(fault.Config, err)
			}
			workers, err := keys.Workers()
			if err != nil {
				return fault.As(fault.Config, err)
			}
			return g.list(workers, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per credential")
	return c
}

func (g group) list(workers []remote.Worker, asJSON bool) error {
	if asJSON {
		for _, w := range workers {
			if err := g.PrintJSON(w); err != nil {
				return err
			}
		}
		return nil
	}
	out := console.NewTable(g.Stdout)
	for _, w := range workers {
		out.Line("%s\t%s\tinvited %s", w.Name, join(w.Roles), w.Invited)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("printing the list: %w", err)
	}
	return nil
}

func join(roles []remote.Role) string {
	out := make([]string, len(roles))
	for i, r := range roles {
		out[i] = string(r)
	}
	return strings.Join(out, ",")
}
