package packs

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/config"
	"securebench/internal/console"
	"securebench/internal/fault"
	"securebench/internal/packimage"
	"securebench/internal/pipeline/pack"
	"securebench/internal/sandbox"
)

const packBuildHelp = `Build the images of a pack, or those that are named, through the sandbox engine:
images/NAME/Dockerfile makes the image localhost/ID/NAME:VERSION, with the id
and the version of the pack's manifest. Images that others are built from come
first. One that was built from the same files is kept.

Each build is shown as the docker command that does the same, with the engine's
output. It runs what the author of the pack wrote, with the network of the
engine. A run never builds.`

func (g group) buildCommand() *cobra.Command {
	var rebuild bool
	c := &cobra.Command{
		Use: "build PACK [NAME…]", Short: "Build the images of a pack", Long: packBuildHelp,
		Example: "  securebench pack build packs/quixbugs",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("PACK is missing: see %s --help", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return g.build(c.Context(), args[0], args[1:], rebuild)
		},
	}
	c.Flags().BoolVar(&rebuild, "rebuild", false, "build again what was built from the same files, and repeat every step")
	g.AddEngineFlag(c)
	g.AddLogFlag(c)
	return c
}

func (g group) build(ctx context.Context, arg string, names []string, rebuild bool) error {
	loc, tester, err := subcommand.Locate(arg)
	if err != nil {
		return err
	}
	if tester == nil {
		tester = config.Default()
	}
	m, _, _, err := pack.ReadManifest(loc)
	if err != nil {
		return fault.As(fault.Pack, err)
	}
	job := packimage.Job{Pack: packimage.Pack{Dir: filepath.Dir(loc.Manifest), ID: m.ID, Version: m.Version},
		Names: names, Rebuild: rebuild, Say: g.Say, Log: g.Stderr}
	sum, err := job.Run(ctx, func() (sandbox.Engine, error) { return g.Engine()(ctx, tester.Sandbox, g.Notice) })
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(g.Stdout, "built %s, kept %d\n", console.Plural(sum.Built, "image"), sum.Kept)
	return err
}
