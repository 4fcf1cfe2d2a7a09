package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/agent/catalogue"
	"securebench/internal/agent/programs"
	"securebench/internal/config"
	"securebench/internal/console"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
)

func (g agentGroup) removeCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "remove {NAME@VERSION | --all}", Short: "Remove programs of agents", Args: cobra.MaximumNArgs(1),
		Long: `Remove a program of an agent, for all platforms, or all programs: from the cache,
and from the sandbox engine if one answers. A program that a sandbox uses stays.`,
		Example: "  securebench agent remove codex@0.155.0\n  securebench agent remove --all",
		RunE: func(c *cobra.Command, args []string) error {
			if all == (len(args) == 1) {
				return subcommand.UsageError(errors.New("give either NAME@VERSION or --all"))
			}
			if all {
				return g.remove(c.Context(), "", "")
			}
			all, err := catalogue.Load(g.Getenv)
			if err != nil {
				return err
			}
			p, version, err := programs.ParseName(args[0], catalogue.Packages(all))
			if err != nil {
				return err
			}
			if !strings.Contains(args[0], "@") {
				return subcommand.UsageError(fmt.Errorf("give the version as well: %s@VERSION", p.Name))
			}
			return g.remove(c.Context(), programs.Program(p.Name), version)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "remove all programs")
	g.AddEngineFlag(c)
	g.AddLogFlag(c)
	return c
}

// remove removes a version, or everything if p is empty.
func (g agentGroup) remove(ctx context.Context, p programs.Program, version string) (err error) {
	cache, err := g.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cache.Close()) }()
	removed, err := cache.Remove(ctx, p, version)
	if err != nil {
		return err
	}
	overlays, err := g.removeOverlays(ctx, p, version)
	if err != nil {
		return err
	}
	if p != "" && len(removed)+overlays == 0 {
		return fault.Errorf(fault.Config, "there is no %s %s to remove: see securebench agent list --cached", p, redact.Quote(version))
	}
	_, err = fmt.Fprintf(g.Stdout, "removed %s from the cache, %d from the engine\n", console.Plural(len(removed), "program"), overlays)
	return err
}

// removeOverlays removes from the engine what runs mounted.
func (g agentGroup) removeOverlays(ctx context.Context, p programs.Program, version string) (n int, err error) {
	engine, err := g.Engine()(ctx, config.Default().Sandbox, g.Notice)
	switch {
	case fault.KindOf(err) == fault.Engine:
		g.Say("no engine answers: programs that it keeps stay; start it and repeat the command to remove them")
		return 0, nil
	case err != nil:
		return 0, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	keeper, ok := engine.(sandbox.Overlays)
	if !ok {
		return 0, nil
	}
	return removeFrom(ctx, keeper, p, version)
}

// removeFrom removes the overlays of a version, or all, and returns how many.
func removeFrom(ctx context.Context, keeper sandbox.Overlays, p programs.Program, version string) (n int, err error) {
	specs, err := keeper.Overlays(ctx)
	if err != nil {
		return 0, fault.As(fault.Engine, err)
	}
	for _, s := range specs {
		if p != "" && !strings.HasPrefix(s.Key, programs.KeyPrefix(p, version)) {
			continue
		}
		if failed := keeper.RemoveOverlay(ctx, s.Key); failed != nil {
			err = errors.Join(err, fault.Errorf(fault.Refused, "%s: %w", redact.Quote(s.Title), failed))
			continue
		}
		n++
	}
	return n, err
}
