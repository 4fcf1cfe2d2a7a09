package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/agent/catalogue"
	"securebench/internal/agent/programs"
	"securebench/internal/console"
	"securebench/internal/fault"
	"securebench/internal/gateway/access"
	"securebench/internal/redact"
)

const agentHelp = `List, show and check the agents that runs know by name, and fetch and remove their
programs.

What securebench knows of an agent is data: one file for each, of its own or in the
folder that SECUREBENCH_AGENTS names, else in securebench/agents in your
configuration directory (docs/agents.md).

Programs come from the npm registry, as your npm client is configured: .npmrc of
the project, the user and the machine, and the variables npm_config_*. The npm
client itself is not needed. A package must have the SHA-512 digest that the
registry names. Agents in Python come from the Python registry, as pip is
configured, with a Python from a mirror of Debian (SECUREBENCH_DEBIAN_MIRROR), as
is the C library that Node runs with; all of that is pinned by SHA-256.

They are kept in the folder that SECUREBENCH_AGENT_CACHE names, or in
securebench/agents in your cache directory, and are checked before each use. What
is there needs no registry. A run fetches the programs that it does not find there.`

// agentGroup is the command group in its surroundings.
type agentGroup struct{ *subcommand.Shell }

// agentCommand returns the command group.
func agentCommand(sh *subcommand.Shell) *cobra.Command {
	g := agentGroup{sh}
	c := &cobra.Command{Use: "agent", Short: "List, show and check agents; fetch and remove their programs", Long: agentHelp,
		Args: cobra.NoArgs, RunE: subcommand.Missing,
		Example: "  securebench agent fetch codex@0.169.0\n  securebench agent list"}
	c.AddCommand(g.fetchCommand(), g.listCommand(), g.showCommand(), g.checkCommand(), g.removeCommand())
	return c
}

func (g agentGroup) open() (*programs.Cache, error) { return programs.OpenCache("", g.Getenv) }

// entries lists what is in the cache.
func (g agentGroup) entries() (out []programs.Entry, err error) {
	cache, err := g.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cache.Close()) }()
	return cache.List()
}

func (g agentGroup) fetchCommand() *cobra.Command {
	var platform string
	c := &cobra.Command{
		Use: "fetch NAME[@VERSION]", Short: "Fetch the program of an agent", Args: subcommand.Need("NAME[@VERSION]"),
		Long: `Fetch the program of an agent, unless it is in the cache, and print its version,
platform and digest; likewise what runs it, such as Node or Python. NAME is one of securebench
agent list. VERSION is an exact version or a tag of the registry's; without it, it is
latest.

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
	all, err := catalogue.Load(g.Getenv)
	if err != nil {
		return err
	}
	p, version, err := programs.ParseName(name, catalogue.Packages(all))
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
	err = g.resolve(ctx, cache, p, version, on)
	for _, by := range p.Runtimes() {
		if err == nil {
			err = g.resolve(ctx, cache, by, by.Exact, on)
		}
	}
	return err
}

// resolve fetches a program, and prints what it is.
func (g agentGroup) resolve(ctx context.Context, cache *programs.Cache, p catalogue.Package, version string, on programs.Platform) error {
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
	var asJSON, cached bool
	c := &cobra.Command{
		Use: "list", Short: "List the agents, or the programs in the cache", Args: cobra.NoArgs,
		Example: "  securebench agent list\n  securebench agent list --cached --json",
		RunE: func(*cobra.Command, []string) error {
			if cached {
				return g.list(asJSON)
			}
			return g.catalogue(asJSON)
		},
	}
	c.Flags().BoolVar(&cached, "cached", false, "list the programs in the cache, with their digests")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line instead of a table")
	return c
}

// listed is an agent as it is listed.
type listed struct {
	Name   string   `json:"name"`
	Speaks []string `json:"speaks"`
	Cached []string `json:"cached"` // versions, for any platform
	Own    bool     `json:"own"`    // of the operator's folder
	About  string   `json:"about"`
}

// catalogue lists the agents.
func (g agentGroup) catalogue(asJSON bool) error {
	all, err := catalogue.Load(g.Getenv)
	if err != nil {
		return err
	}
	entries, err := g.entries()
	if err != nil {
		return err
	}
	w := console.NewTable(g.Stdout)
	if !asJSON {
		fmt.Fprintln(w, "NAME\tSPEAKS\tIN THE CACHE\tABOUT")
	}
	for _, a := range all {
		l := listed{Name: a.Name, Own: a.Own, About: a.About, Speaks: []string{}, Cached: []string{}}
		for _, by := range a.Providers {
			l.Speaks = append(l.Speaks, by.API)
		}
		for _, e := range entries {
			if string(e.Program) == a.Name && !slices.Contains(l.Cached, e.Version) {
				l.Cached = append(l.Cached, e.Version)
			}
		}
		if asJSON {
			if err := json.MarshalWrite(g.Stdout, l); err != nil {
				return fmt.Errorf("printing the agents: %w", err)
			}
			fmt.Fprintln(g.Stdout)
			continue
		}
		for i, api := range l.Speaks {
			l.Speaks[i] = access.Short(api)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.Name, strings.Join(l.Speaks, " "), cmp.Or(strings.Join(l.Cached, " "), "-"), redact.Escape(l.About))
	}
	return w.Flush()
}

func (g agentGroup) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Print the description of an agent", Args: subcommand.Need("NAME"),
		Long: `Print the description of an agent: where its program comes from, what it is started
with, what it speaks with its provider and how its output is read. A copy of it under
another name, in the folder of your own agents, is where to begin with one of them.`,
		Example: "  securebench agent show opencode",
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := catalogue.Lookup(g.Getenv, args[0])
			if err == nil {
				_, err = g.Stdout.Write(a.Text())
			}
			return err
		},
	}
}

// list lists the programs in the cache.
func (g agentGroup) list(asJSON bool) error {
	entries, err := g.entries()
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
