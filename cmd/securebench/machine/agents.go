package machine

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/agent/programs"
	"securebench/internal/console"
	"securebench/internal/fault"
)

const agentHelp = `Fetch, list and remove the programs of agents: codex and claude_code.

Programs come from the npm registry, as your npm client is configured: .npmrc of
the project, the user and the machine, and the variables npm_config_*. The npm
client itself is not needed. A package must have the SHA-512 digest that the
registry names.

They are kept in the folder that SECUREBENCH_AGENT_CACHE names, or in
securebench/agents in your cache directory, and are checked before each use. What
is there needs no registry. A run fetches the programs that it does not find there.`

// agentGroup is the command group in its surroundings.
type agentGroup struct{ *subcommand.Shell }

// agentCommand returns the command group.
func agentCommand(sh *subcommand.Shell) *cobra.Command {
	g := agentGroup{sh}
	c := &cobra.Command{Use: "agent", Short: "Fetch, list and remove the programs of agents", Long: agentHelp,
		Args: cobra.NoArgs, RunE: subcommand.Missing,
		Example: "  securebench agent fetch codex@0.169.0\n  securebench agent list"}
	c.AddCommand(g.fetchCommand(), g.listCommand(), g.removeCommand())
	return c
}

func (g agentGroup) open() (*programs.Cache, error) { return programs.OpenCache("", g.Getenv) }

func (g agentGroup) fetchCommand() *cobra.Command {
	var platform string
	c := &cobra.Command{
		Use: "fetch NAME[@VERSION]", Short: "Fetch the program of an agent", Args: subcommand.Need("NAME[@VERSION]"),
		Long: `Fetch the program of an agent, unless it is in the cache, and print its version,
platform and digest. NAME is codex or claude_code. VERSION is an exact version or
a tag of the registry's; without it, it is latest.

For a machine without a network, fetch on another one and copy the cache.`,
		Example: "  securebench agent fetch codex\n  securebench agent fetch claude_code@2.1.330 --platform linux/amd64/musl",
		RunE: func(c *cobra.Command, args []string) error {
			return g.fetch(c.Context(), args[0], platform)
		},
	}
	c.Flags().StringVar(&platform, "platform", "linux/"+runtime.GOARCH, "`PLATFORM`: linux/amd64 or linux/arm64; with /musl for images with that C library")
	return c
}

func (g agentGroup) fetch(ctx context.Context, name, platform string) (err error) {
	p, version, err := programs.ParseName(name)
	if err != nil {
		return err
	}
	on, err := programs.ParsePlatform(platform)
	if err != nil {
		return err
	}
	cache, err := g.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cache.Close()) }()
	r, err := cache.Resolve(ctx, p, version, on, g.Notice)
	if errors.Is(err, context.Canceled) {
		return fault.Errorf(fault.Interrupted, "interrupted; nothing was kept")
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(g.Stdout, "%s %s %s %s\n", r.Program, r.Version, r.Platform, r.Digest)
	return err
}

func (g agentGroup) listCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the programs in the cache", Args: cobra.NoArgs,
		Example: "  securebench agent list\n  securebench agent list --json",
		RunE:    func(*cobra.Command, []string) error { return g.list(asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per program instead of a table")
	return c
}

func (g agentGroup) list(asJSON bool) (err error) {
	cache, err := g.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cache.Close()) }()
	entries, err := cache.List()
	if err != nil {
		return err
	}
	if asJSON {
		return g.lines(entries)
	}
	w := console.NewTable(g.Stdout)
	fmt.Fprintln(w, "NAME\tVERSION\tPLATFORM\tMIB\tDIGEST")
	for _, e := range entries {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", e.Program, e.Version, e.Platform, e.Bytes>>20, console.ShortDigest(e.Digest))
	}
	return w.Flush()
}

func (g agentGroup) lines(entries []programs.Entry) error {
	for _, e := range entries {
		b, err := json.Marshal(struct {
			Name      programs.Program `json:"name"`
			Version   string           `json:"version"`
			Platform  string           `json:"platform"`
			Bytes     int64            `json:"bytes"`
			Integrity string           `json:"integrity"`
			Digest    string           `json:"digest"`
		}{e.Program, e.Version, e.Platform.String(), e.Bytes, e.Integrity, e.Digest})
		if err == nil {
			_, err = fmt.Fprintf(g.Stdout, "%s\n", b)
		}
		if err != nil {
			return fmt.Errorf("printing the programs: %w", err)
		}
	}
	return nil
}
